"""Turns sources that users name into Arrow streams with the column names that the core knows."""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, TypeGuard

import pyarrow as pa

from idmatch._address import Address
from idmatch._errors import InvalidArgument
from idmatch._hive_query import Hive
from idmatch._types import ArrowArray

from ._byte_stream import ByteStream
from ._checked import checked
from ._columns import Wanted, with_constants
from ._estimate import estimated_rows, known_rows
from ._files import File, find_files
from ._first_rows import FirstRows
from ._hive import HiveResult, find_hive
from ._lists import RowNumbers
from ._objects import ArrowObject, is_arrow
from ._source import OnMalformed, Opened, Source, reading, watched

_FEW_ROWS = 10_000

__all__ = [
    "ByteStream",
    "File",
    "FirstRows",
    "OnMalformed",
    "Opened",
    "RowNumbers",
    "Source",
    "Wanted",
    "are_short",
    "array",
    "estimated_rows",
    "find",
    "known_rows",
    "one_row",
    "ready",
    "watched",
    "with_constants",
]


def find(source: object) -> Sequence[Source]:
    """The sources that a value names: the files of a path, glob, directory or URL, an Arrow object,
    or a table or query of Hive. A list names the sources of its items.

    Raises SourceError when no file is found, InvalidArgument for any other value.
    """
    if isinstance(source, (str, os.PathLike)):
        where = os.fspath(source)
        return find_hive(Hive(where)) if Address(where).is_hive else find_files(where)
    if isinstance(source, Hive):
        return find_hive(source)
    if is_arrow(source):
        return [ArrowObject(source)]
    if isinstance(source, Source):
        return [source]
    if isinstance(source, (list, tuple)) and source:
        return _told_apart([found for part in source for found in find(part)])
    raise InvalidArgument(
        f"{type(source).__name__} is no source; use a path, glob, directory or URL, an object that "
        "exports Arrow data (pyarrow, polars, pandas 2.2, DuckDB), an idmatch.Hive, or a list of "
        "these"
    )


def _told_apart(sources: Sequence[Source]) -> Sequence[Source]:
    """The same sources. Objects in memory of one name are numbered, so that errors, rejected rows
    and row numbers are those of one of them.
    """
    objects = [source for source in sources if isinstance(source, ArrowObject)]
    counts = Counter(source.name for source in objects)
    numbers: dict[str, count[int]] = defaultdict(lambda: count(1))
    for source in objects:
        if counts[source.name] > 1:
            source.name = f"{source.name} {next(numbers[source.name])}"
    return sources


def one_row(values: Mapping[str, str]) -> Sequence[Source]:
    """A source with one row of text: its columns and their values."""
    return [ArrowObject(pa.table({name: [value] for name, value in values.items()}))]


def array(values: ArrowArray) -> "pa.Array[Any]":
    """One array that is not part of a population; raises SourceError if its memory is wrong."""
    with reading("the array"):
        return checked(pa.array(values), is_judged=False)  # type: ignore[call-overload]


def ready(source: object, wanted: Wanted) -> Sequence[Source]:
    """The sources of `find`, with the results of queries fetched. So servers are asked on this
    thread, and before anything is locked.

    Raises what `find` raises, and SourceError for a query that fails.
    """
    found = find(source)
    return [each.fetch(wanted) if isinstance(each, HiveResult) else each for each in found]


def are_short(sources: Sequence[Source]) -> TypeGuard[Sequence[ArrowObject]]:
    """Whether all sources are in memory and have few rows, so that Ctrl-C need not end the read."""
    return all(isinstance(source, ArrowObject) and source.rows <= _FEW_ROWS for source in sources)
