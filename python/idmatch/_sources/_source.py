"""What a source is: something with a name that can be opened as an Arrow stream."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from idmatch._errors import Error, SourceError

from ._columns import Wanted

OnMalformed: TypeAlias = Callable[[str, int, str], bool]
"""Told of a line that is no row: source, row from 1, reason. False ends the reading there."""


@runtime_checkable
class Source(Protocol):
    """Rows that a load or a match reads."""

    @property
    def name(self) -> str:
        """What users know it by."""

    def open(self, wanted: Wanted, on_malformed: OnMalformed | None) -> pa.RecordBatchReader:
        """A stream of the wanted columns only, under the names of their roles.

        Without `on_malformed` a malformed line is an error. Raises SourceError when the source
        cannot be read, InvalidArgument when it has no such column.
        """


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns what goes wrong while a source is being opened into a SourceError that names it."""
    try:
        yield
    except Error:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise SourceError(
            f"cannot read {name}: {reason}; check that the file is whole and may be read"
        ) from error
