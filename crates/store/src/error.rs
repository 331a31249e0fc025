//! One error type for every store. It says what was wrong, with which value, and what to do.
//!
//! The text speaks for this level alone; a cause from below is in `source()`.

use crate::row_numbers::RowNumbers;
use idmatch_model::{SeenAt, TableName, TableOptions};
use std::fmt;
use std::time::Duration;

/// The result of anything a store does.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error. Each has a stable code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An argument that no store could take: a bad name, window, key or column type.
    InvalidArgument,
    /// Input rows broke the rules: the caller asked to stop at the first bad row, or all rows of a population
    /// are bad (nulls apart).
    BadInput,
    /// No table of that name.
    TableNotFound,
    /// A table of that name exists, with other options.
    TableExists,
    /// No store at that place, or something that is not one.
    NotAStore,
    /// Another process writes this store.
    Busy,
    /// The store was made by a version that this one does not read.
    UnsupportedFormat,
    /// Stored bytes are not what was written.
    Corrupt,
    /// The disk, the operating system or the servers refused.
    Io,
    /// The input could not be read.
    Source,
    /// Too few servers of the store answer. A change was not begun, or it stopped between two requests and
    /// the requests before stay done. Repeating it is safe.
    Unavailable,
    /// A write was not acknowledged in time: it may be applied or not. Repeating it is safe.
    UnknownOutcome,
    /// Two things that must be equal differ: a copy and its source, or the directions of a table beyond comparison.
    Differs,
    /// The caller gave up, or its deadline passed. A write has done nothing, or whole batches that are safe
    /// to send again.
    Cancelled,
    /// This store or process cannot do it; the text names another way.
    Unsupported,
    /// The store is too busy now; the operation can be tried later.
    RetryLater,
    /// A version or a session that the request refers to is no longer there.
    Expired,
    /// A fault of idmatch itself.
    Internal,
}

impl ErrorKind {
    /// Every kind, for tests and documents.
    pub const ALL: [ErrorKind; 18] = [
        ErrorKind::InvalidArgument,
        ErrorKind::BadInput,
        ErrorKind::TableNotFound,
        ErrorKind::TableExists,
        ErrorKind::NotAStore,
        ErrorKind::Busy,
        ErrorKind::UnsupportedFormat,
        ErrorKind::Corrupt,
        ErrorKind::Io,
        ErrorKind::Source,
        ErrorKind::Unavailable,
        ErrorKind::UnknownOutcome,
        ErrorKind::Differs,
        ErrorKind::Cancelled,
        ErrorKind::Unsupported,
        ErrorKind::RetryLater,
        ErrorKind::Expired,
        ErrorKind::Internal,
    ];

    /// The stable code, such as `table-not-found`.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "invalid-argument",
            ErrorKind::BadInput => "bad-input",
            ErrorKind::TableNotFound => "table-not-found",
            ErrorKind::TableExists => "table-exists",
            ErrorKind::NotAStore => "not-a-store",
            ErrorKind::Busy => "busy",
            ErrorKind::UnsupportedFormat => "unsupported-format",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Io => "io",
            ErrorKind::Source => "source",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::UnknownOutcome => "unknown-outcome",
            ErrorKind::Differs => "differs",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::RetryLater => "retry-later",
            ErrorKind::Expired => "expired",
            ErrorKind::Internal => "internal",
        }
    }
}

/// The subject of an error, as values for programs. A value that is not known is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorFields {
    /// Of `Busy`: the process that writes the store.
    Busy {
        /// Its process id.
        pid: Option<u32>,
        /// The program that it runs, such as `idmatch load`.
        program: Option<String>,
        /// When it began to write.
        since: Option<SeenAt>,
    },
    /// Of `UnknownOutcome`: the rows that may be applied or not.
    UnknownOutcome {
        /// Their sources and numbers, without rejected rows.
        rows: RowNumbers,
    },
    /// Of `Corrupt`: the place of the damage.
    Corrupt {
        /// The file.
        file: String,
        /// The offset in bytes.
        offset: Option<u64>,
    },
    /// Of `BadInput`: the first bad row.
    BadInput {
        /// Its source, such as a file.
        source: String,
        /// Its number in the source, counted from 1.
        row: u64,
        /// The first wrong column.
        column: String,
        /// The fault of its value.
        reason: String,
    },
    /// Of `Unsupported`: what to do instead.
    Unsupported {
        /// A command or a method.
        instead: String,
    },
    /// Of `RetryLater`: when.
    RetryLater {
        /// The time to wait.
        after: Duration,
    },
}

/// The error of an operation of a store.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    fields: Option<Box<ErrorFields>>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error without a cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), fields: None, source: None }
    }

    /// An error with its cause.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error { kind, message: message.into(), fields: None, source: Some(source.into()) }
    }

    /// The same error with its values.
    #[must_use]
    pub fn with_fields(mut self, fields: ErrorFields) -> Error {
        self.fields = Some(Box::new(fields));
        self
    }

    /// An error of this level with the kind and the values of its cause.
    #[must_use]
    pub fn because(message: impl Into<String>, cause: Error) -> Error {
        let fields = cause.fields.clone();
        Error { fields, ..Error::with_source(cause.kind, message, cause) }
    }

    /// A copy of the error for another caller of the same work. Its text contains the texts of its causes.
    #[must_use]
    pub fn copied(&self) -> Error {
        let fields = self.fields.clone();
        Error { kind: self.kind, message: self.chain(), fields, source: None }
    }

    /// A table that is to be created exists with other options.
    pub fn other_options(name: &TableName, there: &TableOptions, wanted: &TableOptions) -> Error {
        let text = format!(
            "table {name} exists with {there}, not with {wanted}; use it as it is, or choose another \
             name"
        );
        Error::new(ErrorKind::TableExists, text)
    }

    /// A table is to be given a name that another table has.
    pub fn name_taken(name: &TableName) -> Error {
        let text = format!("there is a table {name}; drop it first, or swap the names of both");
        Error::new(ErrorKind::TableExists, text)
    }

    /// A write session is used after its end.
    pub fn session_ended() -> Error {
        let text = "the session has ended, nothing more is staged or written; begin another one";
        Error::new(ErrorKind::Expired, text)
    }

    /// A committed write session is to be aborted.
    pub fn session_committed() -> Error {
        let text = "the session is committed; write the table anew to change it";
        Error::new(ErrorKind::InvalidArgument, text)
    }

    /// A key was used for another kind of write.
    pub fn key_of_another_kind() -> Error {
        let text =
            "the key was used for another kind of write within the last 24 h; take another key";
        Error::new(ErrorKind::InvalidArgument, text)
    }

    /// Another session replaces the table.
    pub fn being_replaced(table: &TableName) -> Error {
        let text = format!("another session replaces table {table}; try again when it has ended");
        Error::new(ErrorKind::Busy, text)
    }

    /// A replace that is no longer in force is committed.
    pub fn replace_ended(table: &TableName) -> Error {
        let text = format!(
            "the replace of table {table} was ended by a repair or by another one; nothing was \
             written, begin it anew"
        );
        Error::new(ErrorKind::Expired, text)
    }

    /// Its values, if it has any.
    pub fn fields(&self) -> Option<&ErrorFields> {
        self.fields.as_deref()
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Its text and the texts of its causes, in one line.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<idmatch_model::IdError> for Error {
    fn from(e: idmatch_model::IdError) -> Error {
        Error::new(ErrorKind::InvalidArgument, format!("the identifier {e}"))
    }
}

macro_rules! invalid_argument_from {
    ($($error:ty),*) => {$(
        impl From<$error> for Error {
            fn from(e: $error) -> Error {
                Error::new(ErrorKind::InvalidArgument, e.to_string())
            }
        }
    )*};
}

invalid_argument_from!(
    idmatch_model::DateRulesError,
    idmatch_model::NameError,
    idmatch_model::PeriodError,
    idmatch_model::SeenAtError,
    idmatch_model::SizeError,
    idmatch_model::WindowError
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct() {
        let mut codes = ErrorKind::ALL.map(ErrorKind::code).to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
    }

    #[test]
    fn an_error_of_a_higher_level_has_kind_and_values_of_its_cause() {
        let fields = ErrorFields::RetryLater { after: Duration::from_secs(3) };
        let cause = Error::new(ErrorKind::RetryLater, "not now").with_fields(fields.clone());
        let error = Error::because("half of it is done", cause);
        assert_eq!(error.kind(), ErrorKind::RetryLater);
        assert_eq!(error.to_string(), "half of it is done");
        assert_eq!(error.chain(), "half of it is done: not now");
        assert_eq!(error.fields(), Some(&fields));
    }

    #[test]
    fn a_copy_has_kind_text_and_values() {
        let fields = ErrorFields::RetryLater { after: Duration::from_secs(3) };
        let error = Error::with_source(ErrorKind::RetryLater, "not now", "too many sessions");
        let copied = error.with_fields(fields.clone()).copied();
        assert_eq!(copied.kind(), ErrorKind::RetryLater);
        assert_eq!(copied.to_string(), "not now: too many sessions");
        assert_eq!(copied.fields(), Some(&fields));
    }
}
