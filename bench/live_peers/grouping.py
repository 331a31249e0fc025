"""One sync for all who wait: how a program uses a store that has one writer and syncs at each
commit.

RocksDB, PostgreSQL and Redis do this by themselves. For SQLite and LMDB the program has to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from live_peers.base import Batch


class GroupCommit:
    """Writes the batches of all threads that wait at a moment in one transaction, on the thread
    that came first.
    """

    def __init__(self, write: Callable[[list[Batch]], None]) -> None:
        self._write = write
        self._lock = Lock()
        self._waiting: deque[_Waiting] = deque()

    def upsert(self, batch: Batch) -> None:
        """Returns when the batch is on disk."""
        mine = _Waiting(batch)
        with self._lock:
            self._waiting.append(mine)
            first = len(self._waiting) == 1
        if not first:
            mine.turn.acquire()
        if not mine.done:
            self._write_group()
        if mine.error:
            raise mine.error

    def _write_group(self) -> None:
        """Writes what waits now; wakes those who waited for it, and the next who has to write."""
        with self._lock:
            group = list(self._waiting)
        error: Exception | None = None
        try:
            self._write([waiting.batch for waiting in group])
        except Exception as raised:  # the others of the group must hear of it too
            error = raised
        for waiting in group:
            waiting.error, waiting.done = error, True
        with self._lock:
            for _ in group:
                self._waiting.popleft()
            following = list(self._waiting)[:1]
        for waiting in group[1:] + following:
            waiting.turn.release()


class _Waiting:
    """A batch that somebody waits for."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.turn = Lock()
        self.turn.acquire()
        self.done = False
        self.error: Exception | None = None
