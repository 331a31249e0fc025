"""Matches of populations: the core at work on the sources that users name."""

import time
from typing import TYPE_CHECKING

from . import _core
from ._csv_options import Csv
from ._given import Streams
from ._lazy import LazyModule
from ._match import MatchResult
from ._types import By, Pick

if TYPE_CHECKING:
    from . import _sources
else:
    # Brings pyarrow.
    _sources = LazyModule("idmatch._sources")

# A guessed column without any match among so many identifiers is likely the wrong one.
_FEW_IDS = 10_000


def match(
    table: _core.Table,
    population: object,
    column: str | None,
    by: By,
    pick: Pick,
    since: int | None,
    until: int | None,
    csv: Csv | None,
) -> MatchResult:
    """Matches a population; see `Table.match`."""
    started = time.perf_counter()
    sources = _sources.find(population)
    wanted = _sources.Wanted({by: column}, csv=csv)
    streams = Streams(sources, wanted, None)
    is_short = _sources.are_short(sources)
    first = _sources.FirstRows(streams, _FEW_IDS) if wanted.guesses(by) else None
    with streams.raising():
        matched = table.match(first or streams, by, pick, since, until, is_short)
    unmatched = first is not None and _are_unmatched(table, first, matched, (by, since, until))
    seconds = time.perf_counter() - started
    return MatchResult(
        matched, seconds, wanted.chosen[by], wanted.hex_columns, wanted.detected, unmatched
    )


def _are_unmatched(
    table: _core.Table,
    first: "_sources.FirstRows",
    matched: _core.Match,
    question: tuple[By, int | None, int | None],
) -> bool:
    """Whether a table that is not empty has none of the first identifiers."""
    # Unless fewer were not matched than these are.
    if matched.matched and matched.population - matched.matched >= _FEW_IDS:
        by, since, until = question
        matched = table.match(first.rows, by, "latest", since, until, True)
    return bool(matched.population) and not matched.matched and table.stats()[0].rows > 0
