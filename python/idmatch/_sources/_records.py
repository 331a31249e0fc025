"""Bytes that arrive, cut into whole records. Must not know what their values mean.

A record ends with a line end that is not in a quoted value. Invariants: each record is in one
piece; time is linear in the bytes.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from idmatch._errors import SourceError

# A record with a quote that is open for longer, or to the end, is malformed.
_LONGEST_QUOTED_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 16 << 20
_ARRIVAL_BYTES = 4 << 20
# A carriage return counts as a line end only once the next byte is known.
_FIRST_END = re.compile(rb"\r\n|\n|\r(?=[^\n])", re.DOTALL)


class Readable(Protocol):
    """A stream of bytes."""

    def read1(self, size: int = -1, /) -> bytes:
        """Waits for bytes, and returns those that have arrived; no bytes at the end."""


def arrivals(stream: Readable, encoding: str | None) -> Iterator[bytes]:
    """Arriving bytes as UTF-8 whose lines end with a line feed; `encoding` is None for UTF-8.

    Raises what the stream raises, and UnicodeDecodeError.
    """
    decode = _decoder(encoding) if encoding else None
    ends_with_cr: bool | None = None
    before = b""
    is_over = False
    while not is_over:
        arrived = stream.read1(_ARRIVAL_BYTES)
        is_over = not arrived
        if decode:
            arrived = decode(arrived, is_over)
        if ends_with_cr is None:
            # A carriage return at the very end waits for the next byte.
            arrived, before = before + arrived, b""
            if end := _FIRST_END.search(arrived):
                ends_with_cr = end.group() == b"\r"
            elif arrived.endswith(b"\r") and not is_over:
                arrived, before = arrived[:-1], b"\r"
        if ends_with_cr:
            arrived = arrived.replace(b"\r", b"\n")
        if arrived:
            yield arrived


def lines(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Whole lines, as many as have arrived; the last one may lack its end."""
    rest = bytearray()
    for arrived in pieces:
        cut = arrived.rfind(b"\n") + 1
        if cut:
            yield bytes(rest + arrived[:cut])
            rest.clear()
        rest += arrived[cut:]
        _check_length(rest, name)
    if rest:
        yield bytes(rest)


class Piece(NamedTuple):
    """Some bytes of a stream."""

    data: bytes
    is_unclosed: bool
    """Whether it is one line, with a quote that is never closed; otherwise it is whole records."""


class CsvRecords:
    """Cuts CSV into whole records. As for Arrow's reader, a quote opens a value only at the value's
    start, and is text elsewhere.
    """

    def __init__(self, delimiter: str, quote: str | None, name: str) -> None:
        self._quote = quote.encode() if quote else None
        self._name = name
        # Bytes of an unfinished record, whether a quote is known to be open in it, and whether it
        # may have ended with a carriage return.
        self._rest, self._is_open, self._may_end = bytearray(), False, False
        if quote:
            q, d = re.escape(quote.encode()), re.escape(delimiter.encode())
            # No repetition keeps alternatives: Python before 3.11.5 would backtrack into them. A
            # greedy repetition would take memory for each record.
            value = rb"(?>%b[^%b]*+(?:%b%b[^%b]*+)*+%b[^%b\r\n]*+|[^%b\r\n%b][^%b\r\n]*+|)"
            value %= (q, q, q, q, q, q, d, d, q, d)
            values = rb"%b(?:%b%b)*+" % (value, d, value)
            record = rb"(?>%b(?:\r\n?|\n))" % values
            self._values = re.compile(values)
            self._record = re.compile(record)
            self._records = re.compile(rb"(?:%b)*+" % record)

    def split(self, whole: bytes) -> list[bytes]:
        """Splits whole records into single ones, without empty lines."""
        if self._quote is None:
            records = whole.splitlines(keepends=True)
        else:
            records = [found.group() for found in self._record.finditer(whole)]
        return [record for record in records if record.strip(b"\r\n")]

    def add(self, arrived: bytes) -> bytes:
        """Adds bytes that have arrived, and takes the whole lines, if they are not all empty.

        The lines are whole records, unless a quote is open at their end. Call `cut` in that case,
        and if there are no lines.
        """
        if self._is_open and self._quote is not None:
            # Only a quote closes an open quote.
            self._is_open = self._quote not in arrived
        end = arrived.rfind(b"\n") + 1
        if self._is_open or not end:
            self._rest += arrived
            self._may_end = self._quote is not None and not self._is_open and b"\r" in arrived
            return b""
        lines = b"".join((self._rest, memoryview(arrived)[:end]))
        self._rest[:] = memoryview(arrived)[end:]
        self._may_end = False
        return lines if lines.lstrip(b"\r\n") else b""

    def cut(self, lines: bytes) -> Iterator[Piece]:
        """Takes these lines back, and gives the records that are whole."""
        self._rest[:0] = lines
        is_long = self._is_open and len(self._rest) > _LONGEST_QUOTED_BYTES
        if lines or self._may_end or is_long:
            yield from self._cut(_LONGEST_QUOTED_BYTES)
            self._is_open = self._values.fullmatch(self._rest) is None
        _check_length(self._rest, self._name)

    def finish(self) -> Iterator[Piece]:
        """The last records."""
        if self._rest:
            self._rest += b"\n"
            if self._quote is None:
                yield Piece(bytes(self._rest), False)
            else:
                yield from self._cut(0)

    def _cut(self, most: int) -> Iterator[Piece]:
        """Takes whole records from the rest, and lines whose quote is open for more than `most`."""
        while self._rest:
            found = self._records.match(self._rest)
            end = found.end() if found else 0
            if end:
                yield Piece(bytes(self._rest[:end]), False)
                del self._rest[:end]
            line = self._rest.find(b"\n") + 1
            if not line or len(self._rest) <= most:
                return
            yield Piece(bytes(self._rest[:line]), True)
            del self._rest[:line]


def _check_length(rest: bytearray, name: str) -> None:
    if len(rest) > _LONGEST_LINE_BYTES:
        raise SourceError(
            f"cannot read {name}: a line has more than {_LONGEST_LINE_BYTES:,} bytes; "
            "send JSON lines, CSV or an Arrow IPC stream"
        )


def _decoder(encoding: str) -> Callable[[bytes, bool], bytes]:
    """Turns bytes of an encoding into UTF-8, piece by piece."""
    decode = codecs.getincrementaldecoder(encoding)().decode
    return lambda data, is_over: decode(data, is_over).encode()
