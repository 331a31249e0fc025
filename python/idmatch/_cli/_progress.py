"""Progress on stderr, when that is a terminal."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from .._sources import OnMalformed, Source, Wanted

_BAR_WIDTH = 30
_SECONDS_BETWEEN_DRAWINGS = 0.1


@contextmanager
def watched(paths: Sequence[str]) -> Iterator[Any]:
    """What to load or match: the paths, or their sources, which draw a bar while they are read."""
    if not sys.stderr.isatty():
        yield paths
        return
    from .._sources import find

    sources = find(list(paths))
    bar = _Bar(len(sources))
    try:
        yield [_Watched(source, bar) for source in sources]
    finally:
        bar.clear()


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
        text = f"[{bar}] {files}, {self._rows:,} rows, {speed}"
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


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
