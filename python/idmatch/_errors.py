"""The exceptions of idmatch.

Error
├── InvalidArgument (also ValueError)   a bad name, key, window, option or column
├── BadInput (also ValueError)          an input row breaks the rules, and strict was asked for
├── SourceError                         an input file or stream cannot be read
├── TableNotFound (also KeyError)       no table of that name
├── TableExists                         a table of that name has other options
├── NotAStore                           nothing there, or something that is not a store
├── Busy                                another process writes this store
├── UnsupportedFormat                   made by a version that this one does not read
├── Corrupt                             stored bytes are not what was written
├── IoError (also OSError)              the disk, the operating system or the servers refused
├── Unavailable                         too few servers answer; to repeat it is safe
├── UnknownOutcome                      a write was not acknowledged; to repeat it is safe
├── Differs                             a copy is not, or cannot be, the same as its source
└── MissingExtra (also ImportError)     a package is missing that an extra installs

Each has a `code`, which never changes, and a text that says what was wrong, with what,
and what to do.
"""


class Error(Exception):
    """The base of all errors of idmatch."""

    code = "error"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidArgument(Error, ValueError):
    """An argument that no store could take."""

    code = "invalid-argument"


class BadInput(Error, ValueError):
    """An input row breaks the rules, and the caller asked to stop at the first."""

    code = "bad-input"


class SourceError(Error):
    """An input file or stream cannot be read."""

    code = "source"


class TableNotFound(Error, KeyError):
    """There is no table of that name."""

    code = "table-not-found"


class TableExists(Error):
    """A table of that name is there already, with other options."""

    code = "table-exists"


class NotAStore(Error):
    """There is nothing at that place, or something that is not a store."""

    code = "not-a-store"


class Busy(Error):
    """Another process writes this store."""

    code = "busy"


class UnsupportedFormat(Error):
    """The store was made by a version that this one does not read."""

    code = "unsupported-format"


class Corrupt(Error):
    """Stored bytes are not what was written."""

    code = "corrupt"


class IoError(Error, OSError):
    """The disk, the operating system or the servers refused."""

    code = "io"


class Unavailable(Error):
    """The servers of the store do not answer, or too few of them do.

    A change that ends so was not begun, or stopped between two requests. To repeat it is safe.
    """

    code = "unavailable"


class UnknownOutcome(Error):
    """A write was not acknowledged in time: it may be there or not. To repeat it is safe."""

    code = "unknown-outcome"


class Differs(Error):
    """What should be the same is not: a copy and its source, or much of a table's directions."""

    code = "differs"


class MissingExtra(Error, ImportError):
    """A package is not installed that `pip install 'idmatch[...]'` brings."""

    code = "missing-extra"
