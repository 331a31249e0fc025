"""Moments of a read or a write of HDFS: functions are called when so many bytes went through.

Test modules name it in `pytest_plugins`.
"""

from collections.abc import Callable

import pytest
from idmatch._hdfs import _native


class Moments:
    """Counts the bytes that this process has read or written by Hadoop's protocol."""

    def __init__(self) -> None:
        self.bytes = 0
        self._calls = dict[int, Callable[[], object]]()

    def at(self, count: int, call: Callable[[], object]) -> None:
        """Calls a function when so many bytes went through, before the next ones do."""
        self._calls[count] = call

    def before(self, count: int) -> None:
        """These bytes are the next."""
        for at in [at for at in self._calls if self.bytes >= at]:
            # Threads read side by side.
            if call := self._calls.pop(at, None):
                call()
        self.bytes += count

    @property
    def are_over(self) -> bool:
        """Whether each function was called."""
        return not self._calls


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    made = Moments()
    read, write = _native._NativeReader._piece, _native._NativeWriter.write

    def counted_read(reader: _native._NativeReader, offset: int, length: int, end: int) -> bytes:
        made.before(length)
        return read(reader, offset, length, end)

    def counted_write(writer: _native._NativeWriter, data: bytes) -> None:
        made.before(len(data))
        write(writer, data)

    monkeypatch.setattr(_native._NativeReader, "_piece", counted_read)
    monkeypatch.setattr(_native._NativeWriter, "write", counted_write)
    return made
