"""Sums of the records of runs. Each read takes only the lines that were added to the files.

Memory: the runs of the last 24 h, and a few figures for each table. Must not know Prometheus.
"""

import os
from collections import deque
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from idmatch._runs import KEPT_DAYS, RECORDS_NAME, Record, at, parsed

DAY_SECONDS = 86_400


class RecentRuns:
    """The runs that are recorded in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The offset to which each file was read: the end of a line.
        self._read: dict[str, int] = {}
        self.today: deque[Record] = deque()
        """The runs of the last 24 h."""
        self.last: dict[tuple[str, str, bool], Record] = {}
        """The last run by kind, table and whether it was done."""
        self.latest: dict[tuple[str, str], Record] = {}
        """The last run by kind and table."""
        self.rows: dict[str, int] = {}
        """The most rows of a run of each table."""
        self.newest: dict[str, float] = {}
        """The newest date of each table, in seconds since 1970."""
        # When the last run that told a newest date ended, by table.
        self._dated: dict[str, float] = {}

    def read(self, now: float) -> None:
        """Reads the records since the last read, and drops runs older than the time that files are
        kept. A line that is cut or no record is left out: a process may have been killed while it
        wrote the line.
        """
        oldest = now - KEPT_DAYS * DAY_SECONDS
        for name in self._names():
            # It may be removed meanwhile.
            with suppress(FileNotFoundError), open(self._folder / name, "rb") as file:
                file.seek(self._read.get(name, 0))
                whole, end, _ = file.read().rpartition(b"\n")
                self._read[name] = self._read.get(name, 0) + len(whole) + len(end)
            for line in whole.splitlines():
                record = parsed(line)
                if record is not None and at(record) >= oldest:
                    self._add(record)
        while self.today and at(self.today[0]) < now - DAY_SECONDS:
            self.today.popleft()
        self._forget(oldest)

    def _forget(self, oldest: float) -> None:
        """Drops the runs that ended before `oldest`, and the tables that have no other run."""
        self.last = {key: run for key, run in self.last.items() if at(run) >= oldest}
        self.latest = {key: run for key, run in self.latest.items() if at(run) >= oldest}
        tables = {table for _, table in self.latest}
        self.rows = {table: rows for table, rows in self.rows.items() if table in tables}
        self._dated = {table: end for table, end in self._dated.items() if end >= oldest}
        self.newest = {table: seen for table, seen in self.newest.items() if table in self._dated}

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if RECORDS_NAME.fullmatch(name))
        except OSError:
            return []

    def _add(self, record: Record) -> None:
        kind, table = record["kind"], record["table"]
        self.today.append(record)
        self.last[kind, table, record["outcome"] == "done"] = record
        self.latest[kind, table] = record
        most = max(record.get("rows", 0), record.get("population", 0))
        self.rows[table] = max(most, self.rows.get(table, 0))
        if "newest" in record:
            seen = datetime.fromisoformat(record["newest"]).timestamp()
            self.newest[table] = max(seen, self.newest.get(table, seen))
            self._dated[table] = at(record)
