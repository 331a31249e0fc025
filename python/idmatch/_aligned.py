"""Tables of text with aligned columns.

rich draws the bars only. It cuts the columns of a table to 80 characters in a pipe. Its import
takes 80 ms, and 1,000 rows take half a second.
"""

from collections.abc import Sequence

from ._text import escaped


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns, under the header unless that is empty.

    Columns of numbers are right-aligned. Unprintable characters are escapes.
    """
    rows = [[escaped(cell) for cell in row] for row in rows]
    lines = [[escaped(name) for name in header], *rows] if any(header) else rows
    columns = range(len(header))
    widths = [max((len(line[at]) for line in lines), default=0) for at in columns]
    marks = [">" if all(_is_number(row[at]) for row in rows) else "<" for at in columns]
    cells = ([f"{line[at]:{marks[at]}{widths[at]}}" for at in columns] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in cells)


def _is_number(text: str) -> bool:
    return text == "-" or (text[:1].isdigit() and not text[-1:].isalpha())
