"""Things that go wrong in tasks the first time. Workers import this module."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A slow task is killed long before, when its second attempt is done.
_SLOW_SECONDS = 120


def failing_once(frame: "DataFrame", marks: Path) -> "DataFrame":
    """The same rows; each task fails the first time, after its first batch."""

    def fail() -> None:
        raise RuntimeError("the first attempt of this task fails")

    return _first_time(frame, marks, fail)


def slow_once(frame: "DataFrame", marks: Path) -> "DataFrame":
    """The same rows; the first task hangs the first time, after its first batch."""

    def hang() -> None:
        if TaskContext.get().partitionId() == 0:
            time.sleep(_SLOW_SECONDS)

    return _first_time(frame, marks, hang)


def attempts(marks: Path) -> list[int]:
    """How often each task was begun."""
    return [len(list(of_task.iterdir())) for of_task in sorted(marks.iterdir())]


def _first_time(frame: "DataFrame", marks: Path, mishap: Callable[[], None]) -> "DataFrame":
    marks.mkdir()
    place = str(marks)

    def through(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        of_task = os.path.join(place, str(TaskContext.get().partitionId()))
        os.makedirs(of_task, exist_ok=True)
        is_first = not os.listdir(of_task)
        with open(os.path.join(of_task, str(TaskContext.get().taskAttemptId())), "w"):
            pass
        for part in parts:
            yield part
            if is_first:
                is_first = False
                mishap()

    return frame.mapInArrow(through, frame.schema)
