"""Records of runs: one line of JSON for each load, upsert, match, erasure or count of a store.

They are in STORE.runs/, in a file for each day (UTC). Records of stores on servers are in the
user's state folder, for each keyspace. A line has figures and the name of the table; no identifier,
no path. Files are for their owner only; a new file removes files older than 90 days. A run that
cannot be recorded is logged, and does not fail.
"""

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, get_args

from idmatch import _core
from idmatch._beside import beside, make, of_user, remove_old
from idmatch._errors import Error
from idmatch._logs import log
from idmatch._outputs import PRIVATE
from idmatch._results import LoadReport, TableStats
from idmatch._times import to_millis

RUNS = logging.getLogger("idmatch.runs")
KEPT_DAYS = 90
RECORDS_NAME = re.compile(r"runs-\d{8}\.jsonl")
"""The name of a file of records; names sort by day."""

Kind: TypeAlias = Literal["load", "upsert", "match", "erase", "count"]
"""The kind of a run."""


_COUNTS = ("rows", "rejected", "population", "matched", "largest_key_rows")
"""Fields of a record that are numbers of rows."""


class Record(TypedDict, total=False):
    """A line. A figure that a kind of run does not have is left out."""

    time: str
    """When it ended, ISO 8601 in UTC."""
    kind: Kind
    table: str
    outcome: str
    """"done", the code of an error such as "busy", "interrupted", or "failed"."""
    seconds: float
    rows: int
    """Rows read; for an erasure, targets; for a count, the observations of the table."""
    rejected: int
    population: int
    matched: int
    largest_key_rows: int
    """For a count: the rows of the identifier that has most."""
    newest: str
    """The newest date of the rows that were accepted or counted, ISO 8601 in UTC."""


class Figures:
    """The figures that a run fills in."""

    def __init__(self) -> None:
        self.rows: int | None = None
        self.rejected: int | None = None
        self.population: int | None = None
        self.matched: int | None = None
        self.largest_key_rows: int | None = None
        self.newest: datetime | None = None

    def took(self, report: LoadReport) -> None:
        """Takes the figures of a load or an upsert."""
        if not report.repeated:
            self.rows, self.rejected, self.newest = report.rows, report.rejected, report.newest

    def counted(self, stats: TableStats) -> None:
        """Takes the figures of a count."""
        self.rows, self.newest = stats.rows, stats.newest
        self.largest_key_rows = stats.largest_key_rows


class Recorder:
    """Records the runs of one store."""

    def __init__(self, store: str, is_remote: bool) -> None:
        self.folder = runs_folder(store, is_remote)

    @contextmanager
    def run(self, kind: Kind, table: str) -> Iterator[Figures]:
        """Records the run in the block, also if the block raises; the exception goes on."""
        figures, started, outcome = Figures(), time.perf_counter(), "failed"
        try:
            yield figures
            outcome = "done"
        except KeyboardInterrupt:
            outcome = "interrupted"
            raise
        except Error as error:
            outcome = error.code
            raise
        finally:
            seconds = round(time.perf_counter() - started, 3)
            self._append(_record(kind, table, outcome, seconds, figures))

    def _append(self, record: Record) -> None:
        name = f"runs-{record['time'][:10].replace('-', '')}.jsonl"
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            make(self.folder)
            if not (self.folder / name).exists():
                remove_old(self.folder, RECORDS_NAME, KEPT_DAYS)
            file = os.open(self.folder / name, flags, PRIVATE)
            try:
                # One call: lines of several processes do not mix.
                os.write(file, line)
            finally:
                os.close(file)
        except OSError as error:
            fields = {"kind": record["kind"], "error": error.strerror}
            # Not a warning: a user who may only read the store would get it each time.
            log(RUNS, logging.INFO, "a run was not recorded", fields)


@contextmanager
def recorded(recorder: Recorder | None, kind: Kind, table: str) -> Iterator[Figures]:
    """Records the run in the block, if there is a recorder."""
    if recorder is None:
        yield Figures()
    else:
        with recorder.run(kind, table) as figures:
            yield figures


def runs_folder(store: str, is_remote: bool) -> Path:
    """Where the runs of a store are recorded."""
    if not is_remote:
        return beside(store, "runs")
    nodes, keyspace = _core.address_parts(store)
    digest = hashlib.sha256("\n".join(sorted(nodes)).encode()).hexdigest()[:12]
    return of_user("runs") / f"{keyspace}-{digest}"


def parsed(line: bytes) -> Record | None:
    """The record on a line; None for any other line, such as one of another program."""
    try:
        record = json.loads(line)
        at(record)
        if "newest" in record:
            datetime.fromisoformat(record["newest"]).timestamp()
        texts = record["table"], record["outcome"]
        numbers = record["seconds"], *(record.get(name, 0) for name in _COUNTS)
        is_known = record["kind"] in get_args(Kind)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    is_whole = all(isinstance(text, str) for text in texts) and all(
        isinstance(number, int | float) for number in numbers
    )
    return record if is_known and is_whole else None


def at(record: Record) -> float:
    """When a run ended, in seconds since 1970."""
    return datetime.fromisoformat(record["time"]).timestamp()


def _record(kind: Kind, table: str, outcome: str, seconds: float, figures: Figures) -> Record:
    now = _core.format_instant(time.time_ns() // 1_000_000)
    record: Record = {
        "time": now,
        "kind": kind,
        "table": table,
        "outcome": outcome,
        "seconds": seconds,
    }
    if figures.rows is not None:
        record["rows"] = figures.rows
    if figures.rejected is not None:
        record["rejected"] = figures.rejected
    if figures.population is not None:
        record["population"] = figures.population
    if figures.matched is not None:
        record["matched"] = figures.matched
    if figures.largest_key_rows is not None:
        record["largest_key_rows"] = figures.largest_key_rows
    if figures.newest is not None:
        record["newest"] = _core.format_instant(to_millis(figures.newest))
    return record
