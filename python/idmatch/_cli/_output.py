"""Prints results as text or as one JSON document, and logs the messages of a command on stderr."""

import json
import logging
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence

from idmatch._address import Address
from idmatch._aligned import aligned
from idmatch._errors import InvalidArgument
from idmatch._results import Detected
from idmatch._text import escaped, looks_like_value, shown_column

LOGGER = logging.getLogger("idmatch.cli")

# The URLs of the command line.
_URLS: list[Address] = []


def print_json(document: Mapping[str, object]) -> None:
    """Prints one JSON document on one line."""
    print(json.dumps(document, ensure_ascii=False))


def say_read(
    detected: Sequence[Detected],
    columns: Mapping[str, Sequence[str]],
    named: Collection[str],
    hex_columns: Sequence[str],
) -> None:
    """Notes how sources were read; roles not in `named` were guessed."""
    if not detected:
        return
    roles = [
        f"{role} from {_quoted(names)}{'' if role in named else ' (guessed)'}"
        for role, names in columns.items()
        if names
    ]
    formats = list(dict.fromkeys(_format(one) for one in detected))
    dates = list(dict.fromkeys(one.dates for one in detected if one.dates))
    also = [f"dates as {' and '.join(dates)}"] if dates else []
    if hex_columns:
        also.append(f"fixed-size binary {_quoted(hex_columns)} as lowercase hex")
    note(f"read {' and '.join(formats)}: {', '.join(roles + also)}")
    is_csv = any(one.format == "csv" for one in detected)
    if is_csv and any(looks_like_value(name) for names in columns.values() for name in names):
        warn("a column's name looks like an identifier: without a header, say --no-header")


def detected_as_json(detected: Sequence[Detected]) -> list[dict[str, object]]:
    """How sources were read, for a JSON document."""
    documents = [one._asdict() for one in detected]
    # Only Hive has reasons.
    return [{k: v for k, v in each.items() if k != "why" or v is not None} for each in documents]


def _format(detected: Detected) -> str:
    if detected.format != "csv":
        return f"{detected.format} ({detected.why})" if detected.why else detected.format
    return f"csv (delimiter {detected.delimiter!r}, {detected.encoding})"


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f'"{shown_column(name)}"' for name in names)


def print_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows as aligned columns; see `aligned`."""
    if text := aligned(header, rows):
        print(text)


def grouped(value: int | float | str) -> str:
    """A number with commas; text as it is."""
    return value if isinstance(value, str) else f"{value:,}"


def hide_secrets_of(urls: Sequence[str]) -> None:
    """Has `printable` hide the user, password and options of each of these URLs."""
    _URLS[:] = map(Address, urls)


def printable(message: str) -> str:
    """A message on one line, without control characters and secrets."""
    message = " ".join(message.split())
    for url in _URLS:
        message = url.scrub(message)
    return escaped(message)


def note(message: str) -> None:
    """Logs what a command did unasked, or how it did it. Every level of the log shows it."""
    LOGGER.info("%s", message)


def warn(message: str) -> None:
    """Logs what the user should look at, such as rejected rows."""
    LOGGER.warning("%s", message)


def fail(message: str) -> None:
    """Logs why a command ends without its result."""
    LOGGER.error("%s", message)


def confirmed(change: str, question: str, options: Namespace) -> bool:
    """Whether the user wants a change: by --yes, or as they answer on a terminal.

    Raises InvalidArgument if it cannot ask: with --json, or without a terminal.
    """
    if options.yes:
        return True
    terminals = (sys.stdin, sys.stderr)
    if options.json or not all(stream and stream.isatty() for stream in terminals):
        raise InvalidArgument(f"{change}; add --yes to do it, or --dry-run to see what it would do")
    print(f"idmatch: {change}. {question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    note("nothing was changed")
    return False
