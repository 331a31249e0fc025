"""CSV files as streams of the columns that are wanted, whatever their bytes.

Unless `Csv` says otherwise, the first line that is not empty is the header, and columns are
separated by whichever of comma, tab, semicolon and bar comes first in it. Values may be quoted.
They are read as bytes, so that leading zeros and broken UTF-8 reach the one place where input is
judged. Empty lines are no rows.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Literal, NamedTuple, TypeAlias, cast

import pyarrow as pa
import pyarrow.csv as pc
from pyarrow.fs import FileSystem

from idmatch._csv_options import Csv
from idmatch._errors import SourceError

from ._columns import Wanted, project
from ._source import OnMalformed

_BLOCK_BYTES = 4 << 20
MAX_HEADER_BYTES = 64 << 10
_DELIMITERS = ",\t;|"

# What follows is the line itself.
_MALFORMED = re.compile(r"(Expected \d+ columns, got \d+):.*", re.DOTALL)

_LINE_END = re.compile("\r\n|\n|\r")

_OnInvalid: TypeAlias = Callable[[pc.InvalidRow], Literal["skip", "error"]]


def open_csv(
    filesystem: FileSystem,
    path: str,
    name: str,
    wanted: Wanted,
    partition: Mapping[str, str],
    on_malformed: OnMalformed | None,
) -> pa.RecordBatchReader:
    """Streams a file's wanted columns; `partition` holds those that its path gives."""
    options = wanted.csv
    with filesystem.open_input_stream(path, compression="detect") as stream:
        start = read_start(stream.read(MAX_HEADER_BYTES), name, options)
    columns = start.columns
    constants = {key: value for key, value in partition.items() if key not in columns}
    schema = pa.schema([(column, pa.binary()) for column in columns])
    visible = pa.schema([*schema, *(pa.field(key, pa.string()) for key in constants)])
    chosen = wanted.choose(visible, name)
    stored = [column for column in chosen.values() if column not in constants]
    handler = _handler(name, on_malformed, start.lines_before, options) if on_malformed else None

    with _without_lines():
        reader = pc.open_csv(
            cast(IO[bytes], filesystem.open_input_stream(path, compression="detect")),
            # With threads the reader could not tell the numbers of malformed lines.
            pc.ReadOptions(
                use_threads=False,
                block_size=_BLOCK_BYTES,
                column_names=columns,
                skip_rows=start.lines_before,
                encoding="utf-8" if options.is_utf_8 else options.encoding,
            ),
            parse_options(start.delimiter, options.quote, handler),
            convert_options(stored, options.null),
        )
    return project(_batches(reader), schema, chosen, constants)


def read_chunk(
    chunk: bytes,
    start: "Start",
    options: Csv,
    chosen: Mapping[str, str],
    on_malformed: Callable[[int, str], bool] | None,
) -> pa.RecordBatchReader:
    """The chosen columns of whole lines without a header; malformed ones are numbered from 1."""

    def told(_: str, row: int, reason: str) -> bool:
        return on_malformed is not None and on_malformed(row, reason)

    handler = _handler("", told, 0, options) if on_malformed else None
    with _without_lines():
        read = pc.read_csv(
            io.BytesIO(chunk),
            pc.ReadOptions(use_threads=False, column_names=start.columns),
            parse_options(start.delimiter, options.quote, handler),
            convert_options(list(chosen.values()), options.null),
        )
    return project(read.to_batches(), read.schema, chosen, constants={})


def parse_options(
    delimiter: str, quote: str | None, on_invalid: _OnInvalid | None
) -> pc.ParseOptions:
    """How lines become values."""
    return pc.ParseOptions(
        delimiter=delimiter,
        quote_char=quote or False,
        newlines_in_values=quote is not None,
        invalid_row_handler=on_invalid,
    )


def convert_options(stored: list[str], null: Sequence[str] = ()) -> pc.ConvertOptions:
    """Values stay bytes; nothing between two delimiters is null."""
    return pc.ConvertOptions(
        check_utf8=False,
        null_values=["", *null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types=dict.fromkeys(stored, pa.binary()),
        include_columns=stored,
    )


@contextmanager
def _without_lines() -> Iterator[None]:
    """Removes the malformed line from an error: it has identifiers, and errors go to logs."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(_MALFORMED.sub(r"\1", str(error))) from None


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with _without_lines():
        yield from reader


def _handler(name: str, on_malformed: OnMalformed, before: int, options: Csv) -> _OnInvalid:
    """`before` lines come before the first row."""
    comment = options.comment

    def handle(row: pc.InvalidRow) -> Literal["skip", "error"]:
        if comment and (row.text or "").startswith(comment):
            return "skip"
        number = (row.number or 0) - before
        reason = f"has {row.actual_columns} fields instead of {row.expected_columns}"
        return "skip" if on_malformed(name, number, reason) else "error"

    return handle


class Start(NamedTuple):
    """What the first lines tell."""

    columns: list[str]
    delimiter: str
    lines_before: int
    """Lines before the first row: comments, empty ones and the header."""


def read_start(start: bytes, name: str, options: Csv) -> Start:
    """The columns of a file, from its first bytes."""
    wrong = SourceError(
        f"cannot read {name}: its first line is not {options.encoding}; name its encoding, such as "
        "latin-1"
    )
    # Other lines may be broken: their values are judged one by one.
    decoder = codecs.getincrementaldecoder(options.encoding)("replace")
    text = decoder.decode(start).removeprefix("\ufeff")
    for before, line in enumerate(_LINE_END.split(text), 1):
        if not line or (options.comment and line.startswith(options.comment)):
            continue
        if "\ufffd" in line:
            raise wrong
        delimiter = options.delimiter or _delimiter(line, options.quote)
        values = line.split(delimiter)
        if options.quote:
            values = next(csv.reader([line], delimiter=delimiter, quotechar=options.quote))
        if options.header:
            return Start(values, delimiter, before)
        return Start([str(n) for n in range(1, len(values) + 1)], delimiter, before - 1)
    raise SourceError(f"cannot read {name}: it is empty; a CSV file starts with a header")


def _delimiter(line: str, quote: str | None) -> str:
    """What comes first outside of quotes."""
    if quote:
        line = re.sub("{0}[^{0}]*{0}".format(re.escape(quote)), "", line)
    return next((char for char in line if char in _DELIMITERS), ",")
