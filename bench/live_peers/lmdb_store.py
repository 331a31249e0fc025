"""LMDB, through its Python package.

Layout: two named databases with composite keys, `id NUL partner_id` and `partner_id NUL id`; the
value is the date, 8 bytes. Sorted duplicates would save the repeated first half of a key only where
an id has many partner ids, and make the newest date a deletion and an insertion. Newest date: read
before write, which is safe because LMDB has one writer.

Settings: the durable ones that it starts with (sync, metasync, no write map): a commit writes all
changed pages and syncs the file. Threads that wait at the same moment share a transaction
(`grouping.py`). It has no cache but the system's page cache.

Fill: both directions sorted by sort(1), then appended, which packs pages full; one sync at the end.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import lmdb

from live_peers.base import Batch, Client, Found, LivePeer
from live_peers.grouping import GroupCommit

_MAP_BYTES = 1 << 40
_ROWS_PER_TRANSACTION = 1_000_000
_SORT_MEMORY = "1G"
_DATE_DIGITS = 13


class Lmdb(LivePeer):
    """One environment with two databases."""

    def version(self) -> str:
        return ".".join(map(str, lmdb.version()))

    def settings(self) -> Mapping[str, str]:
        return {
            "layout": "id \\0 partner_id -> seen_at, and the other way round in a second database",
            "durable": "sync at each commit",
            "newest": "read before write, by the one writer",
            "writers": "waiting threads share a transaction",
            "cache": "the page cache",
        }

    def start(self) -> None:
        self._open(sync=True)
        self._group = GroupCommit(self._write)

    def _open(self, sync: bool) -> None:
        self._environment = lmdb.open(
            str(self.workspace), map_size=_MAP_BYTES, max_dbs=2, sync=sync, metasync=sync
        )
        self._by_id = self._environment.open_db(b"by id")
        self._by_partner_id = self._environment.open_db(b"by partner id")

    def fill(self, chunks: Iterable[Batch]) -> None:
        self._environment.close()
        self._open(sync=False)
        ids, partner_ids = _Sort(self.workspace), _Sort(self.workspace)
        for chunk in chunks:
            ids.add(chunk.ids, chunk.partner_ids, chunk.seen_at)
            partner_ids.add(chunk.partner_ids, chunk.ids, chunk.seen_at)
        for sort, database in ((ids, self._by_id), (partner_ids, self._by_partner_id)):
            rows = sort.newest()
            while self._append(database, rows):
                pass
        self._environment.sync(True)
        self._environment.close()
        self._open(sync=True)

    def _append(self, database: lmdb._Database, rows: Iterator[tuple[bytes, bytes]]) -> int:
        """Appends the next rows in a transaction; returns how many there were."""
        some = list(islice(rows, _ROWS_PER_TRANSACTION))
        with (
            self._environment.begin(db=database, write=True) as transaction,
            transaction.cursor() as cursor,
        ):
            cursor.putmulti(some, append=True)
        return len(some)

    def connect(self) -> Client:
        return _Connection(self)

    def upsert(self, batch: Batch) -> None:
        """Returns when the batch is on disk."""
        self._group.upsert(batch)

    def _write(self, batches: list[Batch]) -> None:
        by_id, by_partner_id = self._by_id, self._by_partner_id
        with self._environment.begin(write=True) as transaction:
            get, put = transaction.get, transaction.put
            for batch in batches:
                for one, other, date in zip(
                    batch.ids, batch.partner_ids, batch.seen_at, strict=True
                ):
                    key, value = f"{one}\0{other}".encode(), date.to_bytes(8, "big")
                    if (before := get(key, db=by_id)) is None or before < value:
                        put(key, value, db=by_id)
                        put(f"{other}\0{one}".encode(), value, db=by_partner_id)

    def starting_with(self, by_id: bool, key: str) -> Found:
        """What goes with a key in one direction, newest first."""
        prefix = key.encode() + b"\0"
        length, found = len(prefix), []
        database = self._by_id if by_id else self._by_partner_id
        with self._environment.begin(db=database) as transaction, transaction.cursor() as cursor:
            if cursor.set_range(prefix):
                for text, date in cursor:
                    if not text.startswith(prefix):
                        break
                    found.append((text[length:].decode(), int.from_bytes(date, "big")))
        found.sort(key=lambda pair: pair[1], reverse=True)
        return found

    def stop(self) -> None:
        self._environment.close()


class _Connection(Client):
    def __init__(self, store: Lmdb) -> None:
        self._store = store

    def upsert(self, batch: Batch) -> None:
        self._store.upsert(batch)

    def partner_ids(self, key: str) -> Found:
        return self._store.starting_with(True, key)

    def ids(self, key: str) -> Found:
        return self._store.starting_with(False, key)


class _Sort:
    """Lines of key, NUL, date on their way through sort(1), which keeps to its memory and spills to
    the workspace.
    """

    def __init__(self, workspace: Path) -> None:
        self._process = subprocess.Popen(
            ["sort", "-S", _SORT_MEMORY, "-T", str(workspace), "--parallel=1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"LC_ALL": "C"},
        )

    def add(self, first: list[str], second: list[str], seen_at: list[int]) -> None:
        rows = zip(first, second, seen_at, strict=True)
        assert self._process.stdin
        self._process.stdin.write(
            "".join(
                [f"{one}\0{other}\0{date:0{_DATE_DIGITS}}\n" for one, other, date in rows]
            ).encode()
        )

    def newest(self) -> Iterator[tuple[bytes, bytes]]:
        """The sorted keys and values, each key once with its newest date."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        last_key, last_date = b"", b""
        for line in self._process.stdout:
            key, date = line[: -_DATE_DIGITS - 2], line[-_DATE_DIGITS - 1 : -1]
            if last_key and key != last_key:
                yield last_key, int(last_date).to_bytes(8, "big")
            last_key, last_date = key, date
        if self._process.wait():
            raise RuntimeError(f"sort ended with status {self._process.returncode}")
        if last_key:
            yield last_key, int(last_date).to_bytes(8, "big")


PEER = Lmdb
