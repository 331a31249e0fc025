"""Loads and matches: the core at work on the sources that users name."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from . import _core
from ._errors import BadInput
from ._match import MatchResult
from ._rejects import Rejects
from ._results import LoadReport
from ._sources import OnMalformed, Source, Wanted, are_short


def load(
    table: _core.Table,
    sources: Sequence[Source],
    columns: Wanted,
    strict: bool,
    rejects: str | os.PathLike[str] | None,
) -> LoadReport:
    """Loads all sources into a table in one step; see `Table.load`."""
    started = time.perf_counter()
    with Rejects(rejects or f"{table.name}.rejects.csv", strict) as log:
        streams = _streams(sources, columns, log.take_malformed)
        try:
            rows, rejected = table.load(streams, strict, log.take)
        except Exception as error:
            if strict and log.first_malformed:
                raise BadInput(f"{log.first_malformed}; nothing was loaded") from error
            raise
    return LoadReport(
        rows=rows + log.malformed,
        rejected=rejected + log.malformed,
        seconds=time.perf_counter() - started,
        rejects=log.path if log.written else None,
    )


def match(
    table: _core.Table,
    population: Sequence[Source],
    column: str | None,
    by: str,
    pick: str,
    since: int | None,
    until: int | None,
) -> MatchResult:
    """Matches a population; see `Table.match`."""
    started = time.perf_counter()
    streams = _streams(population, {by: column}, None)
    matched = table.match(streams, by, pick, since, until, are_short(population))
    return MatchResult(matched, time.perf_counter() - started)


def _streams(
    sources: Iterable[Source], columns: Wanted, on_malformed: OnMalformed | None
) -> Iterator[tuple[str, pa.RecordBatchReader]]:
    for source in sources:
        yield source.name, source.open(columns, on_malformed)
