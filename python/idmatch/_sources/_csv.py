"""Reads CSV as rows of bytes, UTF-8 or not: from files, and from streams as they arrive.

Unless `Csv` says otherwise, the first line that is not empty is the header, and columns are
separated by whichever of comma, tab, semicolon and bar comes first in it. Values may be quoted.
They are read as bytes, so that leading zeros and broken UTF-8 reach the one place where input is
judged. Empty lines are no rows. Invariant: each record is a row, a comment or a malformed row.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pc

from idmatch._errors import SourceError

from ._columns import Wanted, project
from ._csv_start import Start, no_header, read_start
from ._lists import RowNumbers
from ._records import CsvRecords, Piece, Readable, arrivals
from ._source import OnMalformed, reading

_MAX_HEADER_BYTES = 64 << 10
# Replaces bytes that are not ASCII, and may be broken UTF-8, by "?", which separates nothing.
_ASCII = bytes(range(128)) + b"?" * 128


class CsvRows:
    """Reads CSV, and counts its rows."""

    def __init__(
        self,
        stream: Readable,
        name: str,
        wanted: Wanted,
        on_malformed: OnMalformed | None,
        partition: Mapping[str, str | None] | None = None,
    ) -> None:
        """Reads the header; `partition` has the columns that the path gives.

        Without `on_malformed` a malformed row is an error. Raises SourceError if there is no
        header, InvalidArgument if the header lacks a column.
        """
        self._name = name
        self._on_malformed = on_malformed
        self._options = wanted.csv
        self.rows = 0
        """Rows read so far, malformed ones included."""
        encoding = None if self._options.is_utf_8 else self._options.encoding
        self._pieces = _read(arrivals(stream, encoding), name)
        start, self._rest = self._read_start()
        given = partition or {}
        self._constants = {key: value for key, value in given.items() if key not in start.columns}
        visible: list[pa.Field[Any]] = [pa.field(column, pa.binary()) for column in start.columns]
        visible += [pa.field(key, pa.string()) for key in self._constants]
        self._chosen = wanted.choose(pa.schema(visible), name, "csv", start.delimiter)
        self._roles = len(wanted.roles)
        self._columns = start.columns
        stored = (name for name in self._chosen.values() if name not in self._constants)
        self._stored = list(dict.fromkeys(stored))
        self._delimiter = start.delimiter
        self._records = CsvRecords(start.delimiter, self._options.quote, name)
        # A line with one field too many: it is malformed, unless a quote is open before it.
        self._mark = start.delimiter * len(start.columns) if self._options.quote else ""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return pa.schema(
            [
                (role, pa.string() if name in self._constants or at >= self._roles else pa.binary())
                for at, (role, name) in enumerate(self._chosen.items())
            ]
        )

    def read(self) -> Iterator[pa.Table | None]:
        """Yields the rows that have arrived, until the end. None stands for malformed rows only.

        Raises SourceError if the bytes cannot be read, and for a malformed row that ends the read.
        """
        for arrived in chain([self._rest], self._pieces):
            lines = self._records.add(arrived)
            rows = self._rows_of(lines, self._mark) if lines else None
            if rows is not None:
                yield rows
            else:
                yield from self._given(self._records.cut(lines))
        yield from self._given(self._records.finish())

    def _given(self, pieces: Iterable[Piece]) -> Iterator[pa.Table | None]:
        """The rows of pieces."""
        for data, is_unclosed in pieces:
            if is_unclosed:
                self._count(0, [(1, "has a quote that is not closed")])
                yield None
            elif data.lstrip(b"\r\n"):
                yield self._rows_of(data)

    def _rows_of(self, data: bytes, mark: str = "") -> pa.Table | None:
        """The rows of whole records; None if the `mark` after them is no record of its own."""
        # Arrow's reader fails at a malformed row that is not UTF-8.
        text = data if _is_utf_8(data) else data.translate(_ASCII)
        read, malformed = self._parse(text + mark.encode())
        if mark:
            last = (malformed[-1].number, malformed[-1].text) if malformed else None
            if last != (read.num_rows + len(malformed), mark):
                return None
            del malformed[-1]
        if text is not data:
            if malformed:
                numbers = {row.number for row in malformed}
                records = enumerate(self._records.split(data), 1)
                data = b"".join(record for number, record in records if number not in numbers)
            read, _ = self._parse(data)
        read, chosen = self._with_carried(read)
        with reading(self._name):
            rows = project(
                read.to_batches(),
                read.schema,
                chosen,
                self._constants,
                RowNumbers(),
                self._roles,
            ).read_all()
        self._count(rows.num_rows, list(map(self._reason, malformed)))
        return rows

    def _with_carried(self, read: pa.Table) -> tuple[pa.Table, Mapping[str, str]]:
        """The rows with a text column for each carried column, and the column of each role then."""
        chosen = dict(self._chosen)
        for role in list(chosen)[self._roles :]:
            if chosen[role] in self._constants:
                continue
            values = read.column(chosen[role])
            chosen[role] = f"{role} (carried)"
            text = [chunk.view(pa.string()) for chunk in values.chunks]
            read = read.append_column(chosen[role], pa.chunked_array(text, pa.string()))
        return read, chosen

    def _count(self, good: int, malformed: Sequence[tuple[int, str | None]]) -> None:
        """Counts rows, and reports malformed ones. `malformed` has their numbers among these rows,
        and the reasons: None for a comment.
        """
        comments = 0
        for number, reason in malformed:
            if reason is None:
                comments += 1
                continue
            row = self.rows + number - comments
            if self._on_malformed is None or not self._on_malformed(self._name, row, reason):
                raise SourceError(f"{self._name}, row {row}: {reason}")
        self.rows += good + len(malformed) - comments

    def _reason(self, row: pc.InvalidRow) -> tuple[int, str | None]:
        comment = self._options.comment
        is_comment = comment and (row.text or "").startswith(comment)
        reason = f"has {row.actual_columns} fields instead of {row.expected_columns}"
        return row.number or 0, None if is_comment else reason

    def _parse(self, data: bytes) -> tuple[pa.Table, list[pc.InvalidRow]]:
        """The rows of the records in these bytes, and the malformed ones in their order."""
        options = self._options
        malformed: list[pc.InvalidRow] = []

        def skip(row: pc.InvalidRow) -> Literal["skip"]:
            malformed.append(row)
            return "skip"

        if not data:
            return pa.table({name: pa.array([], pa.binary()) for name in self._stored}), []
        with reading(self._name):
            read = pc.read_csv(
                io.BytesIO(data),
                # One block, in which each record is whole: with threads there are no row numbers.
                pc.ReadOptions(
                    use_threads=False, block_size=len(data) + 1, column_names=self._columns
                ),
                pc.ParseOptions(
                    delimiter=self._delimiter,
                    quote_char=options.quote or False,
                    newlines_in_values=options.quote is not None,
                    invalid_row_handler=skip,
                ),
                # Values stay bytes; an empty value without quotes is null.
                pc.ConvertOptions(
                    check_utf8=False,
                    null_values=["", *options.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    column_types=dict.fromkeys(self._stored, pa.binary()),
                    include_columns=self._stored,
                ),
            )
        return read, malformed

    def _read_start(self) -> tuple[Start, bytes]:
        """The header's information, and the bytes that have arrived after the header."""
        options = self._options
        head = bytearray()
        start = None
        for arrived in self._pieces:
            head += arrived
            whole = bytes(head[: head.rfind(b"\n") + 1])
            start = read_start(whole, self._name, options)
            if start is None and len(head) <= _MAX_HEADER_BYTES:
                continue
            break
        else:
            start = read_start(bytes(head), self._name, options)
        if start is None:
            if len(head) > _MAX_HEADER_BYTES:
                most = f"{_MAX_HEADER_BYTES:,}"
                raise SourceError(f"cannot read {self._name}: its first line has over {most} bytes")
            raise no_header(self._name)
        rest = bytes(head)
        for _ in range(start.lines_before):
            rest = rest.partition(b"\n")[2]
        return start, rest


def _read(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The same pieces, with errors that name the source."""
    while True:
        with reading(name):
            arrived = next(pieces, None)
        if arrived is None:
            return
        yield arrived


def _is_utf_8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
