"""The exceptions of idmatch.

Error
├── InvalidArgument (also ValueError)   a bad name, key, window, option or column
├── BadInput (also ValueError)          a bad row with strict, or a population of malformed rows
├── SourceError                         an input file or stream cannot be read
├── TableNotFound (also KeyError)       no table of that name
├── TableExists                         the name is of another table: on create, or in a rename
├── NotAStore                           nothing there, or something that is not a store
├── Busy                                another process writes this store
├── UnsupportedFormat                   made by a version that this one does not read
├── Corrupt                             stored bytes are damaged
├── IoError (also OSError)              the disk, the operating system or the servers refused
├── Unavailable                         too few servers answer; to repeat it is safe
├── UnknownOutcome                      a write was not acknowledged; to repeat it is safe
├── Differs                             a copy is not, or cannot be, the same as its source
├── Cancelled                           the caller gave up, or its deadline passed
├── Unsupported                         this store cannot do it; the text names another way
├── RetryLater                          too much is going on; the call can be done later
├── Expired                             a version or a session no longer exists
├── Internal                            a fault of idmatch itself; please report it
└── MissingExtra (also ImportError)     a package of an extra is missing

Each has a `code`, which never changes, and a text that says what was wrong, with what,
and what to do. Some have values as attributes, for programs; an unknown value is None.
"""

from datetime import UTC, datetime, timedelta

from ._text import escaped


class Error(Exception):
    """The base of all errors of idmatch."""

    code = "error"

    def __str__(self) -> str:
        # Names of files and columns may have any characters.
        return escaped(str(self.args[0])) if self.args else ""


class InvalidArgument(Error, ValueError):
    """An argument that no store could take."""

    code = "invalid-argument"


class BadInput(Error, ValueError):
    """An input row breaks the rules and `strict` is set, or more than `max_rejects` rows do. Or a
    value of `upsert_one` or `erase` is no identifier or no date, or a population has malformed rows
    and no identifier.
    """

    code = "bad-input"

    source: str | None = None
    """The source of the first bad row, such as a file."""
    row: int | None = None
    """The number of that row in its source, counted from 1."""
    column: str | None = None
    """The first wrong column of that row."""
    reason: str | None = None
    """The rule that the column breaks."""


class SourceError(Error):
    """An input file or stream cannot be read."""

    code = "source"


class TableNotFound(Error, KeyError):
    """There is no table of that name."""

    code = "table-not-found"


class TableExists(Error):
    """A table of that name exists: with other options, or as the new name of a renamed table."""

    code = "table-exists"


class NotAStore(Error):
    """There is nothing at that place, or something that is not a store."""

    code = "not-a-store"


class Busy(Error):
    """Another process writes this store."""

    code = "busy"

    pid: int | None = None
    """The process that writes the store."""
    program: str | None = None
    """The command that it runs, such as `idmatch load`."""
    since_millis: int | None = None

    @property
    def since(self) -> datetime | None:
        """When that process began to write, in UTC."""
        if self.since_millis is None:
            return None
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.since_millis)


class UnsupportedFormat(Error):
    """The store was made by a version that this one does not read."""

    code = "unsupported-format"


class Corrupt(Error):
    """Stored bytes are damaged: they are not the bytes that were written."""

    code = "corrupt"

    file: str | None = None
    """The file that is damaged."""
    offset: int | None = None
    """The place of the damage in the file, in bytes."""


class IoError(Error, OSError):
    """The disk, the operating system or the servers refused."""

    code = "io"


class Unavailable(Error):
    """The servers of the store do not answer, or too few of them do.

    A change that raises this has not begun, or has stopped between two requests. To repeat it is
    safe.
    """

    code = "unavailable"


class UnknownOutcome(Error):
    """A write was not acknowledged in time: it may be stored or not. To repeat it is safe."""

    code = "unknown-outcome"

    rows: list[tuple[str, int, int]] | None = None
    """Input rows that may be stored or not: (source, first, end), from 1, `end` excluded."""


class Differs(Error):
    """A copy differs from its source, or the two directions of a table differ in too many rows."""

    code = "differs"


class Cancelled(Error):
    """The caller gave up, or its deadline passed."""

    code = "cancelled"


class Unsupported(Error):
    """This store or this process cannot do it; the text names another way."""

    code = "unsupported"

    instead: str | None = None
    """The command or method to use instead."""


class RetryLater(Error):
    """Too much is going on; the call can be done later."""

    code = "retry-later"

    after: float | None = None
    """The time to wait, in seconds."""


class Expired(Error):
    """The version or the session that the call refers to no longer exists."""

    code = "expired"


class Internal(Error):
    """A fault of idmatch itself. Acknowledged writes are stored; please report the text."""

    code = "internal"


class MissingExtra(Error, ImportError):
    """A package of an extra is missing. The message names the extra."""

    code = "missing-extra"
