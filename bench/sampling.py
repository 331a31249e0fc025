"""Watches what a process or a directory uses while something runs: anonymous memory, disk space,
time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from units import directory_bytes


def private_bytes(process: int) -> int:
    """Memory that is the process's own (RssAnon); neither page cache nor mapped files. 0 if it has
    ended.
    """
    try:
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


class Sampler:
    """Calls `sample` over and over on a thread of its own while the `with` block runs."""

    def __init__(self, sample: Callable[[], None], every_seconds: float) -> None:
        self._sample = sample
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._sample()
            self._stop.wait(self._every_seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()


class Peak:
    """The largest value seen."""

    def __init__(self) -> None:
        self.value = 0

    def see(self, value: int) -> None:
        """Takes one value into account."""
        self.value = max(self.value, value)


class DiskPeak:
    """The most disk space used while something ran: by the files of a directory, and by the file
    system as a whole.

    The second also sees files elsewhere and files without a name, but counts what other programs
    write meanwhile.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = Peak()
        self._filesystem = Peak()
        self._free_before = self._free()

    def _free(self) -> int:
        figures = os.statvfs(self._directory)
        return figures.f_bavail * figures.f_frsize

    def sample(self) -> None:
        """Looks once."""
        self._files.see(directory_bytes(self._directory))
        self._filesystem.see(self._free_before - self._free())

    @property
    def directory_bytes(self) -> int:
        """The directory's largest size."""
        return self._files.value

    @property
    def filesystem_bytes(self) -> int:
        """The largest drop of the file system's free space."""
        return self._filesystem.value


def sleep_until_quiet(seconds: float = 1.0) -> None:
    """Lets a process that just ended give its memory back before the next one starts."""
    time.sleep(seconds)
