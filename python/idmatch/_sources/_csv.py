"""CSV files as streams of the columns that are wanted, whatever their bytes.

The first line that is not empty is the header. Columns are separated by whichever of comma,
tab, semicolon and bar comes first in it. Values may be quoted; they are read as bytes, so that
leading zeros and broken UTF-8 reach the one place where input is judged. Empty lines are no
rows.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.csv as pc
from pyarrow.fs import FileSystem

from idmatch._errors import SourceError

from ._columns import Wanted, project
from ._source import OnMalformed

_BLOCK_BYTES = 4 << 20
MAX_HEADER_BYTES = 64 << 10
_DELIMITERS = ",\t;|"

# What follows is the line itself.
_MALFORMED = re.compile(r"(Expected \d+ columns, got \d+):.*", re.DOTALL)

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
    with filesystem.open_input_stream(path, compression="detect") as stream:
        columns, delimiter = read_header(stream.read(MAX_HEADER_BYTES), name)
    constants = {key: value for key, value in partition.items() if key not in columns}
    schema = pa.schema([(column, pa.binary()) for column in columns])
    visible = pa.schema([*schema, *(pa.field(key, pa.string()) for key in constants)])
    chosen = wanted.choose(visible, name)
    stored = [column for column in chosen.values() if column not in constants]

    with _without_lines():
        reader = pc.open_csv(
            cast(IO[bytes], filesystem.open_input_stream(path, compression="detect")),
            # With threads the reader could not tell the numbers of malformed lines.
            pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            # The reader counts the header as a row; rows are counted from the one after it.
            parse_options(delimiter, _handler(name, on_malformed, -1) if on_malformed else None),
            convert_options(stored),
        )
    return project(_batches(reader), schema, chosen, constants)


def read_chunk(
    chunk: bytes,
    header: Sequence[str],
    delimiter: str,
    chosen: Mapping[str, str],
    on_malformed: Callable[[int, str], bool] | None,
) -> pa.RecordBatchReader:
    """The chosen columns of whole lines without a header; malformed ones are numbered from 1."""

    def told(_: str, row: int, reason: str) -> bool:
        return on_malformed is not None and on_malformed(row, reason)

    with _without_lines():
        read = pc.read_csv(
            io.BytesIO(chunk),
            pc.ReadOptions(use_threads=False, column_names=list(header)),
            parse_options(delimiter, _handler("", told, 0) if on_malformed else None),
            convert_options(list(chosen.values())),
        )
    return project(read.to_batches(), read.schema, chosen, constants={})


def parse_options(delimiter: str, on_invalid: _OnInvalid | None) -> pc.ParseOptions:
    """How lines become values."""
    return pc.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, invalid_row_handler=on_invalid
    )


def convert_options(stored: list[str]) -> pc.ConvertOptions:
    """Values stay bytes; nothing between two delimiters is null."""
    return pc.ConvertOptions(
        check_utf8=False,
        null_values=[""],
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


def _handler(name: str, on_malformed: OnMalformed, shift: int) -> _OnInvalid:
    def handle(row: pc.InvalidRow) -> Literal["skip", "error"]:
        number = (row.number or 0) + shift
        reason = f"has {row.actual_columns} fields instead of {row.expected_columns}"
        return "skip" if on_malformed(name, number, reason) else "error"

    return handle


def read_header(start: bytes, name: str) -> tuple[list[str], str]:
    """The names of the columns, and what separates them, from the start of a file."""
    lines = start.removeprefix(b"\xef\xbb\xbf").splitlines()
    line = next((line for line in lines if line), None)
    if line is None:
        raise SourceError(f"cannot read {name}: it is empty; a CSV file starts with a header")
    try:
        header = line.decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"cannot read {name}: its header is not UTF-8; convert it") from error
    unquoted = re.sub('"[^"]*"', "", header)
    delimiter = next((char for char in unquoted if char in _DELIMITERS), ",")
    return next(csv.reader([header], delimiter=delimiter)), delimiter
