"""Stores: sets of match tables."""

import os
import threading
from datetime import timedelta
from types import TracebackType
from typing import Self, TypeAlias

from . import _core
from ._address import Address
from ._checkpoints import checkpoint_of
from ._errors import InvalidArgument, NotAStore, TableNotFound
from ._logs import follow
from ._progress import Progress
from ._results import BackgroundError, Checkpoint, StoreStatus
from ._runs import Recorder, WriterNote
from ._session import Session
from ._snapshot import Snapshot
from ._suggest import suggesting
from ._table import Table
from ._text import escaped
from ._times import to_datetime, to_milliseconds
from ._types import Durability, Keep


def open(
    path: str | os.PathLike[str],
    *,
    durability: Durability = "always",
    interval_ms: int = 100,
    memtable: int | str = "256M",
    wait: timedelta | str | None = None,
    read_only: bool = False,
    create: bool = True,
    progress: bool | None = None,
    record: bool = False,
) -> "Store":
    """Opens the store in a directory. The first write makes a missing store; with `create=False`
    the store must exist.

    Or on ScyllaDB or Cassandra: "cql://10.0.0.1,10.0.0.2/keyspace", with options after "?" (see
    docs/reference/cql-addresses.md). There `durability` and `memtable` are settings of the servers.

    An upsert is acknowledged when it is on disk (`durability="always"`), or at once, and on disk
    within `interval_ms` milliseconds (`"interval"`). A failure of power or system may then lose the
    upserts of that time. It loses only the last ones: if an upsert stays, all earlier ones stay.
    Upserts that are not in segments yet take at most about `memtable` of memory (bytes, or text
    such as "1G"), or the memory of one batch of 100,000 rows. They wait if flushes are slower.

    While another process writes the store, a write raises Busy after 2 s, or after `wait` if that
    is longer, such as "30s" or a timedelta. Until then it tries again, at least every 100 ms.
    Servers have no such lock.

    With `read_only` the directory must hold a store. Every change raises Unsupported, and so does
    maintenance.

    Long calls show their progress in notebooks. With `progress=True` they also show it on a
    terminal, as bars on stderr; with False they never do.

    With `record`, each load, commit, match, erasure and count appends a line to `<store>.runs/`
    (for servers, in `$XDG_STATE_HOME/idmatch/runs/`), where it stays 90 days. While the process
    writes a directory, it also replaces `writer.json` there every 2 s. `idmatch exporter` and
    `idmatch tables` read both. The command line always records these, and upserts of files and
    streams.

    A store and its tables can be pickled. The pickle has the address, secrets included, and these
    arguments. A process that unpickles it opens the store itself, once, until the process ends.

    A process that opens a directory twice shares it: both stores see the writes of either, and the
    first `memtable` stays. Each store has its own durability, and is closed separately.

    Raises NotAStore for a directory that holds something else, and with `read_only` or without
    `create` for one that holds no store. Raises UnsupportedFormat for a store of a newer version,
    InvalidArgument for an address that this version cannot open, Unavailable if no server answers.
    """
    follow()
    milliseconds = 0 if wait is None else to_milliseconds(wait)
    name = os.fspath(path)
    # Another process may be in another directory.
    place = name if is_address(name) else os.path.abspath(name)
    how = (place, durability, interval_ms, memtable, wait, read_only, create, progress, record)
    if is_address(path):
        if not create:
            raise InvalidArgument("create is for stores in a directory; servers make a keyspace")
        if (durability, interval_ms, memtable) != ("always", 100, "256M"):
            raise InvalidArgument(
                "durability, interval_ms and memtable are for stores in a directory; "
                "on servers these are settings of theirs"
            )
        # A URL's scheme may have any case.
        rest = name.partition("://")[2]
        return Store(_core.open_servers(f"cql://{rest}", read_only, progress), how)
    if durability not in ("always", "interval"):
        raise InvalidArgument(f'durability is {durability!r}; use "always" or "interval"')
    if interval_ms < 1:
        raise InvalidArgument(f"interval_ms is {interval_ms}; use 1 or more")
    size = _core.parse_size(memtable) if isinstance(memtable, str) else memtable
    if not 1_000_000 <= size < 1 << 40:
        raise InvalidArgument(
            f"memtable is {memtable!r}; use at least 1M of memory, and less than 1T"
        )
    interval = interval_ms if durability == "interval" else None
    directory = directory_of(path)
    if (read_only or not create) and not os.path.isfile(os.path.join(directory, "MANIFEST")):
        instead = "name another, or make one with idmatch.open(PATH)"
        text = f"there is no store at {escaped(directory)}; {instead}"
        raise NotAStore(text)
    core = _core.open_store(directory, interval, size, milliseconds, read_only, progress)
    return Store(core, how)


# The arguments of `open`, in its order.
_How: TypeAlias = tuple[
    str, Durability, int, int | str, timedelta | str | None, bool, bool, bool | None, bool
]
# Stores of pickles that this process has opened. The key has the pid: a fork opens its own.
_reopened_stores: "dict[tuple[int, _How], Store]" = {}
_reopening = threading.Lock()


def _forget_lock() -> None:
    """A child does not wait for a thread of its parent."""
    global _reopening
    _reopening = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def reopened(*how: *_How) -> "Store":
    """The store of a pickle, opened once in this process; raises what `open` raises."""
    path, durability, interval_ms, memtable, wait, read_only, create, progress, record = how
    key = (os.getpid(), how)
    with _reopening:
        found = _reopened_stores.get(key)
        if found is None or found._core.is_closed:
            found = open(
                path,
                durability=durability,
                interval_ms=interval_ms,
                memtable=memtable,
                wait=wait,
                read_only=read_only,
                create=create,
                progress=progress,
                record=record,
            )
            _reopened_stores[key] = found
        return found


class Store:
    """A set of match tables. A context manager, which closes it; `open` makes one."""

    __slots__ = ("__weakref__", "_core", "_how", "_note", "_recorder")

    def __init__(self, core: _core.Store, how: _How) -> None:
        self._core = core
        self._how = how
        self._recorder: Recorder | None = None
        self._note: WriterNote | None = None
        if how[-1]:
            self._recorder = Recorder(core.path, is_address(core.path))
            if not is_address(core.path) and not how[5]:
                self._note = WriterNote(self, self._recorder.folder)

    @property
    def path(self) -> str:
        """Where the store is."""
        return self._core.path

    def create_table(
        self,
        name: str,
        *,
        keep: Keep = "last",
        retention: str | None = None,
        expected_rows: int | None = None,
    ) -> Table:
        """Makes a table, or returns the existing table with the same options.

        `keep="last"` keeps the newest date of each pair, `keep="all"` every observation.
        Observations older than `retention`, such as "13mo" and at least a day, are never shown.

        Servers divide a new table by the rows to expect, for its life: `expected_rows`, or 10
        million. The real number may be a hundredth of this number to 25 times of it. A directory
        ignores it.

        The table obeys the erasures that former tables of its name have left.

        Raises TableExists if a table of that name has other options, InvalidArgument for a
        retention of less than a day or no expected row, Busy while another process writes the
        store.
        """
        if expected_rows is not None and expected_rows < 1:
            raise InvalidArgument(f"expected_rows is {expected_rows}; expect at least one row")
        return Table(
            self._core.create_table(name, keep, retention, expected_rows), self, self._recorder
        )

    def rename_table(self, old: str, new: str) -> None:
        """Gives a table another name. On servers it takes two metadata TTLs (2 s).

        Calls begun earlier follow the table, by its id. A `Table` stands for a name: a `Table` of
        `old` raises TableNotFound from now on. Erasures outlive tables: the table obeys its own and
        those at `new`. A copy of its own stays at `old`, for the next table of that name.

        Raises TableNotFound; TableExists if there is a table `new`; Busy while another process
        writes the store; UnknownOutcome if servers do not answer.
        """
        try:
            self._core.rename_table(old, new)
        except TableNotFound as error:
            raise suggesting(error, [old], self.tables) from None

    def swap_tables(self, a: str, b: str) -> None:
        """Exchanges the names of two tables at once: no call finds one of them missing.

        Calls begun earlier follow the table, by its id: their rows are then in the table of the
        other name. A `Table` stands for a name, so it is the other table from now on. Both tables
        obey the erasures of both.

        Raises TableNotFound; Busy while another process writes the store; UnknownOutcome if servers
        do not answer. On servers it takes two metadata TTLs (2 s).
        """
        try:
            self._core.swap_tables(a, b)
        except TableNotFound as error:
            raise suggesting(error, [a, b], self.tables) from None

    def drop_table(self, name: str) -> None:
        """Removes a table with all of its rows, for good.

        Calls begun earlier follow the table, by its id: open snapshots still show it, and writes
        that go on raise TableNotFound. Erasures outlive tables: the erasures of this table stay at
        its name, and the next table of that name obeys them.

        On servers it takes one metadata TTL.

        Raises TableNotFound; Busy while another process writes the store; UnknownOutcome where
        servers do not answer.
        """
        try:
            self._core.drop_table(name)
        except TableNotFound as error:
            raise suggesting(error, [name], self.tables) from None

    def table(self, name: str) -> Table:
        """An existing table. Otherwise raises TableNotFound, which suggests a similar name."""
        try:
            return Table(self._core.table(name), self, self._recorder)
        except TableNotFound as error:
            raise suggesting(error, [name], self.tables) from None

    def tables(self) -> list[str]:
        """The names of all tables, ascending."""
        return self._core.tables()

    def snapshot(self) -> Snapshot:
        """All tables as they are now, to be read as long as needed; use `with`."""
        return Snapshot(self._core.snapshot(), self._recorder)

    def status(self) -> StoreStatus:
        """What the store holds besides its tables, and the background work of this process that
        fails. Takes microseconds.
        """
        pinned, oldest, is_checkpoint, is_writer, failing = self._core.status()
        error = None
        if failing is not None:
            work, text, since, last, failures = failing
            error = BackgroundError(work, text, to_datetime(since), to_datetime(last), failures)
        return StoreStatus(pinned, oldest, is_checkpoint, is_writer, error)

    def metrics(self) -> str:
        """The metrics of this process about the store, as OpenMetrics text for Prometheus.

        There are its calls by kind. In a directory there are memtable, journal, flushes,
        compactions, write stalls and bytes that snapshots hold; on servers requests by node,
        retries and connections. The reference of metrics explains each of them. None is of a table
        or an identifier.

        Cost: a look at each table of a directory; no rows are read.
        """
        return self._core.metrics()

    def resume(self, session_id: str) -> Session:
        """A shared session that another process has begun, by its `id`; see `Table.begin`.

        Dropping the object does not abort the session. Do not use it with `with`, which commits: a
        worker adds parts, and sends the receipts to the process that commits. On servers, rows are
        visible as they are added, and only the process that began the session records the outcome
        of its key.

        Raises Expired if there is no such session any more; InvalidArgument for any other text.
        """
        return Session(*self._core.resume(session_id), self._recorder, is_shared=True)

    def refresh(self) -> None:
        """Lets this store and its tables see the changes that other processes have published."""
        self._core.refresh()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copies the whole store at one point to `path`, which must not exist yet."""
        with progress_in(self.path, self._core.progress).shown():
            self._core.backup(directory_of(path))

    def checkpoint(
        self, path: str | os.PathLike[str] | None = None, *, keep: timedelta | str = "24h"
    ) -> Checkpoint:
        """Makes a checkpoint: the store as it is now, as a store that never changes, for readers in
        other processes. Like `refresh`, it first lets this process see the writes of others.

        Readers open its `path`. Writes to it raise Unsupported. Its clock stands still, so that a
        task that runs twice answers alike. It still shows rows that are erased later, so keep it
        only for a job. `remove_checkpoint` removes it, or else the next writer after `keep`, a
        minute to 7 days. Without a path it is in the folder of the store. An existing one of the
        same version is returned again if at least half of `keep` is left to it. With a path, the
        caller removes it.

        Cost: a link for each file of the store, and a copy of the journal. The disk space of files
        that the store replaces meanwhile is kept.

        Raises IoError if the file system has no hard links, or `path` is on another one;
        InvalidArgument for a `keep` outside the bounds; Unsupported on servers; Busy if another
        process erases faster than files are linked.
        """
        place = None if path is None else directory_of(path)
        longest = timedelta(days=7)
        return checkpoint_of(self._core.checkpoint(place, to_milliseconds(keep, most=longest)))

    def checkpoints(self) -> list[Checkpoint]:
        """The checkpoints in the folder of the store, oldest first."""
        return [checkpoint_of(told) for told in self._core.checkpoints()]

    def remove_checkpoint(self, checkpoint: Checkpoint | str | os.PathLike[str]) -> None:
        """Removes a checkpoint of this store, wherever it is; it may be gone already.

        Raises InvalidArgument for a path that is no checkpoint of this store.
        """
        path = checkpoint.path if isinstance(checkpoint, Checkpoint) else checkpoint
        self._core.remove_checkpoint(directory_of(path))

    def close(self) -> None:
        """Closes the store, and gives up the right to write it. Any later use of it, and any later
        read or change of its tables, raises InvalidArgument. Calls of other threads at that moment
        end as usual, or are refused.
        """
        if self._note is not None:
            self._note.close()
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return reopened, self._how

    def __repr__(self) -> str:
        return f"<idmatch.Store {self.path!r}>"


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether it names servers, not a directory."""
    return os.fspath(path).lower().startswith("cql://")


def progress_in(path: str, wanted: bool | None) -> Progress:
    """The progress of work on a whole store."""
    return Progress(os.path.basename(os.path.normpath(path)), wanted)


def directory_of(path: str | os.PathLike[str]) -> str:
    """The directory that a path names. Raises InvalidArgument if it names none."""
    text = os.fspath(path)
    if not text:
        raise InvalidArgument("the path of the store is empty; name a directory")
    if is_address(text):
        raise InvalidArgument("this is for stores in a directory; servers have their own tools")
    if Address(text).is_url:
        raise InvalidArgument(
            f"{Address(text)} is no store that this version opens; name a directory, or "
            "servers as cql://HOST,HOST/KEYSPACE"
        )
    return text
