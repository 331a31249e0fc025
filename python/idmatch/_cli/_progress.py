"""Progress bars on stderr, when that is a terminal."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from rich.progress import Progress, TaskID

    from idmatch._sources import OnMalformed, Opened, Source, Wanted
    from idmatch._types import Source as AnySource


@contextmanager
def watched(paths: Sequence[str]) -> "Iterator[AnySource]":
    """Yields the paths or, on a terminal, their sources, which move a bar as they are read."""
    if not sys.stderr.isatty():
        yield paths
        return
    from idmatch._sources import find

    sources = find(list(paths))
    with _progress("file {task.completed:.0f} of {task.total:.0f}") as progress:
        bar = progress.add_task("", total=len(sources), rows=0)
        # `find` also takes the package's own sources, which the public type leaves out.
        yield cast("AnySource", [_Watched(source, progress, bar) for source in sources])


@contextmanager
def counted(name: str) -> Iterator[Callable[[str, int], None] | None]:
    """Yields a function that adds compared or copied rows to a bar, from any thread.

    Yields None when stderr is no terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    stages: dict[str, TaskID] = {}
    lock = threading.Lock()
    with _progress("{task.description}") as progress:

        def add(stage: str, rows: int) -> None:
            with lock:
                if stage not in stages:
                    text = f"{name}: {stage}"
                    stages[stage] = progress.add_task(text, total=None, rows=0)
                _add_rows(progress, stages[stage], rows)

        yield add


def _progress(text: str) -> "Progress":
    """A line for each task: `text`, a bar, rows and the time since its start."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        BarColumn(bar_width=30),
        TextColumn(text + ", {task.fields[rows]:,} rows", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _add_rows(progress: "Progress", task: "TaskID", rows: int) -> None:
    progress.update(task, rows=progress.tasks[task].fields["rows"] + rows)


@dataclass(frozen=True)
class _Watched:
    """A source that adds its rows to the bar as they are read."""

    source: "Source"
    progress: "Progress"
    bar: "TaskID"

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def local_path(self) -> str | None:
        return self.source.local_path

    def open(self, wanted: "Wanted", on_malformed: "OnMalformed | None") -> "Opened":
        import pyarrow as pa

        opened = self.source.open(wanted, on_malformed)
        self.progress.advance(self.bar)
        rows = self._counted(opened.reader)
        reader = pa.RecordBatchReader.from_batches(opened.reader.schema, rows)
        return opened._replace(reader=reader)

    def _counted(self, reader: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in reader:
            _add_rows(self.progress, self.bar, batch.num_rows)
            yield batch
