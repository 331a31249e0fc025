"""The result of matching a population."""

from collections.abc import Sequence

from . import _core
from ._progress import Progress
from ._results import Detected, HopCounts, PlanStep
from ._rows import CountedRows
from ._timings import Requests, Timings, timings_of, verdict


class MatchResult(CountedRows):
    """A population that has been matched, and the rows of the result.

    The first column is `id` or `partner_id`, as in the population. The second is the other
    identifier, from the last table; its name ends with `_2` if it is taken. Both are text as it is
    stored, whatever the population's type. Then come `seen_at` (`timestamp[ms, UTC]`) and the
    carried columns. With hops, `hop_1_id` or `hop_1_partner_id`, `hop_1_seen_at` and so on follow
    the first column. Population rows come in no particular order; the matches of a row come newest
    first, unless there is a chain. `len` is the number of rows of the result.
    """

    __slots__ = (
        "_core",
        "_outside",
        "columns",
        "detected",
        "hex_columns",
        "is_guess_unmatched",
    )

    def __init__(
        self,
        core: _core.Match,
        seconds: float,
        columns: Sequence[str],
        hex_columns: Sequence[str],
        detected: Sequence[Detected],
        is_guess_unmatched: bool,
        progress: Progress,
    ) -> None:
        super().__init__(core.output(), progress)
        self._core = core
        self.columns = columns
        """The population's column that was read; several where its sources differ."""
        self.hex_columns = hex_columns
        """The names in `columns` that are fixed-size binary: they were read as lowercase hex."""
        self.detected = detected
        """How the population is written, each way once."""
        self.is_guess_unmatched = is_guess_unmatched
        """Whether the column was guessed, and none of its first 10,000 identifiers is in the table,
        which is not empty. The guess is then likely wrong."""
        # Seconds that the core did not measure: finding the columns, and imports.
        self._outside = max(seconds - core.timings[0], 0.0)

    @property
    def seconds(self) -> float:
        """How long the match, and reading its rows, took so far."""
        return self._outside + self._core.timings[0]

    @property
    def population(self) -> int:
        """Population rows read."""
        return self._core.population

    @property
    def matched(self) -> int:
        """Population rows with at least one match; of a chain, in the last table."""
        return self._core.matched

    @property
    def rows(self) -> int:
        """The number of matches: the result of `SELECT count(*)` over the joins."""
        return self._core.rows

    @property
    def rate(self) -> float:
        """`matched / population`; 0 for an empty population."""
        return self.matched / self.population if self.population else 0.0

    @property
    def hops(self) -> list[HopCounts]:
        """The counts of each table of the chain; without a chain, of the one table."""
        return [HopCounts(*counts) for counts in self._core.hops]

    @property
    def plan(self) -> list[PlanStep]:
        """How the population was read, and why: one step for each way that was used."""
        return [PlanStep(*step) for step in self._core.plan]

    @property
    def timings(self) -> Timings:
        """Where the time went: the parts add up to `seconds`."""
        elapsed, single_threaded, times = self._core.timings
        return timings_of(times, self._outside + elapsed, single_threaded)

    @property
    def requests(self) -> Requests | None:
        """The requests to servers; None in a directory."""
        asked = self._core.requests
        return Requests(*asked) if asked else None

    @property
    def verdict(self) -> str:
        """One sentence: which part limits the match, and what would make it faster."""
        return verdict(self.timings, self.requests)

    def unmatched(self) -> CountedRows:
        """The population rows that have no match, in order: the identifier, `reason`, and the
        carried columns.

        The reason is "null", "empty", "too long", "not UTF-8", "not in table", "outside the
        window", or "lost at hop 2" if the first table of a chain has it and the second does not.
        Rows that retention or an erasure hides are not in the table. The column is `reason_2`, and
        so on, if a carried column is called `reason`. With a window, reading these rows matches
        them again without the window; on servers, with the table as it is then.

        Raises InvalidArgument unless the match was made with `unmatched`, `carry`, `how="left"` or
        `then`.
        """
        return CountedRows(self._core.unmatched(), self._progress)

    def __repr__(self) -> str:
        return (
            f"<idmatch.MatchResult population={self.population} matched={self.matched} "
            f"rate={self.rate:.4f} rows={self.rows} seconds={self.seconds:.3f}>"
        )
