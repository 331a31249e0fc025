"""The compiled core: stores, matches and output files. Use the `idmatch` package, not this module.

Instants are integers: milliseconds since 1970 in UTC. `by` is "id" or "partner_id".
Calls that read or write release the GIL. All raise the errors of `idmatch._errors`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, final

import pyarrow as pa

from ._results import TableStats
from ._types import (
    ArrowArray,
    ArrowStream,
    By,
    Compression,
    CopyFigures,
    Counting,
    Failing,
    Keep,
    LogEvent,
    Reject,
)

__all__ = [
    "Match",
    "Nodes",
    "Rows",
    "Session",
    "Snapshot",
    "Store",
    "Table",
    "__version__",
    "address_parts",
    "begin",
    "copy_table",
    "explain_address",
    "flush_logs",
    "format_instant",
    "give_memory_back",
    "judge",
    "log_to",
    "match_chain",
    "match_population",
    "name_process",
    "open_servers",
    "open_store",
    "parse_instant",
    "parse_period",
    "parse_size",
    "partition_of",
    "recover",
    "report_to",
    "restore",
    "scan",
    "scan_ranges",
]

__version__: str

def open_store(
    path: str,
    interval_millis: int | None,
    memtable_bytes: int | None,
    writer_wait_millis: int,
    read_only: bool,
    progress: bool | None,
) -> Store:
    """Opens the store in a directory. The first write makes a store that does not exist yet.

    With `interval_millis` upserts are acknowledged before they are durable; they are durable that
    many milliseconds later. A write waits `writer_wait_millis` while another process writes the
    store. Raises NotAStore for another directory. `progress` is only kept, for `Table.progress`.
    """

def judge(
    sources: Iterable[tuple[str, pa.RecordBatchReader]],
    strict: bool,
    on_rejects: Callable[[list[Reject]], None],
    dates: tuple[str | None, str | None],
    shown: int,
) -> tuple[int, int, int, list[tuple[str, str, int]]]:
    """Judges all rows without storing them. Returns rows read, rows rejected, the bytes of the
    identifiers of good rows, and the first `shown` good rows: id, partner ID, milliseconds.
    """

def copy_table(
    table: Table,
    store: Store,
    name: str,
    batch_rows: int,
    merge: bool,
    accept_lost_erasures: bool,
) -> CopyFigures:
    """Copies a table to the table of `store` with this name; makes it if there is none.

    Returns the fields of `CopyReport` from `rows` to `erasures_lost`, under the same names.
    """

def report_to(
    callable: Callable[[str, int, str], object] | None,
) -> Callable[[str, int, str], object] | None:
    """Sets the callable to which long calls of this thread tell their progress; returns the former.

    It gets a stage such as "load", the amount done since the last time, and the unit, "rows" or
    "bytes". It is called several times a second, and at the end. An exception of it ends the call
    and is raised.
    """

def log_to(
    tell: Callable[[list[LogEvent], int], object], engine: int, cql: int, driver: int
) -> None:
    """Sets the levels of the log (0: no events), and the callable that gets its events, on a thread
    of its own.

    The callable also gets the number of events that were dropped because too many waited. The first
    callable of a process stays.
    """

def flush_logs() -> None:
    """Waits until all events so far are told, for 5 s at most."""

def open_servers(address: str, read_only: bool, progress: bool | None) -> Store:
    """Opens the store on ScyllaDB or Cassandra that a cql:// address names."""

def explain_address(address: str) -> list[tuple[str, str, str]]:
    """The settings of a cql:// address, given or not: name, value, purpose."""

def address_parts(address: str) -> tuple[list[str], str]:
    """The contact points of a cql:// address, each as host:port, and its keyspace."""

def name_process(program: str) -> None: ...
def give_memory_back() -> None:
    """Has matches and scans of this process release, from now on, the pages that they have read."""

def recover(path: str, accept_loss: bool, accept_older: bool) -> list[tuple[str, str]]:
    """Recovers a store that cannot be opened; returns the places and problems that it found."""

def restore(source: str, destination: str, verify: bool) -> None:
    """Copies a backup to a place where nothing is yet; `verify` checks all checksums first."""

def parse_instant(text: str) -> int:
    """Reads ISO 8601 ("2026-03-01", "2026-03-01T12:30:00Z") or a period before now ("90d")."""

def parse_period(text: str) -> str:
    """Checks a length of time such as "13mo" and returns it."""

def parse_size(text: str) -> int:
    """Reads "200000", "1.5G" (10**9) or "512Mi" (2**20)."""

def format_instant(millis: int) -> str:
    """ISO 8601 in UTC with milliseconds: "2026-03-01T12:30:00.000Z"."""

@final
class Store:
    @property
    def path(self) -> str: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def progress(self) -> bool | None:
        """Whether progress is shown; None if that depends on where Python runs."""
    def create_table(
        self, name: str, keep: Keep, retention: str | None, expected_rows: int | None
    ) -> Table:
        """keep is "last" or "all". A table that exists with the same options is returned."""
    def rename_table(self, old: str, new: str) -> None:
        """Raises TableNotFound, and TableExists if the new name is taken."""
    def swap_tables(self, a: str, b: str) -> None:
        """Exchanges the names of two tables at once; raises TableNotFound."""
    def drop_table(self, name: str) -> None:
        """Removes a table; its erasures stay for the next table of that name."""
    def table(self, name: str) -> Table: ...
    def tables(self) -> list[str]: ...
    def snapshot(self) -> Snapshot: ...
    def status(self) -> tuple[int, float | None, bool, bool, Failing | None]:
        """The fields of `StoreStatus`, the last one as a tuple."""
    def metrics(self) -> str:
        """The figures of this process about the store, as OpenMetrics text."""
    def resume(self, id: str) -> tuple[Session, Table]:
        """A shared session that another process has begun, and its table."""
    def refresh(self) -> None:
        """Lets this store and its tables see the changes that other processes have published."""
    def backup(self, destination: str) -> None: ...
    def checkpoint(self, destination: str | None, keep_millis: int) -> tuple[str, int, int, int]:
        """Makes a checkpoint; returns its path, its time and the end of its life (milliseconds
        since
        1970), and the bytes of files that only it has.
        """
    def checkpoints(self) -> list[tuple[str, int, int, int]]: ...
    def remove_checkpoint(self, path: str) -> None: ...
    def close(self) -> None:
        """Gives up the writer lock; any later use raises InvalidArgument."""

@final
class Nodes:
    def __new__(cls, address: str) -> Nodes:
        """Connects to the nodes of an address."""
    def ask(
        self, questions: list[str]
    ) -> list[tuple[str, str | None, list[list[dict[str, float | str | None]] | None]]]:
        """Asks each node the same SELECTs about itself, at once.

        Returns for each node its address, its datacenter, and the rows of each question; None for a
        question without an answer within 0.8 s.
        """

@final
class Session:
    @property
    def id(self) -> str:
        """The id by which other processes open it, if it is shared."""
    def outcome(self) -> tuple[int, int] | None:
        """Rows written and rejected, once this session, or an earlier one of its key, has
        committed.

        None before.
        """
    def add(
        self,
        sources: Iterable[tuple[str, ArrowStream]],
        strict: bool,
        on_rejects: Callable[[list[Reject]], None],
        dates: tuple[str | None, str | None],
        malformed: Callable[[], int],
        number: int | None,
    ) -> tuple[int, int, int | None, str]:
        """Stages all sources as one part; returns (rows read, rejected, newest date, receipt).

        `dates` is the format of dates and the zone of local times. `malformed` returns the number
        of rows that were rejected before they reached the core.
        """
    def staged(self) -> list[str]:
        """The receipts of all parts of a shared session, wherever they were staged."""
    def commit(self, receipts: list[str] | None) -> tuple[int, int]:
        """Commits the parts of these receipts, or the parts added here; returns (rows written, rows
        rejected).
        """
    def abort(self) -> None:
        """Ends the session without a commit."""

def begin(
    table: Table,
    replace: bool,
    key: str | None,
    sources: list[str],
    sharing: Literal["locked", "local", "shared"],
) -> Session:
    """Begins a write session. `sharing` says what other processes may write before its end.

    With "locked" they write nothing, with "local" the store, with "shared" also this session.
    """

@final
class Snapshot:
    @property
    def version(self) -> str | None: ...
    def tables(self) -> list[str]: ...
    def table(self, name: str) -> Table:
        """A table that can only be read, until the snapshot is closed."""
    def close(self) -> None: ...

@final
class Table:
    @property
    def name(self) -> str: ...
    @property
    def store_path(self) -> str:
        """The path or the address of its store, without secrets."""
    @property
    def is_remote(self) -> bool:
        """Whether the store is on servers."""
    @property
    def progress(self) -> bool | None:
        """`Store.progress` of its store."""
    @property
    def size(self) -> tuple[int, int] | None:
        """The approximate numbers of rows and bytes, without reading any; None on servers."""
    @property
    def keep(self) -> Keep: ...
    @property
    def retention(self) -> str | None: ...
    def alter(self, retention: str | None) -> None:
        """Chooses another retention, or none; it counts at once."""
    def count(self, hidden_by: str | None) -> int:
        """Counts the visible observations, or those that the retention `hidden_by` would hide.

        Reads the table.
        """
    def upsert(
        self,
        sources: Iterable[tuple[str, ArrowStream]],
        strict: bool,
        on_rejects: Callable[[list[Reject]], object],
        short: bool,
        always: bool,
        dates: tuple[str | None, str | None],
    ) -> tuple[int, int, int | None]:
        """Adds the rows of all sources at once and for good; returns (rows read, rejected, newest
        date).

        Arguments are those of `load`; `short` is that of `match_population`. With `always` the rows
        are durable when this returns. After an error whole batches of 100,000 rows stay.
        """
    def upsert_one(self, id: str, partner_id: str, seen_at: int | str | None, always: bool) -> None:
        """Adds one observation; `seen_at` is milliseconds, ISO 8601 text, or None for now."""
    def erase(
        self,
        sources: Iterable[tuple[str, ArrowStream]],
        strict: bool,
        on_rejects: Callable[[list[Reject]], object],
        at: int | None,
    ) -> tuple[int, int, int, int, list[tuple[str, int, int, int]]]:
        """Hides the targets that the rows name, up to `at` (default: now), all or nothing. Returns
        rows read, rows rejected, how many rows of the table were erased by id and by partner_id,
        and the checkpoints that still show some rows of the targets.
        """
    def answers(
        self, by: By, key: str, since: int | None, until: int | None, limit: int | None
    ) -> pa.Table:
        """The matches of a key, newest first: the other side's column and seen_at."""
    def lookup_many(
        self,
        by: By,
        keys: Sequence[str],
        since: int | None,
        until: int | None,
        limit: int | None,
    ) -> list[list[tuple[str, int]]]:
        """The answers of each key, by position, newest first: the other identifier and the date."""
    def latest(
        self, by: By, key: str, since: int | None, until: int | None
    ) -> tuple[str, int] | None: ...
    def last_seen(self, id: str, partner_id: str) -> int | None: ...
    def history(self, id: str, partner_id: str) -> list[int]: ...
    def compact(self) -> None:
        """Rewrites the table for fast reads, without rows older than its retention."""
    def verify(self) -> list[tuple[str, str]]:
        """The problems, as (place, problem); empty when all is well."""
    def repair(self, accept_loss: bool) -> tuple[list[tuple[str, str]], int]:
        """Repairs the table; returns the problems, and how many rows were lost at most."""
    def stats(self, counting: Counting) -> tuple[TableStats, int | None, int | None]:
        """Figures about the table without its dates, then the oldest and newest instant."""

@final
class Match:
    @property
    def population(self) -> int: ...
    @property
    def matched(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def hops(self) -> list[tuple[int, int, int]]:
        """The counts of each table: rows in, matched, rows."""
    @property
    def plan(self) -> list[tuple[str, int, int, str]]:
        """How the population was read: for each way, its name, requests, keys, and why."""
    @property
    def timings(self) -> tuple[float, float, list[float]]:
        """Seconds that callers waited, the part of these in which one thread worked alone, and the
        thread time of each field of `Timings`.
        """
    @property
    def requests(self) -> tuple[int, int, int, int, int, int, bool] | None:
        """The fields of `Requests`; None in a directory."""
    def output(self) -> Rows:
        """The rows of the result."""
    def unmatched(self) -> Rows:
        """The population rows without a match: identifier, reason, carried columns."""

def match_population(
    table: Table,
    sources: Iterable[tuple[str, ArrowStream]],
    by: By,
    most: int | None,
    since: int | None,
    until: int | None,
    short: bool,
) -> Match:
    """Matches a population: every source is an object with `__arrow_c_stream__` and one column.

    Each row gets its `most` newest matches. Ctrl-C is noticed meanwhile, unless the work is known
    to be `short`: watching for it takes longer than a small match.
    """

def match_chain(
    table: Table,
    sources: Iterable[tuple[str, ArrowStream]],
    hops: Sequence[tuple[str | None, By, int | None, int | None, int | None]],
    keep_unmatched: bool,
    with_hops: bool,
) -> Match:
    """Matches a population with this table, the answers with the next table, and so on.

    Columns of the sources after the first are carried. A hop is the name of a table, None for this
    one, and the arguments of `match_population` from `by` to `until`.
    """

def scan(
    table: Table,
    range: str | None,
    since: int | None,
    until: int | None,
    columns: tuple[bool, bool, bool],
) -> Rows:
    """All visible observations with a date in the window, or those of a range, in any order.

    `columns` says for id, partner_id and seen_at whether the rows have the column.
    """

def scan_ranges(table: Table, count: int) -> list[str]:
    """Texts of `count` scan ranges that together are the table."""

def partition_of(table: Table, ids: ArrowArray) -> ArrowArray:
    """The number of the scan range of each identifier, and null for null."""

@final
class Rows:
    @property
    def count(self) -> int | None:
        """The number of rows, if it is known before they are read."""
    def to_arrow(self) -> pa.Table:
        """All rows: a pyarrow.Table of what `__arrow_c_stream__` gives."""
    def head(self, most: int) -> pa.Table:
        """The first `most` rows, or all if there are fewer."""
    def write(self, path: str, format: str, compression: Compression) -> int:
        """Writes the rows to a file or a FIFO that exists; returns their number.

        format is "parquet", "csv", "jsonl", "arrow" or "arrow stream"; compression is "none",
        "snappy", "lz4", "zstd" or "gzip"; for text only "none", "zstd" or "gzip".
        """
    def add_writing(self, seconds: float) -> None:
        """Adds writing time that was spent outside of the core, such as to sync a file."""
    def write_folder(
        self,
        path: str,
        format: str,
        compression: Compression,
        ending: str,
        by: str | None,
        max_rows: int | None,
    ) -> int:
        """Writes the rows to files of an empty folder, at most `max_rows` each.

        With `by`, each value of that column has a folder "by=value", and its files lack the column.
        """
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, streamed."""
