//! What the driver reports, as errors of a store.

use idmatch_store::{Error, ErrorKind};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

/// What may have become of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It may have been done; trying again may help.
    Unknown,
    /// It was not done; trying again may help.
    NotDone,
    /// It was not done, and never will be.
    Refused,
}

/// Judges a failure.
pub(crate) fn outcome(error: &ExecutionError) -> Outcome {
    match error {
        ExecutionError::RequestTimeout(_)
        | ExecutionError::SchemaAgreementError(_)
        | ExecutionError::MetadataError(_) => Outcome::Unknown,
        ExecutionError::ConnectionPoolError(_) | ExecutionError::EmptyPlan => Outcome::NotDone,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => match error {
            DbError::Unavailable { .. }
            | DbError::IsBootstrapping
            | DbError::RateLimitReached { .. } => Outcome::NotDone,
            DbError::Overloaded
            | DbError::ReadTimeout { .. }
            | DbError::ReadFailure { .. }
            | DbError::WriteTimeout { .. }
            | DbError::WriteFailure { .. }
            | DbError::TruncateError
            | DbError::ServerError => Outcome::Unknown,
            _ => Outcome::Refused,
        },
        ExecutionError::LastAttemptError(RequestAttemptError::UnableToAllocStreamId) => {
            Outcome::NotDone
        }
        ExecutionError::LastAttemptError(RequestAttemptError::BrokenConnectionError(_)) => {
            Outcome::Unknown
        }
        _ => Outcome::Refused,
    }
}

/// The error of a read that was given up.
pub(crate) fn unread(what: &str, error: ExecutionError) -> Error {
    let kind = match outcome(&error) {
        Outcome::Unknown | Outcome::NotDone => ErrorKind::Unavailable,
        Outcome::Refused => ErrorKind::Io,
    };
    Error::with_source(kind, format!("cannot read {what}"), error)
}

/// The error of a write that was given up, when `worst` is the least that is known of its attempts.
/// The driver tells of its last attempt only, so that nothing but a refusal says that it was not done.
pub(crate) fn unwritten(what: &str, worst: Outcome, error: ExecutionError) -> Error {
    let (kind, text) = match worst {
        Outcome::Unknown | Outcome::NotDone => (
            ErrorKind::UnknownOutcome,
            format!("it is unknown whether {what} was written; repeat it, which is always safe"),
        ),
        Outcome::Refused => (ErrorKind::Io, format!("the servers refuse to write {what}")),
    };
    Error::with_source(kind, text, error)
}

/// The error of rows that are not what the tables of `spec/cql/` hold.
pub(crate) fn unexpected(
    what: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::with_source(ErrorKind::Corrupt, format!("cannot understand {what}"), error)
}

/// The error of a statement that cannot be prepared.
pub(crate) fn unprepared(statement: &str, error: scylla::errors::PrepareError) -> Error {
    Error::with_source(ErrorKind::Io, format!("the servers do not take {statement:?}"), error)
}
