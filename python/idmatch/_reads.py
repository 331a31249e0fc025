"""Reads of a table, as it is now or as a snapshot shows it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from . import _core, _matching
from ._carry import Carry
from ._csv_options import Csv
from ._errors import InvalidArgument
from ._hops import Then, hop_of, hops_of
from ._progress import progress_of
from ._results import Latest, TableStats
from ._rows import Rows
from ._runs import Recorder, recorded
from ._text import shown
from ._times import Moment, datetime_or_none, millis_or_none, to_datetime
from ._types import ArrowArray, By, Counting, How, Keep, Pick, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from ._match import MatchResult

COLUMNS = ("id", "partner_id", "seen_at")
"""The columns of a table."""


class TableReads:
    """The methods of `Table` and `TableSnapshot` that read.

    Windows are half-open: `since <= seen_at < until`. Either end is a datetime (a naive one is
    UTC), a date, a timedelta before now, ISO 8601 text, the text of a period before now such as
    "90d", or None for no limit. Answers come newest first, ties by the bytes of the answer.

    Any method raises InvalidArgument for a key that is no identifier or a window that ends
    before it starts, and Corrupt or IoError when the store cannot be read.
    """

    __slots__ = ("_core", "_recorder")

    def __init__(self, core: _core.Table, recorder: Recorder | None) -> None:
        self._core = core
        self._recorder = recorder

    @property
    def name(self) -> str:
        """The table's name."""
        return self._core.name

    @property
    def keep(self) -> Keep:
        """Which observations of a pair are kept: "last" or "all"."""
        return self._core.keep

    @property
    def retention(self) -> str | None:
        """How long an observation is shown; None is for ever."""
        return self._core.retention

    def lookup(
        self,
        key: str,
        *,
        by: By = "id",
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> list[tuple[str, datetime]]:
        """The matches of an identifier, newest first: (partner_id, seen_at in UTC); with
        `by="partner_id"` (id, seen_at). Python objects, without Arrow; about as fast as
        `latest_partner_id`. An unknown identifier has an empty list.
        """
        return self.lookup_many([key], by=by, since=since, until=until, limit=limit)[0]

    def lookup_many(
        self,
        keys: Sequence[str],
        *,
        by: By = "id",
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> list[list[tuple[str, datetime]]]:
        """`lookup` for several identifiers, by position: one list for each key, all at one point of
        the table. `limit` is for each key. All answers are held in memory: for more than some
        10,000 keys, `match` is faster.
        """
        if isinstance(keys, str):
            raise InvalidArgument("keys is one text; give a list of identifiers, or use lookup")
        found = self._core.lookup_many(
            by, keys, millis_or_none(since), millis_or_none(until), _checked(limit)
        )
        return [[(value, to_datetime(at)) for value, at in answers] for answers in found]

    def partner_ids(
        self,
        id: str,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The partner IDs of an id: columns partner_id (text) and seen_at (timestamp[ms, UTC])."""
        return self._answers("id", id, since, until, limit)

    def ids(
        self,
        partner_id: str,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The ids of a partner ID: columns id (text) and seen_at (timestamp[ms, UTC])."""
        return self._answers("partner_id", partner_id, since, until, limit)

    def latest_partner_id(
        self, id: str, *, since: Moment | None = None, until: Moment | None = None
    ) -> Latest | None:
        """The newest partner ID of an id and its date; None when there is none."""
        return self._latest("id", id, since, until)

    def latest_id(
        self, partner_id: str, *, since: Moment | None = None, until: Moment | None = None
    ) -> Latest | None:
        """The newest id of a partner ID and its date; None when there is none."""
        return self._latest("partner_id", partner_id, since, until)

    def last_seen(self, id: str, partner_id: str) -> datetime | None:
        """When a pair was last seen together, in UTC; None for never."""
        return datetime_or_none(self._core.last_seen(id, partner_id))

    def history(self, id: str, partner_id: str) -> list[datetime]:
        """Every date of a pair, in UTC, newest first; with `keep="last"` at most one."""
        return [to_datetime(millis) for millis in self._core.history(id, partner_id)]

    def match(
        self,
        population: Source,
        *,
        column: str | None = None,
        by: By = "id",
        pick: Pick = "all",
        limit: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        carry: Sequence[str] | Literal["all"] = (),
        how: How = "inner",
        unmatched: bool = False,
        then: Then = (),
        with_hops: bool = False,
        csv: Csv | None = None,
    ) -> MatchResult:
        """Finds the matches of every identifier of a population.

        `population` and `csv` are anything that `load` takes. `column` names the column with the
        identifiers; without it the column is guessed if exactly one fits. `by` says whether they
        are ids or partner IDs. `pick="all"` gives the result of SQL's JOIN: a repeated population
        row repeats its matches. `pick="latest"` gives at most the newest match of each population
        row, and `limit` at most that number of its newest matches. A value that is no identifier
        (missing, empty, too long) matches nothing. Identifiers of fixed-size binary, such as
        hashes, are read as lowercase hex, and the result has the hex.

        `carry` names columns of the population that come out beside the match: "all", or a list of
        names, each "C" or "C as D". Dictionaries come out as their values. With `how="left"` a
        population row without a match is one row, with nulls. With `unmatched`,
        `MatchResult.unmatched` gives the rows without a match, and the reason. `carry`,
        `how="left"` and `then` imply `unmatched`.

        `then` names further tables of this store. The identifiers that a table gives are looked up
        in the next one, as ids unless that hop says by=partner-id. `with_hops` adds the answers of
        the tables between. In a directory, all tables are read at one point in time.

        Cost: with `carry`, `how="left"`, `unmatched` or `then`, each table writes carried values
        and matches to temporary files and reads them again, unless they are small. Otherwise there
        is no such cost.

        Raises BadInput if rows are malformed and none is an identifier; nulls alone are no error.
        Raises InvalidArgument for a missing column, and for a carried one whose name the result has
        itself.
        """
        first = hop_of(None, by, pick, limit, since, until)
        if how not in ("inner", "left"):
            raise InvalidArgument(f'how is {how!r}; use "inner" or "left"')
        wish = _matching.Wish(
            carry=Carry(carry) if carry else None,
            keeps_unmatched=how == "left",
            unmatched=unmatched,
            then=hops_of(then),
            with_hops=with_hops,
        )
        with recorded(self._recorder, "match", self.name) as run:
            result = _matching.match(self._core, population, column, first, wish, csv)
            run.population, run.matched = result.population, result.matched
        return result

    def scan(
        self,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        columns: Sequence[str] | None = None,
    ) -> Rows:
        """All visible observations, in no particular order: id, partner_id and seen_at, or only
        the `columns` that are named, in this order. Each observation is one row, also if `columns`
        make it equal to others.

        The rows are those at the moment of the call; on servers, each row is as it is when it is
        read. Columns that are left out are not built, but servers send whole rows. Raises
        InvalidArgument for another column, or an empty list.
        """
        return self._scan(None, since, until, columns)

    def scan_ranges(self, count: int) -> list[str]:
        """Divides the table into `count` splits of about equal size, at most 4,096.

        They are texts, which other processes can give to `scan_range`; together they are the whole
        table. In a directory they are of one version: take them from a snapshot or a checkpoint.
        Takes microseconds.
        """
        if count < 1:
            raise InvalidArgument(f"count is {count}; divide the table into at least one range")
        return _core.scan_ranges(self._core, count)

    def scan_range(
        self,
        scan_range: str,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        columns: Sequence[str] | None = None,
    ) -> Rows:
        """The observations in one of the `scan_ranges`, as `scan` gives them, at the cost of that
        split alone.

        Raises Expired for a range of another version, when the rows are read; InvalidArgument for
        any other text.
        """
        return self._scan(scan_range, since, until, columns)

    def _scan(
        self,
        scan_range: str | None,
        since: Moment | None,
        until: Moment | None,
        columns: Sequence[str] | None,
    ) -> Rows:
        window = (millis_or_none(since), millis_or_none(until))
        rows = _core.scan(self._core, scan_range, *window, _wanted(columns))
        return Rows(rows, progress_of(self._core))

    def partition_of(self, ids: ArrowArray | Sequence[str | None]) -> pa.Int32Array:
        """The number of each identifier's scan range: 0 to 4,095, and null for null.

        Identifiers of one scan range are read together. On servers, give each worker of a job
        neighbouring scan ranges: it then asks fewer partitions, each for more identifiers.

        `ids` are texts, or an Arrow array of them. The numbers are the same in every process and
        for every version of the table. Takes some 50 ns for each identifier. Raises InvalidArgument
        for an array of another type, SourceError for an array whose memory is wrong.
        """
        import pyarrow as pa

        from . import _sources

        texts = _sources.array(ids if isinstance(ids, ArrowArray) else pa.array(ids, pa.string()))
        numbers: pa.Int32Array = pa.array(_core.partition_of(self._core, texts))  # type: ignore[call-overload]
        return numbers

    def stats(self, *, count: bool = False) -> TableStats:
        """Figures about the table.

        In a directory only metadata are read, which takes microseconds. The numbers of different
        identifiers and pairs are then sums over segments: if segments overlap, they are upper
        bounds, and `is_exact` is False. `count` counts them, which reads the whole table once in
        each direction. Servers have no metadata about rows: without `count`, all figures come from
        a sample of 16 buckets of each direction and up to 64 hot keys, scaled to all of them. With
        `count`, the rows of each hot key are extrapolated from one of its shards.
        """
        if count:
            with recorded(self._recorder, "count", self.name) as run:
                stats = self._stats("all")
                run.counted(stats)
            return stats
        return self._stats("metadata")

    def _stats(self, counting: Counting) -> TableStats:
        stats, oldest, newest = self._core.stats(counting)
        return stats._replace(oldest=datetime_or_none(oldest), newest=datetime_or_none(newest))

    def _answers(
        self, by: By, key: str, since: Moment | None, until: Moment | None, limit: int | None
    ) -> pa.Table:
        window = (millis_or_none(since), millis_or_none(until))
        return self._core.answers(by, key, *window, _checked(limit))

    def _latest(
        self, by: By, key: str, since: Moment | None, until: Moment | None
    ) -> Latest | None:
        found = self._core.latest(by, key, millis_or_none(since), millis_or_none(until))
        return None if found is None else Latest(found[0], to_datetime(found[1]))


def check_columns(columns: Sequence[str]) -> None:
    """Raises InvalidArgument unless these are different columns of a table, at least one."""
    there = ", ".join(COLUMNS)
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise InvalidArgument(f"columns is no list of different names of {there}")
    for name in columns:
        if name not in COLUMNS:
            raise InvalidArgument(f"a table has no column {shown(name)}; its columns: {there}")


def _wanted(columns: Sequence[str] | None) -> tuple[bool, bool, bool]:
    """Whether each column of a table is named, in the order of `COLUMNS`; all are for None."""
    if columns is None:
        return True, True, True
    check_columns(columns)
    key, value, seen_at = (name in columns for name in COLUMNS)
    return key, value, seen_at


def _checked(limit: int | None) -> int | None:
    if limit is not None and limit < 0:
        raise InvalidArgument(f"limit is {limit}; use 0 or more, or leave it out")
    return limit
