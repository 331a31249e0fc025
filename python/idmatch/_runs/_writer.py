"""The note of a store's writer: STORE.runs/writer.json, for processes that monitor the store.

A thread of the writing process replaces it every 2 s. It has the process, the background work that
fails, and the figures. On a full disk it is overwritten in place. It is removed when the store is
closed; a note that is older than 10 s is of a process that was killed or stopped.
"""

import json
import os
import socket
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypedDict

from idmatch import _core
from idmatch._beside import make
from idmatch._errors import Error
from idmatch._outputs import PRIVATE
from idmatch._results import StoreStatus

_PERIOD_SECONDS = 2.0
_STALE_SECONDS = 10.0
# A note ends with this many spaces, so that a longer one can overwrite it.
_ROOM = 4096
_NAME = "writer.json"


class Failing(TypedDict):
    """The background work that fails."""

    work: str
    error: str
    since: str
    last: str
    failures: int


class WriterTold(TypedDict):
    """The process of the writer, and its background work that fails."""

    time: str
    pid: int
    host: str
    last_background_error: Failing | None


class Note(WriterTold):
    """The whole note: the writer, and its figures."""

    metrics: str
    """The text of `Store.metrics`."""


class _Store(Protocol):
    def metrics(self) -> str: ...
    def status(self) -> StoreStatus: ...


class WriterNote:
    """Writes the note of a store while this process is its writer."""

    def __init__(self, store: _Store, folder: Path) -> None:
        # Without a callback. It could run in a thread that holds one of the locks below, or at the
        # end of Python, when the thread that held a lock is gone.
        self._store = weakref.ref(store)
        self._path = folder / _NAME
        self._ended = threading.Event()
        self._placing = threading.Lock()
        self._is_written = False
        self._process = os.getpid()
        threading.Thread(target=self._run, name="idmatch-note", daemon=True).start()

    def close(self) -> None:
        """Removes the note."""
        # In a forked child, a thread of the parent may have held a lock, which stays locked.
        if os.getpid() == self._process:
            self._ended.set()
            self._remove()

    def _remove(self) -> None:
        with self._placing:
            # An error is ignored: no process needs the note.
            if self._is_written:
                with suppress(OSError):
                    self._path.unlink()

    def _run(self) -> None:
        while not self._ended.wait(_PERIOD_SECONDS):
            store = self._store()
            if store is None:
                self._remove()
                return
            # The store is closed just now, or the disk is full before the first note: try later.
            with suppress(Error, OSError):
                self._write(store)
            del store

    def _write(self, store: _Store) -> None:
        status = store.status()
        if not status.is_writer:
            return
        failing = status.last_background_error
        note: Note = {
            "time": _core.format_instant(time.time_ns() // 1_000_000),
            "pid": self._process,
            "host": socket.gethostname(),
            "last_background_error": failing
            and {
                "work": failing.work,
                "error": failing.error,
                "since": failing.since.isoformat(),
                "last": failing.last.isoformat(),
                "failures": failing.failures,
            },
            "metrics": store.metrics(),
        }
        try:
            self._replace(_encoded(note) + b" " * _ROOM)
        except OSError:
            self._overwrite(note)

    def _replace(self, text: bytes) -> None:
        make(self._path.parent)
        # Another store of this process may write the same note.
        new = self._path.with_name(f"{_NAME}.{self._process}-{id(self)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(new, flags, PRIVATE), "wb") as file:
                file.write(text)
            with self._placing:
                if not self._ended.is_set():
                    self._is_written = True
                    new.replace(self._path)
        finally:
            with suppress(FileNotFoundError):
                new.unlink()

    def _overwrite(self, note: Note) -> None:
        """Needs no more disk. A process that reads the note in that moment may see none."""
        with self._placing:
            if self._ended.is_set():
                return
            flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(self._path, flags), "wb") as file:
                room = os.fstat(file.fileno()).st_size
                text = _encoded(note)
                if len(text) > room:
                    text = _encoded({**note, "metrics": ""})
                if len(text) <= room:
                    self._is_written = True
                    file.write(text.ljust(room))


def _encoded(note: Note) -> bytes:
    return json.dumps(note).encode()


def read_note(folder: Path) -> Note | None:
    """The note of a writer that runs; None where there is none."""
    path = folder / _NAME
    try:
        if time.time() - path.stat().st_mtime > _STALE_SECONDS:
            return None
        note: Note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return note
