"""A byte stream as chunks of rows, each as soon as it has arrived; also files of JSON lines.

The stream's first bytes tell its format: an Arrow IPC stream, JSON lines (one object a line) or
CSV with a header.
"""

import codecs
import io
import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from idmatch._csv_options import Csv
from idmatch._errors import SourceError

from . import _csv
from ._columns import Wanted, project
from ._source import OnMalformed, reading

_CHUNK_BYTES = 4 << 20
_LONGEST_LINE = 16 << 20
_MAX_NUMBER_BITS = 8_192
# A carriage return is one only if it is known what comes after it.
_FIRST_END = re.compile(rb"\r\n|\n|\r(?=[^\n])", re.DOTALL)
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

    def objects(self, wanted: Wanted, on_malformed: OnMalformed | None) -> pa.RecordBatchReader:
        """All rows of JSON lines as one stream; `Source.open` has the arguments and errors."""

        def on_line(row: int, reason: str) -> bool:
            return on_malformed is not None and on_malformed(self.name, row, reason)

        chunks = self._json(wanted, on_line)
        # The first object tells whether there are such columns.
        first = next(chunks, None)
        schema = (
            first.schema if first else pa.schema([(role, pa.string()) for role in wanted.roles])
        )
        readers = chain([first] if first else [], chunks)
        batches = (batch for reader in readers for batch in reader)
        return pa.RecordBatchReader.from_batches(schema, batches)

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
        options, chosen = wanted.csv, dict[str, str]()
        start: _csv.Start | None = None
        rows = 0
        for chunk in self._lines(options):
            if start is None:
                start = _csv.read_start(chunk, self.name, options._replace(encoding="utf-8"))
                schema = pa.schema([(name, pa.binary()) for name in start.columns])
                chosen = wanted.choose(schema, self.name)
                for _ in range(start.lines_before):
                    chunk = chunk.partition(b"\n")[2]
            if not chunk.strip():
                continue
            malformed = 0

            def told(row: int, reason: str, before: int = rows) -> bool:
                nonlocal malformed
                malformed += 1
                return on_line(before + row, reason)

            with reading(self.name):
                found = _csv.read_chunk(chunk, start, options, chosen, told).read_all()
            rows += found.num_rows + malformed
            yield found.to_reader()

    def _json(self, wanted: Wanted, on_line: _OnLine) -> Iterator[pa.RecordBatchReader]:
        chosen: dict[str, str] | None = None
        rows = 0
        for chunk in self._lines():
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

    def _lines(self, options: Csv | None = None) -> Iterator[bytes]:
        """Whole lines of UTF-8 that end with a line feed, as many as have arrived.

        With the options of CSV, a line break in quotes ends none, and bytes are decoded.
        """
        quote = options.quote.encode() if options and options.quote else None
        decode = _decoder(options.encoding) if options and not options.is_utf_8 else None
        ends_with_cr: bool | None = None
        # What has arrived and is no whole line, and whether it ends inside of quotes.
        rest, is_quoted = bytearray(), False
        is_over = False
        while not is_over:
            with reading(self.name):
                arrived = self._stream.read1(_CHUNK_BYTES)
                is_over = not arrived
                if decode:
                    arrived = decode(arrived, is_over)
            if ends_with_cr is None and (end := _FIRST_END.search(rest + arrived)):
                ends_with_cr = end.group() == b"\r"
                if ends_with_cr:
                    rest = rest.replace(b"\r", b"\n")
            if ends_with_cr:
                arrived = arrived.replace(b"\r", b"\n")
            cut, is_quoted = _last_end(arrived, quote, is_quoted)
            if cut:
                yield bytes(rest + arrived[:cut])
                rest.clear()
            rest += arrived[cut:]
            if len(rest) > _LONGEST_LINE:
                raise SourceError(
                    f"cannot read {self.name}: a line has more than {_LONGEST_LINE:,} bytes; "
                    "send JSON lines, CSV or an Arrow IPC stream"
                )
        if rest:
            yield bytes(rest)


def _decoder(encoding: str) -> Callable[[bytes, bool], bytes]:
    """Turns bytes of an encoding into UTF-8, piece by piece."""
    decode = codecs.getincrementaldecoder(encoding)().decode
    return lambda data, is_over: decode(data, is_over).encode()


def _last_end(arrived: bytes, quote: bytes | None, is_quoted: bool) -> tuple[int, bool]:
    """Where the last whole line ends, outside of quotes, and whether the bytes end inside of them.

    Counts each byte once.
    """
    if quote is None:
        return arrived.rfind(b"\n") + 1, False
    ends_quoted = is_quoted ^ bool(arrived.count(quote) % 2)
    end, is_inside = arrived.rfind(b"\n"), ends_quoted
    counted = len(arrived)
    while end >= 0:
        is_inside ^= bool(arrived.count(quote, end, counted) % 2)
        if not is_inside:
            break
        counted, end = end, arrived.rfind(b"\n", 0, end)
    return end + 1, ends_quoted


def _object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object on a line, or None and why there is none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return None, f"is no JSON object: {error}"
    return (row, "") if isinstance(row, dict) else (None, "is no JSON object")


def _value(role: str, value: Any) -> str | None:
    """A value as text; the core judges numbers as it does those of other sources."""
    if isinstance(value, str):
        # What is no Unicode cannot become text of Arrow's.
        value.encode()
        return value
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return _digits(value)
    raise ValueError(f"has neither text nor a whole number for {role}")


def _digits(number: int) -> str:
    # Python writes no longer numbers than these.
    if number.bit_length() > _MAX_NUMBER_BITS:
        raise ValueError("has a number that is too large")
    return str(number)
