"""A source: something with a name that can be opened as an Arrow stream.

Invariant: all Arrow data of a stream was checked (`_checked`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from idmatch._address import Address
from idmatch._errors import Error, SourceError

from ._columns import Wanted

OnMalformed: TypeAlias = Callable[[str, int, str], bool]
"""Takes a line that is no row: source, row from 1, reason. Returns False to end the reading."""


def _nothing() -> None: ...


class Opened(NamedTuple):
    """A source that is being read."""

    reader: pa.RecordBatchReader
    """The wanted columns only, under the names of their roles."""
    check: Callable[[], None] = _nothing
    """To be called after the last row: raises SourceError for a source that is damaged, or that
    changed while it was read."""


@runtime_checkable
class Source(Protocol):
    """Rows that a load or a match reads."""

    @property
    def name(self) -> str:
        """The name by which users know it."""

    @property
    def local_path(self) -> str | None:
        """Its path, if it is a file of this machine."""

    def open(self, wanted: Wanted, on_malformed: OnMalformed | None) -> Opened:
        """Begins to read it.

        Without `on_malformed` a malformed line is an error. Raises SourceError when the source
        cannot be read, InvalidArgument when it has no such column.
        """


def watched(name: str, reader: pa.RecordBatchReader, raised: list[Error]) -> pa.RecordBatchReader:
    """The same rows. An error while they are read is noted in `raised`."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            with reading(name):
                yield from reader
        except Error as error:
            raised.append(error)
            raise

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns errors of opening or reading a source into a SourceError that names it. For a URL, the
    name is the text of its `Address`.
    """
    try:
        yield
    except Error:
        raise
    except (pa.ArrowException, MemoryError, OSError, ValueError) as error:
        # A wrong length may ask for any memory.
        cause: Exception | None = error
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        if Address(name).is_url and "://" in reason:
            # The reason quotes the URL, or a part of it.
            reason = "its URL cannot be opened; in a user or a password, / is written as %2F"
            cause = None
        raise SourceError(
            f"cannot read {name}: {reason}; check that the file is whole and may be read"
        ) from cause
