"""Prints results as text or as one JSON document, and notes and questions on stderr."""

import json
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence

from idmatch._errors import InvalidArgument


def print_json(document: Mapping[str, object]) -> None:
    """Prints one JSON document on one line."""
    print(json.dumps(document, ensure_ascii=False))


def say_guessed(what: str, columns: Mapping[str, Sequence[str]], named: Collection[str]) -> None:
    """Prints a line on stderr about guessed columns: columns of roles not in `named`."""
    guessed = [
        " and ".join(f'"{_shown(name)}"' for name in names)
        + (f" as {role}" if len(columns) > 1 else "")
        for role, names in columns.items()
        if names and role not in named
    ]
    if guessed:
        warn(f"{what} column {', '.join(guessed)}")


def say_hex(columns: Sequence[str]) -> None:
    """Prints a line on stderr about columns that were read as hex, if there are any."""
    if columns:
        names = " and ".join(f'"{_shown(name)}"' for name in columns)
        warn(f"reading fixed-size binary column {names} as lowercase hex")


def print_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows as aligned columns, under the header unless that is empty.

    Columns of numbers are right-aligned. Unprintable characters are printed as escapes.
    """
    rows = [[_shown(cell) for cell in row] for row in rows]
    lines = [header, *rows] if any(header) else rows
    columns = range(len(header))
    widths = [max((len(line[at]) for line in lines), default=0) for at in columns]
    marks = [">" if all(_is_number(row[at]) for row in rows) else "<" for at in columns]
    for line in lines:
        cells = (f"{line[at]:{marks[at]}{widths[at]}}" for at in columns)
        print("  ".join(cells).rstrip())


def warn(message: str) -> None:
    """Prints a line on stderr."""
    print(f"idmatch: {message}", file=sys.stderr)


def confirmed(change: str, question: str, options: Namespace) -> bool:
    """Whether the user wants a change: by --yes, or as they answer on a terminal.

    Raises InvalidArgument where nobody can be asked: with --json, or without a terminal.
    """
    if options.yes:
        return True
    terminals = (sys.stdin, sys.stderr)
    if options.json or not all(stream and stream.isatty() for stream in terminals):
        raise InvalidArgument(f"{change}; add --yes to do it, or --dry-run to see what it would do")
    print(f"idmatch: {change}. {question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    warn("nothing was changed")
    return False


def _shown(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _is_number(text: str) -> bool:
    return text == "-" or (text[:1].isdigit() and not text[-1:].isalpha())
