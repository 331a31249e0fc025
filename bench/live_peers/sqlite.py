"""SQLite, from Python's own module.

Schema: one table WITHOUT ROWID, clustered by (id, partner_id), and an index by partner_id, which
holds the id too. The date is in the table alone, so that a pair seen again changes one page and not
two; a question by partner_id reads the table for it. Newest date: INSERT ... ON CONFLICT DO UPDATE
SET seen_at = max(...).

Settings: WAL with synchronous=FULL, which syncs the log at each commit; checkpoints after 256 MB of
log, not after 4 MB, because each batch touches thousands of pages at random; a cache of 4 GB for
writing. All threads share one connection for that, and those that wait at the same moment share a
transaction (`grouping.py`): SQLite has one writer, and its own way to wait for it is to sleep and
try again. Each reader has a connection of its own, which maps the file.

Fill: without journal into a table of its own, from there sorted by GROUP BY into the empty one,
then the index.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

from live_peers.base import CACHE_BYTES, Batch, Client, Found, LivePeer
from live_peers.grouping import GroupCommit

_UPSERT = """
    INSERT INTO pairs VALUES (?, ?, ?)
    ON CONFLICT (id, partner_id) DO UPDATE SET seen_at = max(seen_at, excluded.seen_at)
"""
_CHECKPOINT_PAGES = (256 << 20) // 4096


class Sqlite(LivePeer):
    """One database file and its log."""

    log_files = "*-wal"

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace)
        self._path = workspace / "pairs.sqlite"

    def version(self) -> str:
        return sqlite3.sqlite_version

    def settings(self) -> Mapping[str, str]:
        return {
            "layout": "WITHOUT ROWID (id, partner_id) -> seen_at, index by partner_id",
            "durable": "WAL, synchronous=FULL",
            "newest": "ON CONFLICT DO UPDATE SET seen_at = max()",
            "writers": "threads share one connection; waiting ones share a transaction",
            "cache": "cache_size 4 GB",
            "checkpoint": f"after {_CHECKPOINT_PAGES} pages",
        }

    def start(self) -> None:
        os.environ["SQLITE_TMPDIR"] = str(self.workspace)  # for its sorting
        self._connection = self._opened()
        self._connection.executescript("""
            CREATE TABLE IF NOT EXISTS pairs (
                id TEXT NOT NULL, partner_id TEXT NOT NULL, seen_at INTEGER NOT NULL,
                PRIMARY KEY (id, partner_id)
            ) WITHOUT ROWID;
            CREATE INDEX IF NOT EXISTS by_partner_id ON pairs (partner_id);
        """)
        self._group = GroupCommit(self._write)

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.executescript(f"""
            PRAGMA journal_mode = WAL;
            PRAGMA synchronous = FULL;
            PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES};
            PRAGMA cache_size = -{CACHE_BYTES >> 10};
        """)
        return connection

    def fill(self, chunks: Iterable[Batch]) -> None:
        staging = self.workspace / "staging.sqlite"
        database = self._connection
        database.executescript(f"""
            PRAGMA journal_mode = OFF;
            PRAGMA synchronous = OFF;
            ATTACH '{staging}' AS staging;
            PRAGMA staging.journal_mode = OFF;
            PRAGMA staging.synchronous = OFF;
            CREATE TABLE staging.rows (id, partner_id, seen_at);
            DROP INDEX by_partner_id;
            BEGIN;
        """)
        for chunk in chunks:
            rows = zip(chunk.ids, chunk.partner_ids, chunk.seen_at, strict=True)
            database.executemany("INSERT INTO staging.rows VALUES (?, ?, ?)", rows)
        database.execute("COMMIT")
        database.executescript("""
            INSERT INTO pairs SELECT id, partner_id, max(seen_at)
            FROM staging.rows GROUP BY id, partner_id;
            CREATE INDEX by_partner_id ON pairs (partner_id);
            DETACH staging;
        """)
        database.close()
        staging.unlink()
        _sync(self._path)
        self._connection = self._opened()

    def connect(self) -> Client:
        return _Connection(self._path, self._group)

    def _write(self, batches: list[Batch]) -> None:
        database = self._connection
        database.execute("BEGIN IMMEDIATE")
        try:
            for batch in batches:
                database.executemany(
                    _UPSERT, zip(batch.ids, batch.partner_ids, batch.seen_at, strict=True)
                )
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def stop(self) -> None:
        self._connection.close()


class _Connection(Client):
    def __init__(self, path: Path, group: GroupCommit) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute(f"PRAGMA mmap_size = {CACHE_BYTES}")
        self._group = group

    def upsert(self, batch: Batch) -> None:
        self._group.upsert(batch)

    def partner_ids(self, key: str) -> Found:
        return self._asked(
            "SELECT partner_id, seen_at FROM pairs WHERE id = ? ORDER BY seen_at DESC", key
        )

    def ids(self, key: str) -> Found:
        return self._asked(
            "SELECT id, seen_at FROM pairs WHERE partner_id = ? ORDER BY seen_at DESC", key
        )

    def _asked(self, question: str, key: str) -> Found:
        return self._database.execute(question, (key,)).fetchall()

    def close(self) -> None:
        self._database.close()


def _sync(path: Path) -> None:
    """Puts a file on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


PEER = Sqlite
