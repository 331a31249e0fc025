//! Maps the driver's errors to errors of a store.
//!
//! Invariant: a write that may have been applied is never reported as refused. An error that is not
//! known here says nothing about its outcome.

use idmatch_store::{Error, ErrorKind};
use scylla::errors::{
    DbError, ExecutionError, PrepareError, RequestAttemptError, SchemaAgreementError,
};
use std::fmt::Display;

/// The advice where servers do not answer, or too few of them do.
const UNAVAILABLE_HINT: &str = "see whether its nodes are up, or allow more time with timeout=";

/// The possible outcome of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It may have been applied; a retry may help.
    Unknown,
    /// It may have been applied; the answer is not understood.
    Undecodable,
    /// It was not applied; a retry may help.
    NotApplied,
    /// It was not applied; a retry does not help.
    Rejected,
}

impl Outcome {
    /// Whether a retry may help.
    pub(crate) fn is_retryable(self) -> bool {
        matches!(self, Outcome::Unknown | Outcome::NotApplied)
    }

    /// Whether it may have been applied.
    pub(crate) fn maybe_applied(self) -> bool {
        matches!(self, Outcome::Unknown | Outcome::Undecodable)
    }
}

/// A request that failed and is not retried any more.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Whether any of its attempts may have been applied.
    pub(crate) maybe_applied: bool,
    /// The consistency that it needed, and the nodes that were connected.
    pub(crate) servers: String,
    /// The error of the last attempt.
    pub(crate) error: ExecutionError,
}

/// Classifies an error.
pub(crate) fn outcome(error: &ExecutionError) -> Outcome {
    match error {
        // No server received it.
        ExecutionError::ConnectionPoolError(_) | ExecutionError::EmptyPlan => Outcome::NotApplied,
        ExecutionError::BadQuery(_) | ExecutionError::PrepareError(_) => Outcome::Rejected,
        ExecutionError::LastAttemptError(error) => attempt_outcome(error),
        // The request timed out, or a step after a schema change failed.
        _ => Outcome::Unknown,
    }
}

/// Classifies the error of an attempt at one node.
pub(crate) fn attempt_outcome(error: &RequestAttemptError) -> Outcome {
    match error {
        RequestAttemptError::DbError(error, _) => answer_outcome(error),
        RequestAttemptError::UnableToAllocStreamId => Outcome::NotApplied,
        // Not sent, or sent as a statement that the node does not know.
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::RepreparedIdChanged { .. }
        | RequestAttemptError::RepreparedIdMissingInBatch => Outcome::Rejected,
        RequestAttemptError::BodyExtensionsParseError(_)
        | RequestAttemptError::CqlResultParseError(_)
        | RequestAttemptError::CqlErrorParseError(_)
        | RequestAttemptError::UnexpectedResponse(_)
        | RequestAttemptError::NonfinishedPagingState => Outcome::Undecodable,
        // A connection that broke, and errors of later drivers.
        _ => Outcome::Unknown,
    }
}

fn answer_outcome(error: &DbError) -> Outcome {
    match error {
        // Returned before anything is applied.
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::FunctionFailure { .. }
        | DbError::AuthenticationError
        | DbError::Unauthorized
        | DbError::ConfigError
        | DbError::ProtocolError => Outcome::Rejected,
        DbError::IsBootstrapping
        | DbError::Unprepared { .. }
        | DbError::RateLimitReached { rejected_by_coordinator: true, .. } => Outcome::NotApplied,
        // A replica may have applied it before another one was overloaded (Overloaded,
        // RateLimitReached); a conditional write may have been agreed on before too few nodes were
        // left (Unavailable). Newer servers have error codes that are not known here.
        _ => Outcome::Unknown,
    }
}

/// Whether a node is overloaded.
pub(crate) fn is_overload(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::DbError(error, _) => matches!(
            error,
            DbError::Overloaded
                | DbError::RateLimitReached { .. }
                | DbError::ReadTimeout { .. }
                | DbError::WriteTimeout { .. }
        ),
        RequestAttemptError::UnableToAllocStreamId => true,
        _ => false,
    }
}

/// The required and available replicas in a node's error.
pub(crate) fn replica_counts(error: &RequestAttemptError) -> Option<&DbError> {
    let RequestAttemptError::DbError(error, _) = error else { return None };
    let counts = matches!(
        error,
        DbError::Unavailable { .. }
            | DbError::ReadTimeout { .. }
            | DbError::WriteTimeout { .. }
            | DbError::ReadFailure { .. }
            | DbError::WriteFailure { .. }
    );
    counts.then_some(error)
}

/// Whether a node does not know a keyspace or a table. A node that was down may not know it yet.
/// Servers have no code for this, only texts, each its own.
pub(crate) fn names_unknown_table(error: &ExecutionError) -> bool {
    const WORDS: [&str; 3] = ["does not exist", "doesn't exist", "unconfigured table"];
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, text)) => {
            WORDS.iter().any(|words| text.contains(words))
        }
        _ => false,
    }
}

/// Classifies the error of a preparation.
pub(crate) fn preparation_outcome(error: &PrepareError) -> Outcome {
    match error {
        PrepareError::ConnectionPoolError(_) => Outcome::NotApplied,
        PrepareError::AllAttemptsFailed { first_attempt } => attempt_outcome(first_attempt),
        _ => Outcome::Rejected,
    }
}

/// The error to log, without the text of a server, which may contain values of the statement.
pub(crate) fn without_text(error: &ExecutionError) -> &dyn Display {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _))
        | ExecutionError::SchemaAgreementError(SchemaAgreementError::RequestError(
            RequestAttemptError::DbError(error, _),
        )) => error,
        error => error,
    }
}

/// The error of a read that failed.
pub(crate) fn read_error(what: &str, failure: Failure) -> Error {
    let Failure { servers, error, .. } = failure;
    let kind = kind_of(outcome(&error));
    let text = match kind {
        ErrorKind::Unavailable => format!("cannot read {what}: {servers}; {UNAVAILABLE_HINT}"),
        _ => format!("the servers refuse to read {what}"),
    };
    Error::with_source(kind, text, error)
}

/// The error of a write that was given up. A write that was certainly not applied is `UnknownOutcome` too,
/// where a retry could apply it: other parts of the same operation may be done.
pub(crate) fn write_error(what: &str, failure: Failure) -> Error {
    let Failure { maybe_applied, servers, error } = failure;
    let (kind, text) = match outcome(&error) {
        Outcome::Rejected if !maybe_applied => {
            (ErrorKind::Io, format!("the servers refuse to write {what}"))
        }
        _ => (
            ErrorKind::UnknownOutcome,
            format!(
                "it is unknown whether {what} was written: {servers}; repeat it, which is always safe"
            ),
        ),
    };
    Error::with_source(kind, text, error)
}

/// The error of rows that do not match the tables of `spec/cql/`.
pub(crate) fn unexpected(
    what: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::with_source(ErrorKind::Corrupt, format!("cannot understand {what}"), error)
}

/// The error of a statement that cannot be prepared.
pub(crate) fn prepare_error(statement: &str, servers: &str, error: PrepareError) -> Error {
    let outcome = preparation_outcome(&error);
    let text = match outcome.is_retryable() {
        true => format!("cannot prepare statements; {servers}; {UNAVAILABLE_HINT}"),
        false => format!("the servers do not take {statement:?}"),
    };
    Error::with_source(kind_of(outcome), text, error)
}

/// The error kind of a request that changes nothing.
fn kind_of(outcome: Outcome) -> ErrorKind {
    if outcome.is_retryable() { ErrorKind::Unavailable } else { ErrorKind::Io }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::{OperationType, WriteType};
    use scylla::statement::Consistency;
    use std::time::Duration;

    fn of(error: DbError) -> Outcome {
        let attempt = RequestAttemptError::DbError(error, String::new());
        outcome(&ExecutionError::LastAttemptError(attempt))
    }

    fn limited(rejected_by_coordinator: bool) -> DbError {
        let op_type = OperationType::Write;
        DbError::RateLimitReached { op_type, rejected_by_coordinator }
    }

    #[test]
    fn only_what_was_certainly_not_done_is_called_so() {
        let consistency = Consistency::LocalQuorum;
        let timeout = DbError::WriteTimeout {
            consistency,
            received: 1,
            required: 2,
            write_type: WriteType::Simple,
        };
        let unavailable = DbError::Unavailable { consistency, required: 2, alive: 1 };
        for (error, expected) in [
            (timeout, Outcome::Unknown),
            (unavailable, Outcome::Unknown),
            (DbError::Overloaded, Outcome::Unknown),
            (DbError::ServerError, Outcome::Unknown),
            // The error of protocol 5 for a conditional write.
            (DbError::Other(0x1700), Outcome::Unknown),
            (limited(false), Outcome::Unknown),
            (limited(true), Outcome::NotApplied),
            (DbError::IsBootstrapping, Outcome::NotApplied),
            (DbError::Unauthorized, Outcome::Rejected),
            (DbError::Invalid, Outcome::Rejected),
        ] {
            assert_eq!(of(error.clone()), expected, "{error}");
        }
        let late = ExecutionError::RequestTimeout(Duration::from_secs(1));
        assert_eq!(outcome(&late), Outcome::Unknown);
        assert_eq!(outcome(&ExecutionError::EmptyPlan), Outcome::NotApplied);
        let garbled = RequestAttemptError::NonfinishedPagingState;
        assert!(attempt_outcome(&garbled).maybe_applied());
        assert!(!attempt_outcome(&garbled).is_retryable());
    }

    #[test]
    fn a_refusal_after_an_attempt_that_may_have_been_done_is_unknown() {
        let refusal = || RequestAttemptError::DbError(DbError::Unauthorized, String::new());
        let kind = |maybe_applied| {
            let (servers, error) = (String::new(), refusal().into());
            write_error("rows", Failure { maybe_applied, servers, error }).kind()
        };
        assert_eq!(kind(false), ErrorKind::Io);
        assert_eq!(kind(true), ErrorKind::UnknownOutcome);
    }
}
