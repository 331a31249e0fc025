"""Progress on stderr, when that is a terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import pyarrow as pa

    from .._sources import OnMalformed, Source, Wanted
    from .._types import Source as AnySource

_BAR_WIDTH = 30
_SECONDS_BETWEEN_DRAWINGS = 0.1


@contextmanager
def watched(paths: Sequence[str]) -> "Iterator[AnySource]":
    """What to load or match: the paths, or their sources, which draw a bar while they are read."""
    if not sys.stderr.isatty():
        yield paths
        return
    from .._sources import find

    sources = find(list(paths))
    bar = _Bar(len(sources))
    try:
        # `find` takes the package's own kind of source too, which is not public.
        yield cast("AnySource", [_Watched(source, bar) for source in sources])
    finally:
        _clear()


@contextmanager
def counted(name: str) -> Iterator[Callable[[str, int], None] | None]:
    """What to tell of rows that are compared and copied; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    count = _Count(name)
    try:
        yield count.add
    finally:
        count.draw()
        _clear()


class _Count:
    """The rows of a table that were read, stage by stage. Several threads may tell it of some."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stage = ""
        self._rows = 0
        self._started = self._drawn = time.monotonic()
        self._lock = threading.Lock()

    def add(self, stage: str, rows: int) -> None:
        with self._lock:
            now = time.monotonic()
            if stage != self._stage:
                self.draw()
                self._stage, self._rows, self._started, self._drawn = stage, 0, now, 0.0
            self._rows += rows
            if now - self._drawn >= _SECONDS_BETWEEN_DRAWINGS:
                self.draw()

    def draw(self) -> None:
        """Draws what the stage came to: the last time all of it."""
        if not self._stage:
            return
        self._drawn = time.monotonic()
        speed = f"{self._rows / max(self._drawn - self._started, 0.001):,.0f} rows/s"
        _draw(f"{self._name}: {self._stage}, {self._rows:,} rows, {speed}")


def _draw(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _clear() -> None:
    _draw("")


class _Bar:
    """How many of the sources have been opened, and the rows read so far."""

    def __init__(self, sources: int) -> None:
        self._sources = sources
        self._opened = 0
        self._rows = 0
        self._started = time.monotonic()
        self._drawn = 0.0

    def next_source(self) -> None:
        self._opened += 1

    def add(self, rows: int) -> None:
        self._rows += rows
        now = time.monotonic()
        if now - self._drawn < _SECONDS_BETWEEN_DRAWINGS:
            return
        self._drawn = now
        bar = ("#" * (_BAR_WIDTH * self._opened // self._sources)).ljust(_BAR_WIDTH, ".")
        files = f"file {self._opened} of {self._sources}"
        speed = f"{self._rows / (now - self._started):,.0f} rows/s"
        _draw(f"[{bar}] {files}, {self._rows:,} rows, {speed}")


@dataclass(frozen=True)
class _Watched:
    """A source that tells the bar what is read of it."""

    source: "Source"
    bar: _Bar

    @property
    def name(self) -> str:
        return self.source.name

    def open(self, wanted: "Wanted", on_malformed: "OnMalformed | None") -> "pa.RecordBatchReader":
        import pyarrow as pa

        reader = self.source.open(wanted, on_malformed)
        self.bar.next_source()
        return pa.RecordBatchReader.from_batches(reader.schema, self._counted(reader))

    def _counted(self, reader: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in reader:
            self.bar.add(batch.num_rows)
            yield batch
