"""The first lines of CSV: its columns, and the delimiter."""

import csv
import re
from typing import NamedTuple

from idmatch._csv_options import Csv
from idmatch._errors import SourceError

_DELIMITERS = ",\t;|"
_LINE_END = re.compile("\r\n|\n|\r")


class Start(NamedTuple):
    """The columns and the delimiter of CSV, as its first lines tell."""

    columns: list[str]
    delimiter: str
    lines_before: int
    """Lines before the first row: comments, empty ones and the header."""


def no_header(name: str) -> SourceError:
    """The error of a source without any line."""
    return SourceError(f"cannot read {name}: it is empty; a CSV file starts with a header")


def read_start(start: bytes, name: str, options: Csv) -> Start | None:
    """The start of CSV, from whole lines of UTF-8; None if all lines are empty or comments."""
    # Other lines may be broken UTF-8: their values are judged one by one.
    text = start.decode(errors="replace").removeprefix("\ufeff")
    for before, line in enumerate(_LINE_END.split(text), 1):
        if not line or (options.comment and line.startswith(options.comment)):
            continue
        if "\ufffd" in line:
            raise SourceError(
                f"cannot read {name}: its first line is not {options.encoding}; name its encoding, "
                "such as latin-1"
            )
        delimiter = options.delimiter or _delimiter(line, options.quote)
        values = line.split(delimiter)
        if options.quote:
            values = next(csv.reader([line], delimiter=delimiter, quotechar=options.quote))
        if options.header:
            return Start(values, delimiter, before)
        return Start([str(n) for n in range(1, len(values) + 1)], delimiter, before - 1)
    return None


def _delimiter(line: str, quote: str | None) -> str:
    """The delimiter that comes first outside of quotes; a comma if there is none."""
    if quote:
        line = re.sub("{0}[^{0}]*{0}".format(re.escape(quote)), "", line)
    return next((char for char in line if char in _DELIMITERS), ",")
