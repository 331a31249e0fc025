"""Figures of an exporter, for Prometheus, about a store that it does not write.

At each request it reads the store's files, beside any writer, the records of runs, and the note of
the writer. Each metric has one source: metrics of a table come from its files, or, for a store on
servers, from the runs of this machine. The label `table` has the 1,000 largest tables; the others
are one figure. Must not know who asks.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, get_args

from idmatch._errors import Error, TableNotFound
from idmatch._lazy import LazyModule
from idmatch._logs import log
from idmatch._results import TableStats
from idmatch._runs import Kind, Record, at, read_note, runs_folder
from idmatch._store import Store, is_address
from idmatch._store import open as open_store

from ._process import parsed
from ._recent import RecentRuns

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client import core as prometheus
else:
    prometheus = LazyModule("prometheus_client.core")

EXPORTER = logging.getLogger("idmatch.exporter")
MOST_TABLES = 1_000
OTHERS = "(others)"
"""No name of a table has brackets."""
NEWEST = "newest_observation_seconds"
_OF_RUNS = ("kind", "table", "outcome")


class _Figure(NamedTuple):
    """A figure of a table."""

    name: str
    about: str
    combine: Callable[[list[float]], float]
    """Combines the metrics of several tables into one."""
    of: Callable[[TableStats], float | None]


_TABLE_FIGURES = (
    _Figure("rows", "Observations stored, per direction", sum, lambda s: s.rows),
    _Figure("bytes", "Bytes of segments, both directions", sum, lambda s: s.bytes),
    _Figure("segments", "Segments, both directions", sum, lambda s: s.segments),
    _Figure("journal_rows", "Rows that are in the journal only", sum, lambda s: s.memtable_rows),
    _Figure(
        "pending_compaction_bytes",
        "Bytes of segments that compactions will rewrite",
        sum,
        lambda s: s.pending_compaction_bytes,
    ),
    _Figure("erasures", "Erasures that are remembered", sum, lambda s: s.erasures),
    _Figure("ids", "Different ids, at most", sum, lambda s: s.ids),
    _Figure(
        "largest_key_rows",
        "Rows of the largest key of a segment: skew",
        max,
        lambda s: s.largest_key_rows,
    ),
    _Figure(
        "oldest_observation_seconds", "The oldest date, since 1970", min, lambda s: _at(s.oldest)
    ),
    _Figure(NEWEST, "The newest date, since 1970: freshness", max, lambda s: _at(s.newest)),
)


class StoreFigures:
    """A collector of metrics from the files, the runs and the writer of a store."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_remote = is_address(path)
        self._folder = runs_folder(path, self._is_remote)
        self._runs = RecentRuns(self._folder)
        self._store: Store | None = None
        self._place: int | None = None
        # The tables that a directory had when it was read last.
        self._tables: Set[str] = set()
        self._lock = Lock()

    def collect(self) -> "Iterable[Metric]":
        """The metrics as they are now. One request is answered at a time."""
        with self._lock:
            return [*self._of_files(), *self._of_runs(), *self._of_writer()]

    def _of_files(self) -> "Iterator[Metric]":
        if self._is_remote:
            return
        about = "Whether the store could be read"
        try:
            store = self._opened()
            stats, checkpoints = _stats(store), store.checkpoints()
        except Error as error:
            log(EXPORTER, logging.WARNING, "the store cannot be read", {"error": error.code})
            yield _gauge("store_readable", about, 0)
            # The store may have been restored: the next request opens it anew.
            self._store = None
            return
        self._tables = stats.keys()
        yield _gauge("store_readable", about, 1)
        yield _gauge("store_tables", "Tables", len(stats))
        names = _labels({name: one.rows for name, one in stats.items()})
        for figure in _TABLE_FIGURES:
            known: defaultdict[str, list[float]] = defaultdict(list)
            for table, of_table in stats.items():
                if (value := figure.of(of_table)) is not None:
                    known[names[table]].append(value)
            combined = {label: figure.combine(values) for label, values in known.items()}
            yield _by_table(f"table_{figure.name}", figure.about, combined)
        yield _gauge(
            "store_checkpoints", "Checkpoints in the folder of the store", len(checkpoints)
        )
        held = sum(one.held_bytes for one in checkpoints)
        yield _gauge("store_checkpoint_bytes", "Bytes of files that only these have", held)
        yield from self._of_folder()

    def _opened(self) -> Store:
        # A restore puts another store there.
        place = _directory_of(self._path)
        if self._store is None or place != self._place:
            self._store = open_store(self._path, read_only=True, create=False)
            self._place = place
        else:
            self._store.refresh()
        return self._store

    def _of_folder(self) -> "Iterator[Metric]":
        journal = _bytes_below(os.path.join(self._path, "journal"))
        yield _gauge("store_journal_bytes", "Files of the journal", journal)
        sessions = _names(os.path.join(self._path, "scratch"))
        about = "Folders of write sessions and repairs that run, or were left"
        yield _gauge("store_scratch_folders", about, len(sessions))
        try:
            disk = os.statvfs(self._path)
        except OSError:
            return
        about = "Bytes of the store's file system that this user may still write"
        yield _gauge("store_disk_free_bytes", about, disk.f_bavail * disk.f_frsize)
        about = "Bytes of the store's file system"
        yield _gauge("store_disk_bytes", about, disk.f_blocks * disk.f_frsize)

    def _of_runs(self) -> "Iterator[Metric]":
        runs = self._runs
        runs.read(time.time())
        yield _counted("runs_last_day", "Runs of the last 24 h", runs.today)
        # Only existing tables of a directory: a mistyped or dropped name has no series.
        rows = runs.rows.items()
        labels = _labels({name: n for name, n in rows if self._is_remote or name in self._tables})
        ended: defaultdict[tuple[str, ...], float] = defaultdict(float)
        took: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for (kind, table, is_done), run in runs.last.items():
            if table in labels:
                key = kind, labels[table], "done" if is_done else "failed"
                ended[key] = max(at(run), ended[key])
                took[key] += run["seconds"]
        about = "When a run of the kind ended last, since 1970, by whether it was done"
        yield _labelled("run_last_end_seconds", about, _OF_RUNS, ended)
        yield _labelled("run_last_duration_seconds", "How long that run took", _OF_RUNS, took)
        failed: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for (kind, table), run in runs.latest.items():
            if table in labels:
                of_kind = kind, labels[table]
                failed[of_kind] = max(run["outcome"] != "done", failed[of_kind])
        about = "Whether the last run of the kind failed"
        yield _labelled("run_last_failed", about, ["kind", "table"], failed)
        yield from self._of_rows(labels)

    def _of_rows(self, labels: dict[str, str]) -> "Iterator[Metric]":
        population: defaultdict[str, float] = defaultdict(float)
        matched: defaultdict[str, float] = defaultdict(float)
        for (kind, table, is_done), run in self._runs.last.items():
            if kind == "match" and is_done and table in labels:
                population[labels[table]] += run.get("population", 0)
                matched[labels[table]] += run.get("matched", 0)
        yield _by_table("match_population_rows", "Population of the last match", population)
        yield _by_table("match_matched_rows", "Rows of it that matched", matched)
        taken: defaultdict[str, float] = defaultdict(float)
        rejected: defaultdict[str, float] = defaultdict(float)
        for run in self._runs.today:
            is_taken = run["kind"] in ("load", "upsert") and run["outcome"] == "done"
            if is_taken and run["table"] in labels:
                label, bad = labels[run["table"]], run.get("rejected", 0)
                taken[label] += run.get("rows", 0) - bad
                rejected[label] += bad
        about = "Rows that loads and streams of the last 24 h took"
        yield _by_table("taken_rows_last_day", about, taken)
        about = "Rows that loads and streams of the last 24 h rejected"
        yield _by_table("rejected_rows_last_day", about, rejected)
        if self._is_remote:
            yield from self._of_servers(labels)

    def _of_servers(self, labels: dict[str, str]) -> "Iterator[Metric]":
        """Figures of tables on servers from the runs of this machine, under the names of a
        directory's metrics.
        """
        newest: dict[str, float] = {}
        for table, seen in self._runs.newest.items():
            if table in labels:
                newest[labels[table]] = max(seen, newest.get(labels[table], seen))
        about = "The newest date, since 1970, that a run of this machine took: freshness"
        yield _by_table(f"table_{NEWEST}", about, newest)
        rows: defaultdict[str, float] = defaultdict(float)
        largest: defaultdict[str, float] = defaultdict(float)
        for (kind, table, is_done), run in self._runs.last.items():
            if kind == "count" and is_done and table in labels:
                label = labels[table]
                rows[label] += run.get("rows", 0)
                largest[label] = max(run.get("largest_key_rows", 0), largest[label])
        yield _by_table("table_rows", "Observations stored, by the last count", rows)
        about = "Rows of the largest key, by the last count: skew"
        yield _by_table("table_largest_key_rows", about, largest)

    def _of_writer(self) -> "Iterator[Metric]":
        note = None if self._is_remote else read_note(self._folder)
        if not self._is_remote:
            about = "Whether a process that records writes the store"
            yield _gauge("store_has_writer", about, note is not None)
        # On a full disk the note may have no room for metrics.
        if note is not None and note["metrics"]:
            yield from parsed(note["metrics"])


def _stats(store: Store) -> dict[str, TableStats]:
    found = {}
    for name in store.tables():
        # It may be dropped meanwhile.
        with suppress(TableNotFound):
            found[name] = store.table(name).stats()
    return found


def _labels(rows: Mapping[str, float]) -> dict[str, str]:
    """The label of each table: its name, or one label for all smaller tables."""
    largest = sorted(rows, key=lambda name: (-rows[name], name))
    return {name: name if n < MOST_TABLES else OTHERS for n, name in enumerate(largest)}


def _gauge(name: str, about: str, value: float) -> "Metric":
    return prometheus.GaugeMetricFamily(f"idmatch_{name}", about, value=value)


def _by_table(name: str, about: str, values: Mapping[str, float]) -> "Metric":
    return _labelled(name, about, ["table"], {(table,): value for table, value in values.items()})


def _labelled(
    name: str, about: str, labels: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> "Metric":
    family = prometheus.GaugeMetricFamily(f"idmatch_{name}", about, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counted(name: str, about: str, runs: Iterable[Record]) -> "Metric":
    counts: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for kind in get_args(Kind):
        counts[kind, "done"] = counts[kind, "failed"] = 0
    for run in runs:
        counts[run["kind"], "done" if run["outcome"] == "done" else "failed"] += 1
    return _labelled(name, about, ["kind", "outcome"], counts)


def _at(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _directory_of(path: str) -> int | None:
    """The inode of a store's directory; None if there is no store."""
    try:
        os.stat(os.path.join(path, "MANIFEST"))
        return os.stat(path).st_ino
    except OSError:
        return None


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _bytes_below(folder: str) -> int:
    size = 0
    for name in _names(folder):
        # It may be removed meanwhile.
        try:
            size += os.stat(os.path.join(folder, name)).st_size
        except OSError:
            continue
    return size
