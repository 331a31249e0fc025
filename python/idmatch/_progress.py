"""Progress of long calls: bars on a terminal or in a notebook.

The core tells the progress on the thread that makes the call. Must not know what a call does.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from . import _core
from ._sizes import show_size

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

# The core tells progress more often than a reader sees it.
_DRAWS_PER_SECOND = 10
_TERMINAL_BAR_COLUMNS = 30

Totals: TypeAlias = Mapping[str, int | None]
"""The totals of some stages of a call; None for an unknown total."""


class Progress(NamedTuple):
    """How the progress of calls is shown."""

    name: str
    """The table or store, as the bars name it."""
    wanted: bool | None
    """None shows bars in notebooks only, True also on a terminal, False nowhere."""

    @contextmanager
    def shown(self, totals: Callable[[], Totals] = dict) -> Iterator[None]:
        """Shows the progress of calls of this thread. Asks for totals only if bars are shown."""
        bars = _bars(self)
        if bars is None:
            yield
            return
        stages = _Stages(self.name, totals(), bars)
        former = _core.report_to(stages.add)
        try:
            yield
        finally:
            _core.report_to(former)
            bars.close()


def progress_of(table: _core.Table) -> Progress:
    """The progress of calls on a table."""
    return Progress(table.name, table.progress)


@dataclass
class _Stage:
    """How far a stage is."""

    name: str
    unit: str
    total: int | None
    done: int = 0
    started: float = field(default_factory=time.monotonic)

    def text(self) -> str:
        """Text such as "crm: load, 20,000 of 1,000,000 rows"."""
        of_total = "" if self.total is None else f" of {self._size(self.total)}"
        unit = "B" if self.unit == "bytes" else f" {self.unit}"
        return f"{self.name}, {self._size(self.done)}{of_total}{unit}"

    def _size(self, size: int) -> str:
        return show_size(size) if self.unit == "bytes" else f"{size:,}"


class _Bars(Protocol):
    """Where bars are drawn."""

    def draw(self, stages: list[_Stage]) -> None:
        """Draws a bar for each stage."""

    def close(self) -> None:
        """Removes the bars."""


class _Stages:
    """Adds up the progress that the core tells."""

    def __init__(self, name: str, totals: Totals, bars: _Bars) -> None:
        self._name = name
        self._totals = totals
        self._bars = bars
        self._stages: dict[str, _Stage] = {}

    def add(self, stage: str, done: int, unit: str) -> None:
        """Adds the progress of a stage since the last call."""
        at = self._stages.get(stage)
        if at is None:
            at = _Stage(f"{self._name}: {stage}", unit, self._totals.get(stage))
            self._stages[stage] = at
        at.done += done
        if at.total is not None and at.done > at.total:
            # The total was an estimate, or the stage is repeated.
            at.total = None
        self._bars.draw(list(self._stages.values()))


class _TerminalBars:
    """Bars on stderr."""

    def __init__(self) -> None:
        self._progress: RichProgress | None = None
        self._tasks: list[TaskID] = []

    def draw(self, stages: list[_Stage]) -> None:
        progress = self._progress or self._start()
        for stage in stages[len(self._tasks) :]:
            self._tasks.append(progress.add_task(stage.text(), total=stage.total))
        for task, stage in zip(self._tasks, stages, strict=True):
            progress.update(task, completed=stage.done, total=stage.total, description=stage.text())

    def close(self) -> None:
        if self._progress is not None:
            # Log lines that are not printed yet go above the bars.
            _core.flush_logs()
            self._progress.stop()

    def _start(self) -> "RichProgress":
        # This import takes longer than a short call, which tells no progress.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        # A log line that is being printed must not mix with the first bar.
        _core.flush_logs()
        self._progress = Progress(
            BarColumn(bar_width=_TERMINAL_BAR_COLUMNS),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            refresh_per_second=_DRAWS_PER_SECOND,
            transient=True,
        )
        self._progress.start()
        return self._progress


class _Handle(Protocol):
    """Something that IPython displays."""

    def update(self, drawing: object) -> object:
        """Replaces what is displayed by this drawing."""


class _NotebookBars:
    """Bars below the cell of a notebook, drawn as HTML: rich would need widgets for them."""

    def __init__(self) -> None:
        self._handle: _Handle | None = None
        self._drawn = 0.0

    def draw(self, stages: list[_Stage]) -> None:
        now = time.monotonic()
        if self._handle is not None and now - self._drawn < 1 / _DRAWS_PER_SECOND:
            return
        self._drawn = now
        self._show(_Drawing(stages, now))

    def close(self) -> None:
        if self._handle is not None:
            self._show(_Drawing([], 0))

    def _show(self, drawing: "_Drawing") -> None:
        if self._handle is None:
            self._handle = import_module("IPython.display").display(drawing, display_id=True)
        else:
            self._handle.update(drawing)


class _Drawing:
    """Bars at one moment, as IPython displays objects."""

    def __init__(self, stages: list[_Stage], now: float) -> None:
        self._lines = [(stage, stage.text(), now - stage.started) for stage in stages]

    def _repr_html_(self) -> str:
        return "".join(
            f"<div><progress{_of_total(stage)}></progress> {escape(text)}, {seconds:.0f} s</div>"
            for stage, text, seconds in self._lines
        )

    def __repr__(self) -> str:
        return "\n".join(f"{text}, {seconds:.0f} s" for _, text, seconds in self._lines)


def _of_total(stage: _Stage) -> str:
    return f' value="{stage.done}" max="{stage.total}"' if stage.total else ""


def _bars(progress: Progress) -> _Bars | None:
    """The bars of a notebook or a terminal; None if no bars are shown."""
    if progress.wanted is False:
        return None
    if _is_notebook():
        return _NotebookBars()
    return _TerminalBars() if progress.wanted and sys.stderr.isatty() else None


def _is_notebook() -> bool:
    """Whether this is the kernel of a notebook. Imports nothing."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and getattr(get_ipython(), "kernel", None) is not None
