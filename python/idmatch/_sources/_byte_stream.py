"""A byte stream as chunks of rows, each as soon as it has arrived.

The stream's first bytes tell its format: an Arrow IPC stream, JSON lines (one object a line) or
CSV with a header.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from idmatch._core import format_instant
from idmatch._errors import SourceError

from . import _csv
from ._columns import Wanted, project
from ._source import OnMalformed, reading

_CHUNK_BYTES = 4 << 20
_LONGEST_LINE = 16 << 20
_ARROW_START = b"\xff\xff\xff\xff"

_OnLine: TypeAlias = Callable[[int, str], bool]
"""Told of a malformed line: its number from 1, and why. False ends the reading."""


class ByteStream:
    """Rows that arrive, such as on standard input."""

    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        self._stream = stream
        self.name = name

    def read(self, wanted: Wanted, on_malformed: OnMalformed) -> Iterator[pa.RecordBatchReader]:
        """Gives what has arrived, under the names of the roles, again and again until the end.

        Rows that are no rows are told to `on_malformed`, numbered from 1 over the whole stream.
        Raises SourceError when the stream cannot be read, InvalidArgument when it lacks a column.
        """

        def on_line(row: int, reason: str) -> bool:
            return on_malformed(self.name, row, reason)

        with reading(self.name):
            start = self._stream.peek(len(_ARROW_START))
        if start.startswith(_ARROW_START):
            yield from self._arrow(wanted)
        elif start.lstrip().startswith(b"{"):
            yield from self._json(wanted, on_line)
        elif start:
            yield from self._csv(wanted, on_line)

    def _arrow(self, wanted: Wanted) -> Iterator[pa.RecordBatchReader]:
        with reading(self.name):
            reader = pa.ipc.open_stream(self._stream)
        chosen = wanted.choose(reader.schema, self.name)
        while True:
            try:
                with reading(self.name):
                    batch = reader.read_next_batch()
            except StopIteration:
                return
            yield project([batch], reader.schema, chosen, constants={})

    def _csv(self, wanted: Wanted, on_line: _OnLine) -> Iterator[pa.RecordBatchReader]:
        chosen: dict[str, str] | None = None
        rows = 0
        for chunk in self._lines(quoted=True):
            if chosen is None:
                header, delimiter = _csv.read_header(chunk, self.name)
                schema = pa.schema([(name, pa.binary()) for name in header])
                chosen = wanted.choose(schema, self.name)
                chunk = chunk.lstrip(b"\r\n").partition(b"\n")[2]
            if not chunk.strip():
                continue
            malformed = 0

            def told(row: int, reason: str, before: int = rows) -> bool:
                nonlocal malformed
                malformed += 1
                return on_line(before + row, reason)

            with reading(self.name):
                found = _csv.read_chunk(chunk, header, delimiter, chosen, told).read_all()
            rows += found.num_rows + malformed
            yield found.to_reader()

    def _json(self, wanted: Wanted, on_line: _OnLine) -> Iterator[pa.RecordBatchReader]:
        chosen: dict[str, str] | None = None
        rows = 0
        for chunk in self._lines(quoted=False):
            found: list[tuple[str | None, ...]] = []
            for line in chunk.splitlines():
                if not line.strip():
                    continue
                rows += 1
                row, reason = _object(line)
                if row is not None:
                    if chosen is None:
                        schema = pa.schema([(name, pa.string()) for name in row])
                        chosen = wanted.choose(schema, self.name)
                    try:
                        values = tuple(_value(role, row.get(at)) for role, at in chosen.items())
                        found.append(values)
                    except ValueError as error:
                        row, reason = None, str(error)
                if row is None and not on_line(rows, reason):
                    raise SourceError(f"{self.name}, row {rows}: {reason}")
            if chosen and found:
                columns = [pa.array(column, pa.string()) for column in zip(*found, strict=True)]
                yield pa.table(dict(zip(chosen, columns, strict=True))).to_reader()

    def _lines(self, quoted: bool) -> Iterable[bytes]:
        """Whole lines, as many as have arrived. If `quoted`, a line break in quotes ends none."""
        rest = b""
        while True:
            with reading(self.name):
                arrived = self._stream.read1(_CHUNK_BYTES)
            if not arrived:
                break
            rest += arrived
            end = rest.rfind(b"\n") + 1
            while quoted and end and rest.count(b'"', 0, end) % 2:
                end = rest.rfind(b"\n", 0, end - 1) + 1
            if end:
                yield rest[:end]
                rest = rest[end:]
            if len(rest) > _LONGEST_LINE:
                raise SourceError(
                    f"cannot read {self.name}: a line has more than {_LONGEST_LINE:,} bytes; "
                    "send JSON lines, CSV or an Arrow IPC stream"
                )
        if rest:
            yield rest


def _object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object on a line, or None and why there is none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return None, f"is no JSON object: {error}"
    return (row, "") if isinstance(row, dict) else (None, "is no JSON object")


def _value(role: str, value: Any) -> str | None:
    """A value as text: whole numbers are identifiers or, for dates, milliseconds since 1970."""
    if isinstance(value, str):
        # What is no Unicode cannot become text of Arrow's.
        value.encode()
        return value
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return format_instant(value) if role == "seen_at" else str(value)
    raise ValueError(f"has neither text nor a whole number for {role}")
