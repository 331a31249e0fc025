"""Formats of outputs, by the names of files. Imports nothing that brings pyarrow."""

import os
from typing import NamedTuple

from ._address import Address
from ._errors import InvalidArgument
from ._text import escaped
from ._types import Compression

FORMATS = (
    "parquet",
    "csv",
    "csv.gz",
    "csv.zst",
    "jsonl",
    "jsonl.gz",
    "jsonl.zst",
    "arrow",
)
_COMPRESSIONS: dict[str, Compression] = {"gz": "gzip", "zst": "zstd"}


class Format(NamedTuple):
    """How rows are written."""

    name: str
    """One of `FORMATS`; names of such files end with it."""
    kind: str
    """"parquet", "csv", "jsonl" or "arrow"."""
    compression: Compression


def format_of(path: str, name: str | None = None) -> Format:
    """The format `name` or, without one, the format that the name of the file tells.

    Raises InvalidArgument if there is no such format, or the file's name tells none.
    """
    if name is None:
        name = _told_by(path)
        if name is None:
            raise InvalidArgument(
                f"the name {escaped(str(Address(path)))} does not tell a format; end it with "
                f"one of {_endings()}, or say --format (in Python format=)"
            )
    if name not in FORMATS:
        raise InvalidArgument(f"format is {name!r}; use one of {', '.join(FORMATS)}")
    kind, _, ending = name.partition(".")
    return Format(name, kind, _COMPRESSIONS.get(ending, "none"))


def format_of_folder(path: str, name: str | None = None) -> Format:
    """The format of the files in a folder: `name`, or what the folder's name tells, or Parquet.

    Raises InvalidArgument if there is no such format.
    """
    return format_of(path, name or _told_by(path.rstrip("/")) or "parquet")


def is_told_by(path: str) -> bool:
    """Whether the name of a file tells a format."""
    return _told_by(path) is not None


def _told_by(path: str) -> str | None:
    base = os.path.basename(path).lower()
    return next((known for known in FORMATS if base.endswith(f".{known}")), None)


def _endings() -> str:
    return ", ".join(f".{name}" for name in FORMATS)
