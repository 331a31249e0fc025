"""Runs a match: opens the sources of the population, calls the core, returns a `MatchResult`."""

import time
from typing import TYPE_CHECKING, NamedTuple

from . import _core
from ._carry import Carry
from ._csv_options import Csv
from ._given import Streams
from ._hops import Hop
from ._lazy import LazyModule
from ._match import MatchResult
from ._progress import progress_of

if TYPE_CHECKING:
    from . import _sources
else:
    # Brings pyarrow.
    _sources = LazyModule("idmatch._sources")

# A guessed column is likely the wrong one if none of its first 10,000 identifiers matches.
_FEW_IDS = 10_000


class Wish(NamedTuple):
    """The parts of a match's result besides pairs."""

    carry: Carry | None
    """The carried columns; None if nothing is carried."""
    keeps_unmatched: bool
    """Whether unmatched population rows are rows of the result."""
    unmatched: bool
    """Whether `MatchResult.unmatched` gives these rows."""
    then: list[Hop]
    with_hops: bool

    @property
    def is_for_pairs(self) -> bool:
        """Whether the result has only pairs."""
        return not (self.carry or self.keeps_unmatched or self.unmatched or self.then)


def match(
    table: _core.Table,
    population: object,
    column: str | None,
    first: Hop,
    wish: Wish,
    csv: Csv | None,
) -> MatchResult:
    """Matches a population; see `Table.match`."""
    started = time.perf_counter()
    by = first.by
    wanted = _sources.Wanted({by: column}, csv=csv, carry=wish.carry)
    sources = _sources.ready(population, wanted)
    streams = Streams(sources, wanted, None)
    some = _sources.FirstRows(streams, _FEW_IDS) if wanted.guesses(by) else None
    progress = progress_of(table)
    shown = progress.shown(lambda: {"match": _sources.known_rows(sources)})
    with shown, streams.raising():
        if wish.is_for_pairs:
            short = _sources.are_short(sources)
            matched = _core.match_population(table, some or streams, *first[1:], short)
        else:
            hops = [first, *wish.then]
            matched = _core.match_chain(
                table, some or streams, hops, wish.keeps_unmatched, wish.with_hops
            )
    unmatched = some is not None and _are_unmatched(table, some, matched, first)
    seconds = time.perf_counter() - started
    return MatchResult(
        matched,
        seconds,
        wanted.chosen[by],
        wanted.hex_columns,
        wanted.detected,
        unmatched,
        progress,
    )


def _are_unmatched(
    table: _core.Table, some: "_sources.FirstRows", matched: _core.Match, first: Hop
) -> bool:
    """Whether none of the first identifiers is in the table, which is not empty."""
    population, found, _ = matched.hops[0]
    # With fewer unmatched rows, at least one of the first ones has a match.
    if found and population - found >= _FEW_IDS:
        question = first._replace(most=1)
        found = _core.match_population(table, some.rows, *question[1:], True).matched
    return bool(population) and not found and table.stats("metadata")[0].rows > 0
