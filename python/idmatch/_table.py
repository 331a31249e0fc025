"""Tables: loading, upserts, erasures and maintenance. Questions are in `_reads`."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal, Protocol

from . import _copy, _core, _operations
from ._csv_options import Csv
from ._errors import InvalidArgument
from ._progress import Totals, progress_of
from ._reads import TableReads
from ._rejects import MaxRejects, RejectsTo
from ._results import CopyReport, EraseReport, Finding, LoadReport, RepairReport
from ._runs import Recorder, recorded
from ._session import Session
from ._times import Moment, millis_or_none, observed_at
from ._types import Columns, Path, Source
from ._written import written


class _Store(Protocol):
    def table(self, name: str) -> Table: ...


def _table_of(store: _Store, name: str) -> Table:
    """The table of a pickle."""
    return store.table(name)


class Table(TableReads):
    """A named set of observations (id, partner_id, seen_at); `Store.table` gives one.

    Each call reads the table as it is at that moment. `Store.snapshot` gives tables that stay as
    they are.

    Windows are half-open: `since <= seen_at < until`. Either end is a datetime (a naive one is
    UTC), a date, a timedelta before now, ISO 8601 text, the text of a period before now such as
    "90d", or None for no limit. Answers come newest first, ties by the bytes of the answer.

    Any method raises InvalidArgument for a key that is no identifier or a window that ends
    before it starts, and Corrupt or IoError when the store cannot be read.
    """

    __slots__ = ("_store",)

    def __init__(self, core: _core.Table, store: _Store, recorder: Recorder | None) -> None:
        super().__init__(core, recorder)
        self._store = store

    def load(
        self,
        source: Source,
        *,
        columns: Columns = (),
        strict: bool = False,
        rejects: Path | None = None,
        max_rejects: int | str | None = None,
        replace: bool = False,
        key: str | None = None,
        date_format: str | None = None,
        tz: str | None = None,
        dated: datetime | date | str | None = None,
        csv: Csv | None = None,
    ) -> LoadReport:
        """Adds observations; in a directory, all or nothing. On servers, a load that fails may have
        added a part; repeating it is safe.

        `source` is a Parquet or ORC file, CSV or JSON lines (.jsonl, .ndjson, .json; both plain,
        .gz, .zst, .bz2 or .lz4), a glob, a directory, a URL of a filesystem that pyarrow opens, a
        list of these, or an object that speaks the Arrow PyCapsule protocol: pyarrow, polars,
        pandas, a DuckDB relation, a MatchResult. It is streamed. `columns` names its columns in the
        order id, partner_id, seen_at, or is a dict with these keys. A column whose name is None,
        empty or left out is guessed if exactly one fits; the report's `columns` has the names.
        Identifiers of fixed-size binary, such as hashes, are read as lowercase hex; the report's
        `hex_columns` names such columns.

        Dates are timestamps, dates, ISO 8601 text, or whole numbers that are a day (20261120) or
        milliseconds between 2001 and tomorrow. `date_format` names another way: a pattern of
        strptime ("%d/%m/%Y"), or "s", "ms", "us" or "ns" since 1970. Local times are in the time
        zone `tz` ("Europe/Paris"; UTC by default). A local time that the zone skips is rejected; of
        one that it repeats, the later instant counts. `dated` is the date of all rows, in place of
        a column.

        `csv` says how CSV is written where that is not detected: `Csv(encoding="latin-1")`.

        Rows that break the rules are rejected. A CSV file lists them with file, row, column and
        reason, for its owner only; the first rejected row creates it. The file is `rejects`, which
        must not exist yet, or a file in `<store>.rejects/` (for servers in
        `$XDG_STATE_HOME/idmatch/rejects/`), which stays 30 days. With `strict` the first bad row
        raises BadInput, and so do more than `max_rejects` rows, a number or a share such as "1%".
        Then nothing is loaded. On servers, `max_rejects` keeps all rows in a temporary file until
        all of them are validated, and `strict` keeps them in memory.

        A column of lists is a row for each of its values, as in SQL's UNNEST; one column may have
        lists.

        A load follows the table that it has found, also if the table is renamed meanwhile.

        With `replace` the rows of the source replace the rows of the table, in one step. Rows that
        others write after the load has begun stay, and erasures stay in force. Until the end the
        table is as it was. In a directory only: on servers, load into a new table, and exchange the
        names of both.

        `key` is an idempotency key of at most 128 bytes: for 24 h a load of this table with the
        same key reads nothing, and returns the counts of the first (`repeated`).

        Raises SourceError when the source cannot be read, is damaged, or changed while it was read.
        Raises InvalidArgument when a column is missing or cannot be guessed, or for the key of
        another kind of write. Raises TableNotFound if the table is dropped meanwhile, Busy while
        another process writes the store or another session replaces the table, and Unsupported for
        `replace` on servers.
        """
        with recorded(self._recorder, "load", self.name) as run:
            most = None if max_rejects is None else MaxRejects.parse(max_rejects)
            report = _operations.load(
                self._core,
                source,
                columns,
                strict,
                RejectsTo(rejects, most=most),
                how=written(date_format, tz, dated, csv),
                replace=replace,
                key=key,
            )
            run.took(report)
        return report

    def begin(
        self, *, replace: bool = False, key: str | None = None, shared: bool = False
    ) -> Session:
        """Begins a write of several sources that is committed once; use `with`.

        `replace` and `key` are those of `load`. Other processes may write until the commit. The
        commit raises Busy while another process writes, and can then be repeated. With `shared`,
        other processes may also add to this session (`Store.resume`), and it outlives this process.
        A shared session that an earlier attempt with the same key has left is aborted.

        Raises what `load` raises.
        """
        sharing: Literal["local", "shared"] = "shared" if shared else "local"
        core = _core.begin(self._core, replace, key, [], sharing)
        return Session(core, self._core, self._recorder, is_shared=shared)

    def upsert(
        self,
        source: Source,
        *,
        columns: Columns = (),
        strict: bool = False,
        rejects: Path | None = None,
        durability: Literal["always"] | None = None,
        date_format: str | None = None,
        tz: str | None = None,
        dated: datetime | date | str | None = None,
        csv: Csv | None = None,
    ) -> LoadReport:
        """Adds observations at once. When this returns, every later query in this process sees
        them, in both directions. They are on disk, too, unless the store was opened with
        `durability="interval"`: then they are on disk a little later. `durability="always"`, the
        only other value, makes this one call durable. Any number of threads may call it.

        The other arguments are those of `load`. The rows are cut into batches of at most 100,000
        rows or about 32 MiB. In a directory, each batch is visible whole or not at all. After an
        error (with `strict` a bad row is one) the batches before it stay. Repeating an upsert is
        always safe. For one observation `upsert_one` is faster, for millions of rows `load` is.

        The first upsert makes this process the writer of the store until the store is closed.
        Other processes see the rows when they refresh.

        Raises Busy while another process writes the store, IoError when the disk refuses. After a
        failed sync the store can only be read until it is opened again.
        """
        always = _is_always(durability)
        how = written(date_format, tz, dated, csv)
        to = RejectsTo(rejects)
        return _operations.upsert(self._core, source, columns, strict, to, always, how)

    def upsert_one(
        self,
        id: str,
        partner_id: str,
        seen_at: datetime | date | str | None = None,
        *,
        durability: Literal["always"] | None = None,
    ) -> None:
        """Adds one observation: that these two were seen together at `seen_at` (default: now), a
        datetime (a naive one is UTC), a date or ISO 8601 text.

        Visibility, `durability` and errors are those of `upsert`. Threads that call it at the same
        time share the wait for the disk.

        Raises BadInput for an empty or too long identifier and for a date before 1970 or more
        than a day ahead.
        """
        at = None if seen_at is None else observed_at(seen_at)
        self._core.upsert_one(id, partner_id, at, _is_always(durability))

    def erase(
        self, *, id: str | None = None, partner_id: str | None = None, at: Moment | None = None
    ) -> EraseReport:
        """Hides every observation of an id, a partner ID or the pair of both, up to `at` (default:
        now), in both directions and for good. `erase_from` erases many.

        An erased observation stays hidden when it arrives again, late: the store remembers a keyed
        hash of each target, never the identifier. Its bytes are gone from the store's files after
        `compact`; a backup made before still has them.

        Cost: a search and a publication. Each checkpoint in the folder of the store is also opened
        and searched. So erase many at once.

        Raises InvalidArgument without a value or for a date more than a day ahead, BadInput for a
        value that is no identifier, Busy while another process writes the store.
        """
        with recorded(self._recorder, "erase", self.name) as run:
            report = _operations.erase(self._core, id, partner_id, millis_or_none(at))
            run.rows, run.rejected = report.targets, report.rejected
        return report

    def erase_from(
        self,
        source: Source,
        *,
        columns: Columns,
        at: Moment | None = None,
        strict: bool = False,
        rejects: Path | None = None,
        csv: Csv | None = None,
    ) -> EraseReport:
        """Erases the target of each row of a source: an id, a partner ID or a pair. In a directory,
        all or nothing.

        `source`, `strict`, `rejects` and `csv` are those of `load`. `columns` names the columns in
        the order id, partner_id, or is a dict with these keys; at least one, and none is guessed.
        With both, a row may leave one empty (null). `erase` says what an erasure does.

        Raises InvalidArgument for no column or a date more than a day ahead, Busy while another
        process writes the store, and what `load` raises.
        """
        moment = millis_or_none(at)
        to = RejectsTo(rejects)
        with recorded(self._recorder, "erase", self.name) as run:
            report = _operations.erase_from(self._core, source, columns, moment, strict, to, csv)
            run.rows, run.rejected = report.targets, report.rejected
        return report

    def alter(self, *, retention: str | None) -> None:
        """Changes how long an observation is shown, such as "13mo"; None removes the limit.

        A retention is at least a day, and counts at once. Rows that a shorter one hides are removed
        a day after the change at the earliest. A retention that is set back before shows them
        again. A longer one shows the rows that still exist, and all rows that are written from then
        on. On servers, the call rewrites all rows before it returns. There, with `keep="last"`,
        older dates of a pair may stay hidden if its newer date was removed.

        Raises InvalidArgument for less than a day, TableNotFound for a table that was dropped or
        renamed, Busy while another process writes the store.
        """
        self._core.alter(retention)

    def copy_to(
        self,
        store: _copy.Destination,
        *,
        name: str | None = None,
        merge: bool = False,
        accept_lost_erasures: bool = False,
        batch_rows: int = 20_000_000,
    ) -> CopyReport:
        """Copies the table to another store, in a directory or on servers, or to another `name`.

        A missing table is created with the same `keep` and retention. Rows are sent in batches of
        `batch_rows`; a batch that was sent stays. Then the whole destination is read back and
        compared. A repeated copy sends only rows that differ, so after a crash it goes on where it
        was. It removes no rows there. It copies a snapshot: rows that are written meanwhile are for
        the next copy.

        Erasures are copied, too: observations that are hidden here stay hidden there, also when
        they arrive late. A store that hashes its erasures with a secret of its own cannot take
        them over. Then this raises Differs, unless `accept_lost_erasures` is set.

        Raises TableExists for a destination with another `keep` or retention. Raises Differs if the
        destination has rows or newer dates that this table lacks, unless `merge` is set. A merge
        leaves the rows of both, and of each pair the newest date.
        """
        return _copy.copy(self._core, store._core, name, merge, accept_lost_erasures, batch_rows)

    def compact(self) -> None:
        """Rewrites the table as few large segments, without expired or erased rows. Answers stay
        the same; reads and upserts go on. On servers, it deletes hidden rows and finds hot keys.

        Upserts start compactions in the background. This call does all of the work at once. It
        takes about as long as loading the rows that it rewrites, and little additional disk.

        Raises Busy while another process writes the store.
        """
        with progress_of(self._core).shown(self._totals):
            self._core.compact()

    def verify(self) -> list[Finding]:
        """Compares both directions of the table; an empty list when all is well. In a directory, it
        also reads every byte and verifies all checksums.
        """
        with progress_of(self._core).shown(self._totals):
            found = self._core.verify()
        return [Finding(place, problem) for place, problem in found]

    def repair(self, *, accept_loss: bool = False) -> RepairReport:
        """Checks the table and repairs damage: each direction is rebuilt from the other.

        It takes about as long as verifying and loading the table, and the disk of a second copy.
        Nothing changes before that copy is complete. If rows are damaged in both directions, some
        would be lost. Then it raises Corrupt with the largest possible number and changes nothing,
        unless `accept_loss` is set.

        Raises Busy while another process writes the store.
        """
        with progress_of(self._core).shown(self._totals):
            findings, lost = self._core.repair(accept_loss)
        return RepairReport([Finding(place, problem) for place, problem in findings], lost)

    def _totals(self) -> Totals:
        """The totals of the stages of maintenance, which reads both directions."""
        if (size := self._core.size) is None:
            return {}
        rows, stored_bytes = size
        return {"compact": 2 * rows, "compare": 2 * rows, "verify": stored_bytes}

    def __reduce__(self) -> tuple[object, ...]:
        return _table_of, (self._store, self.name)

    def __repr__(self) -> str:
        retention = f" retention={self.retention!r}" if self.retention else ""
        return f"<idmatch.Table {self.name!r} keep={self.keep!r}{retention}>"


def _is_always(durability: str | None) -> bool:
    if durability not in (None, "always"):
        raise InvalidArgument(
            f'durability is {durability!r}; a single call can ask for "always", or leave it out'
        )
    return durability == "always"
