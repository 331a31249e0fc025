"""The result of matching a population."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from . import _core
from ._errors import Error, InvalidArgument, IoError

if TYPE_CHECKING:
    import pyarrow as pa

Compression: TypeAlias = Literal["none", "snappy", "lz4", "zstd", "gzip", "brotli"]

_ROWS_PER_GROUP = 1 << 19


class MatchResult:
    """A population that has been matched.

    The matches are read from the store when they are asked for, any number of times, always
    as they were at the time of the match, and never all at once: anything that takes Arrow
    streams (`pyarrow`, `polars`, `duckdb`, another table's `match`) takes this object.
    Their columns are the population's side, the other side (both text) and `seen_at`
    (`timestamp[ms, UTC]`); a population row's matches come newest first, population rows in
    no particular order.
    """

    __slots__ = ("_core", "seconds")

    def __init__(self, core: _core.Match, seconds: float) -> None:
        self._core = core
        self.seconds = seconds
        """How long the matching took."""

    @property
    def population(self) -> int:
        """Population rows read."""
        return self._core.population

    @property
    def matched(self) -> int:
        """Population rows with at least one match."""
        return self._core.matched

    @property
    def rows(self) -> int:
        """Matches: what `SELECT count(*)` over the join gives."""
        return self._core.rows

    @property
    def rate(self) -> float:
        """`matched / population`; 0 for an empty population."""
        return self.matched / self.population if self.population else 0.0

    def to_arrow(self) -> "pa.Table":
        """All matches as one Arrow table, in memory."""
        import pyarrow as pa

        schema, batches = self._stream()
        return pa.Table.from_batches(batches, schema)

    def write_parquet(
        self, path: str | os.PathLike[str], compression: Compression = "none"
    ) -> None:
        """Writes the matches to a Parquet file, which appears only when it is whole.

        Identifiers hardly compress: "none" is the fastest by far, "zstd" halves the size of
        hexadecimal ones; "snappy", "lz4", "gzip" and "brotli" are possible too.

        Raises IoError when the file cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema, batches = self._stream()
        with (
            _whole_file(path) as unfinished,
            pq.ParquetWriter(
                unfinished,
                schema,
                compression=compression,
                compression_level=1 if compression == "zstd" else None,
                # Identifiers seldom repeat; building dictionaries would double the time.
                use_dictionary=False,
                write_statistics=["seen_at"],
            ) as writer,
        ):
            group: list[pa.RecordBatch] = []
            for batch in batches:
                group.append(batch)
                if sum(part.num_rows for part in group) >= _ROWS_PER_GROUP:
                    writer.write_table(pa.Table.from_batches(group))
                    group = []
            writer.write_table(pa.Table.from_batches(group, schema))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._core.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return (
            f"<idmatch.MatchResult population={self.population} matched={self.matched} "
            f"rate={self.rate:.4f} rows={self.rows} seconds={self.seconds:.3f}>"
        )

    def _stream(self) -> "tuple[pa.Schema, Iterator[pa.RecordBatch]]":
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_stream(self._core)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except (pa.ArrowException, OSError) as error:
                raise Error(f"cannot read the matches: {error}") from error

        return reader.schema, batches()


@contextmanager
def _whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place beside `path` to write to, which takes its name at the end; removed on failure."""
    if "://" in os.fspath(path):
        raise InvalidArgument(f"cannot write to {os.fspath(path)}; name a file on this machine")
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield unfinished
        unfinished.replace(target)
    except OSError as error:
        raise IoError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
