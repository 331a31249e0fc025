"""Group commit: how a program uses a store that has one writer and syncs at each commit.

RocksDB, PostgreSQL and Redis do this by themselves. SQLite and LMDB need it in the program.
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
            mine.wake.acquire()
        if not mine.done:
            self._write_group()
        if mine.error:
            raise mine.error

    def _write_group(self) -> None:
        """Writes the waiting batches; wakes their threads and the next writer."""
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
            waiting.wake.release()


class _Waiting:
    """A batch that waits for its commit."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.wake = Lock()
        self.wake.acquire()
        self.done = False
        self.error: Exception | None = None
