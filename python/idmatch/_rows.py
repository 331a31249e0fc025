"""Rows on their way out: to Arrow, to data frames, to files, to a reader."""

from __future__ import annotations

import datetime as dt
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from html import escape
from typing import TYPE_CHECKING

from . import _core, _hive_outputs, _outputs
from ._address import Address
from ._aligned import aligned
from ._errors import InvalidArgument
from ._formats import format_of, format_of_folder
from ._lazy import LazyModule
from ._progress import Progress, Totals
from ._types import Compression, Path

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
else:
    pa = LazyModule("pyarrow")
    pl = LazyModule("polars")

_SHOWN_ROWS = 10
NO_FILES_OF_HIVE = "Hive names and cuts the files of a table; leave formats and cuts out"


class Rows:
    """Rows of a match, of its unmatched population rows, or of a table.

    Every read streams the rows, as they were found. Anything that takes Arrow streams (`pyarrow`,
    `polars`, `duckdb`, another table's `match`) takes this object. A stream that fails raises an
    error: it never just ends. Ctrl-C interrupts the methods of this object; other readers, such as
    `pyarrow.table`, notice it only when they have all rows.
    """

    __slots__ = ("_progress", "_rows")

    def __init__(self, rows: _core.Rows, progress: Progress) -> None:
        self._rows = rows
        self._progress = progress

    def to_arrow(self) -> pa.Table:
        """All rows as one Arrow table, in memory."""
        return self._rows.to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas data frame. Needs pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """All rows as a polars data frame. Needs polars."""
        # Unlike polars' read of the stream, this ends with Ctrl-C.
        return pl.DataFrame(self.to_arrow())

    def write(
        self,
        path: Path,
        *,
        format: str | None = None,
        overwrite: bool = False,
        partition_by: str | None = None,
        max_rows_per_file: int | None = None,
        partition: Mapping[str, str] | None = None,
    ) -> int:
        """Writes the rows to a file, which appears once it is whole and on disk, or to a FIFO.
        Returns how many rows it has.

        An address such as "s3://bucket/rows.parquet" (also gs, az, abfs) names an object, which is
        there whole or not at all. It needs the extra "cloud", and credentials in the environment.
        Uploads take about 100 MiB of memory. "file:///" and other URLs that pyarrow opens work,
        too.

        The name tells the format: .parquet, .csv, .jsonl, each of the last two also with .gz or
        .zst, or .arrow; `format` says it if the name does not ("csv.gz"). CSV has a header, and
        dates in ISO 8601; null is an empty value. A FIFO of "arrow" gets an IPC stream. A file
        that exists is replaced only with `overwrite`. `write_parquet` compresses.

        With `partition_by` or `max_rows_per_file` it writes a folder, which must not exist, and
        appears once it is whole and on disk. Its files are Parquet unless `format` or the folder's
        name says otherwise.
        For each value of the column `partition_by` (text, whole numbers, dates, booleans) there is
        a folder below it, as Hive names them: "campaign=spring"; the files lack that column. A
        column of times is cut by days in UTC ("seen_at_day=2026-11-03"), and the files keep it.
        Rows wait in a temporary file meanwhile. In an object store the files appear one by one,
        each whole, and "_SUCCESS" is the last.

        "hive://HOST/DATABASE/TABLE" adds the rows as one partition of a table of Parquet.
        `partition` has its columns and their values, in the order of the table. A partition that
        exists, and a table without partitions, are replaced only with `overwrite`. Times are in UTC
        there.

        Raises IoError when the file cannot be written, and MissingExtra if the package for object
        stores is not installed. Raises InvalidArgument for a name that tells no format, for an
        existing path that is no regular file or FIFO, for a path inside a store, and for columns
        that the format cannot hold, such as lists in CSV.
        """
        name = os.fspath(path)
        if Address(name).is_hive:
            if format or partition_by or max_rows_per_file:
                raise InvalidArgument(NO_FILES_OF_HIVE)
            with self._progress.shown(self._totals):
                count, written = _hive_outputs.write(
                    self, name, partition or {}, overwrite=overwrite
                )
            self._rows.add_writing(time.monotonic() - written)
            return count
        if partition:
            raise InvalidArgument("partition is for hive://HOST/DATABASE/TABLE; use partition_by")
        if partition_by is not None or max_rows_per_file is not None:
            return self._write_folder(name, format, partition_by, max_rows_per_file)
        chosen = format_of(name, format)

        def write(file: str) -> int:
            is_stream = chosen.kind == "arrow" and _outputs.is_stream(path, file)
            kind = "arrow stream" if is_stream else chosen.kind
            return self._rows.write(file, kind, chosen.compression)

        return self._write_to(_outputs.new_file(path, overwrite=overwrite), write)

    def write_parquet(
        self, path: Path, *, compression: Compression = "none", overwrite: bool = False
    ) -> int:
        """Writes the rows to a Parquet file as `write` does, whatever its name.

        Identifiers hardly compress: "none" is the fastest, "zstd" halves the size of
        hexadecimal ones; "snappy", "lz4" and "gzip" are possible too.
        """
        return self._write_to(
            _outputs.new_file(path, overwrite=overwrite),
            lambda file: self._rows.write(file, "parquet", compression),
        )

    def _write_folder(
        self, path: str, format: str | None, by: str | None, max_rows: int | None
    ) -> int:
        if max_rows is not None and max_rows < 1:
            raise InvalidArgument(f"max_rows_per_file is {max_rows}; use 1 or more")
        name, kind, compression = format_of_folder(path, format)
        return self._write_to(
            _outputs.new_folder(path),
            lambda folder: self._rows.write_folder(folder, kind, compression, name, by, max_rows),
        )

    def _write_to(self, output: AbstractContextManager[str], write: Callable[[str], int]) -> int:
        with output as place:
            with self._progress.shown(self._totals):
                count = write(place)
            written = time.monotonic()
        # The end of the block syncs or sends the output, and gives it its name.
        self._rows.add_writing(time.monotonic() - written)
        return count

    def _totals(self) -> Totals:
        return {"write": self._rows.count}

    def show(self, rows: int = _SHOWN_ROWS) -> None:
        """Prints the first rows. Raises InvalidArgument for a negative number."""
        if rows < 0:
            raise InvalidArgument(f"{rows} rows cannot be shown; use 0 or more")
        header, first = self._first(rows)
        sys.stdout.write(aligned(header, first) + "\n")

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        header, first = self._first(_SHOWN_ROWS)
        cells = [
            "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
            for tag, row in [("th", header), *(("td", row) for row in first)]
        ]
        rows = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<p>{escape(repr(self))}</p><table>{rows}</table>"

    def _first(self, most: int) -> tuple[list[str], list[list[str]]]:
        first = _in_micros(self._rows.head(most))
        rows = [[_text(value) for value in row.values()] for row in first.to_pylist()]
        return list(first.schema.names), rows

    def __repr__(self) -> str:
        return "<idmatch.Rows>"


class CountedRows(Rows):
    """Rows whose number is known before they are read."""

    __slots__ = ()

    def __len__(self) -> int:
        return self._rows.count or 0

    def __repr__(self) -> str:
        return f"<idmatch.CountedRows rows={len(self)}>"


def _in_micros(rows: pa.Table) -> pa.Table:
    """Cuts off nanoseconds: Python's times have none, and pyarrow would need pandas for them."""
    for at, field in enumerate(rows.schema):
        kind = field.type
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            micros = rows.column(at).cast(pa.timestamp("us", kind.tz), safe=False)
            rows = rows.set_column(at, field.name, micros)
    return rows


def _text(value: object) -> str:
    if value is None:
        return ""
    # A date has no seconds.
    if isinstance(value, (dt.datetime, dt.time)):
        return value.isoformat(timespec="milliseconds")
    return str(value)
