//! What the driver reports, as errors of a store.
//!
//! Invariant: what may have been done is never called refused. Of an error that is not known here
//! nothing is known.

use idmatch_store::{Error, ErrorKind};
use scylla::errors::{DbError, ExecutionError, PrepareError, RequestAttemptError};

/// What to do when servers do not answer, or too few of them do.
const SERVERS_ARE_AWAY: &str = "see whether its nodes are up, or allow more time with timeout=";

/// What may have become of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It may have been done; trying again may help.
    Unknown,
    /// It may have been done, and was answered in a way that is not understood.
    Garbled,
    /// It was not done; trying again may help.
    NotDone,
    /// It was not done, and never will be.
    Refused,
}

impl Outcome {
    /// Whether trying again may help.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Outcome::Unknown | Outcome::NotDone)
    }

    /// Whether it may have been done.
    pub(crate) fn may_be_done(self) -> bool {
        matches!(self, Outcome::Unknown | Outcome::Garbled)
    }
}

/// A request that was given up.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Whether any of its attempts may have been done.
    pub(crate) may_be_done: bool,
    /// What it needed of the servers, and what there was of them.
    pub(crate) servers: String,
    /// What the last attempt met.
    pub(crate) error: ExecutionError,
}

/// Judges a failure.
pub(crate) fn outcome(error: &ExecutionError) -> Outcome {
    match error {
        // No server was asked.
        ExecutionError::ConnectionPoolError(_) | ExecutionError::EmptyPlan => Outcome::NotDone,
        ExecutionError::BadQuery(_) | ExecutionError::PrepareError(_) => Outcome::Refused,
        ExecutionError::LastAttemptError(error) => attempt_outcome(error),
        // Time was over, or what follows a change of tables failed.
        _ => Outcome::Unknown,
    }
}

/// Judges what one node said, or did not say.
pub(crate) fn attempt_outcome(error: &RequestAttemptError) -> Outcome {
    match error {
        RequestAttemptError::DbError(error, _) => answer_outcome(error),
        RequestAttemptError::UnableToAllocStreamId => Outcome::NotDone,
        // Not sent, or sent as a statement that the node does not know.
        RequestAttemptError::SerializationError(_)
        | RequestAttemptError::CqlRequestSerialization(_)
        | RequestAttemptError::RepreparedIdChanged { .. }
        | RequestAttemptError::RepreparedIdMissingInBatch => Outcome::Refused,
        RequestAttemptError::BodyExtensionsParseError(_)
        | RequestAttemptError::CqlResultParseError(_)
        | RequestAttemptError::CqlErrorParseError(_)
        | RequestAttemptError::UnexpectedResponse(_)
        | RequestAttemptError::NonfinishedPagingState => Outcome::Garbled,
        // A connection that broke, and what later drivers add.
        _ => Outcome::Unknown,
    }
}

fn answer_outcome(error: &DbError) -> Outcome {
    match error {
        // Said before anything is done.
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::AlreadyExists { .. }
        | DbError::FunctionFailure { .. }
        | DbError::AuthenticationError
        | DbError::Unauthorized
        | DbError::ConfigError
        | DbError::ProtocolError => Outcome::Refused,
        DbError::IsBootstrapping
        | DbError::Unprepared { .. }
        | DbError::RateLimitReached { rejected_by_coordinator: true, .. } => Outcome::NotDone,
        // A replica may have done it before another was too busy (Overloaded, RateLimitReached); a
        // conditional write may have been agreed on before too few nodes were left (Unavailable).
        // Errors of newer servers have numbers that are not known here.
        _ => Outcome::Unknown,
    }
}

/// Whether a node had more to do than it can.
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

/// What a node said of how many copies were needed, and how many there were.
pub(crate) fn counts_copies(error: &RequestAttemptError) -> Option<&DbError> {
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

/// Whether a node does not know a keyspace or a table. One that was away may not have heard of it yet.
/// Servers have no number of its own for that, only words, each its own.
pub(crate) fn is_unheard_of(error: &ExecutionError) -> bool {
    const WORDS: [&str; 3] = ["does not exist", "doesn't exist", "unconfigured table"];
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::Invalid, text)) => {
            WORDS.iter().any(|words| text.contains(words))
        }
        _ => false,
    }
}

/// Judges a preparation that failed.
pub(crate) fn preparation_outcome(error: &PrepareError) -> Outcome {
    match error {
        PrepareError::ConnectionPoolError(_) => Outcome::NotDone,
        PrepareError::AllAttemptsFailed { first_attempt } => attempt_outcome(first_attempt),
        _ => Outcome::Refused,
    }
}

/// The error of a read that was given up.
pub(crate) fn unread(what: &str, failure: Failure) -> Error {
    let Failure { servers, error, .. } = failure;
    let kind = kind_of(outcome(&error));
    let text = match kind {
        ErrorKind::Unavailable => format!("cannot read {what}: {servers}; {SERVERS_ARE_AWAY}"),
        _ => format!("the servers refuse to read {what}"),
    };
    Error::with_source(kind, text, error)
}

/// The error of a write that was given up. Also what was certainly not done is `UnknownOutcome`, as long
/// as it could be done later: it is a part of something, other parts of which are done.
pub(crate) fn unwritten(what: &str, failure: Failure) -> Error {
    let Failure { may_be_done, servers, error } = failure;
    let (kind, text) = match outcome(&error) {
        Outcome::Refused if !may_be_done => {
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

/// The error of rows that are not what the tables of `spec/cql/` hold.
pub(crate) fn unexpected(
    what: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::with_source(ErrorKind::Corrupt, format!("cannot understand {what}"), error)
}

/// The error of a statement that cannot be prepared.
pub(crate) fn unprepared(statement: &str, servers: &str, error: PrepareError) -> Error {
    let outcome = preparation_outcome(&error);
    let text = match outcome.may_pass() {
        true => format!("cannot prepare statements; {servers}; {SERVERS_ARE_AWAY}"),
        false => format!("the servers do not take {statement:?}"),
    };
    Error::with_source(kind_of(outcome), text, error)
}

/// The kind of error of what changes nothing.
fn kind_of(outcome: Outcome) -> ErrorKind {
    if outcome.may_pass() { ErrorKind::Unavailable } else { ErrorKind::Io }
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
            // What servers of protocol 5 say of a conditional write.
            (DbError::Other(0x1700), Outcome::Unknown),
            (limited(false), Outcome::Unknown),
            (limited(true), Outcome::NotDone),
            (DbError::IsBootstrapping, Outcome::NotDone),
            (DbError::Unauthorized, Outcome::Refused),
            (DbError::Invalid, Outcome::Refused),
        ] {
            assert_eq!(of(error.clone()), expected, "{error}");
        }
        let late = ExecutionError::RequestTimeout(Duration::from_secs(1));
        assert_eq!(outcome(&late), Outcome::Unknown);
        assert_eq!(outcome(&ExecutionError::EmptyPlan), Outcome::NotDone);
        let garbled = RequestAttemptError::NonfinishedPagingState;
        assert!(attempt_outcome(&garbled).may_be_done());
        assert!(!attempt_outcome(&garbled).may_pass());
    }

    #[test]
    fn a_refusal_after_an_attempt_that_may_have_been_done_is_unknown() {
        let refusal = || RequestAttemptError::DbError(DbError::Unauthorized, String::new());
        let kind = |may_be_done| {
            let (servers, error) = (String::new(), refusal().into());
            unwritten("rows", Failure { may_be_done, servers, error }).kind()
        };
        assert_eq!(kind(false), ErrorKind::Io);
        assert_eq!(kind(true), ErrorKind::UnknownOutcome);
    }
}
