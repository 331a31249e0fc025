"""Types of arguments, and of results of the core. Imports nothing of idmatch but types."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypedDict, runtime_checkable

if TYPE_CHECKING:
    from ._hive_query import Hive

By: TypeAlias = Literal["id", "partner_id"]
"""Which identifiers a population has."""

Keep: TypeAlias = Literal["last", "all"]
"""Which observations of a pair a table keeps."""

Pick: TypeAlias = Literal["all", "latest"]
"""Which matches of a population row are in the result."""

How: TypeAlias = Literal["inner", "left"]
"""Whether population rows without a match are rows of the result."""

Durability: TypeAlias = Literal["always", "interval"]
"""When an upsert is acknowledged: once it is on disk, or before."""

Compression: TypeAlias = Literal["none", "snappy", "lz4", "zstd", "gzip"]
"""Compressions of a Parquet file."""

Path: TypeAlias = str | os.PathLike[str]


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that exports an Arrow stream: pyarrow, polars, pandas, DuckDB, a MatchResult."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A PyCapsule of an ArrowArrayStream."""


@runtime_checkable
class ArrowArray(Protocol):
    """Anything that exports one Arrow array: a record batch, or a column."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """PyCapsules of an ArrowSchema and an ArrowArray."""


Source: TypeAlias = "Path | ArrowStream | ArrowArray | Hive | Sequence[Source]"
"""A path, glob, directory or URL, an Arrow object, a query of Hive, or a list of these."""

Columns: TypeAlias = Sequence[str | None] | Mapping[str, str | None]
"""Column names in the order id, partner_id, seen_at, or a dict with these keys. A name that is
None, empty or left out is guessed."""

Reject: TypeAlias = tuple[str, int, str, str]
"""A rejected row: source, row from 1, column, reason."""


Counting: TypeAlias = Literal["metadata", "sample", "all"]
"""How much of a table is read for figures about it."""

LogEvent: TypeAlias = tuple[float, int, str, str, list[tuple[str, object]]]
"""An event of the core: seconds since 1970, level (1 error to 5 trace), logger, text, values."""

Failing: TypeAlias = tuple[str, str, int, int, int]
"""Background work that fails: its name, error, begin, last failure (milliseconds), failures."""


class CopyFigures(TypedDict):
    """The core's figures about a copy; `CopyReport` describes each field."""

    rows: int
    sent: int
    rows_there: int
    checksum: str
    checksum_there: str
    erasures: int
    erasures_lost: int
