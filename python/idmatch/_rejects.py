"""Rejected rows: written to a CSV file, and numbered as they are in their files."""

import csv
import os
from array import array
from bisect import bisect_right
from collections import defaultdict
from contextlib import ExitStack
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ._errors import IoError
from ._types import Reject

if TYPE_CHECKING:
    from _csv import Writer

HEADER = ("file", "row", "column", "reason")


class Rejects:
    """Takes the rejected rows of one load, from any thread.

    The CSV file `path` with the columns file, row, column and reason is made when the first
    one comes. Rows are numbered from 1, the header of a CSV file not counted. Column and
    reason speak of the table's columns; a malformed line has no column.

    Lines of a CSV file that have the wrong number of fields never reach the core, which
    therefore numbers the rows after them too low; what it rejects is renumbered here.
    """

    def __init__(self, path: str | os.PathLike[str], strict: bool) -> None:
        self.path = os.fspath(path)
        self.malformed = 0
        self.first_malformed: Reject | None = None
        self._strict = strict
        self._malformed_rows: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
        self._lock = Lock()
        self._file = ExitStack()
        self._writer: Writer | None = None

    def take(self, rejects: list[Reject]) -> None:
        """Writes rows that the core rejected: (source, row, column, reason)."""
        with self._lock:
            self._write(
                [
                    (source, self._row_in_file(source, row), column, reason)
                    for source, row, column, reason in rejects
                ]
            )

    def take_malformed(self, source: str, row: int, reason: str) -> bool:
        """Notes a line that is no row at all; false when it must end the load."""
        with self._lock:
            self.malformed += 1
            self.first_malformed = self.first_malformed or (source, row, "", reason)
            if not self._strict:
                self._malformed_rows[source].append(row)
                self._write([(source, row, "", reason)])
        return not self._strict

    @property
    def written(self) -> bool:
        """Whether the file has been made."""
        return self._writer is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def _write(self, rows: list[Reject]) -> None:
        try:
            if self._writer is None:
                file = open(self.path, "w", encoding="utf-8", newline="")  # noqa: SIM115
                self._writer = csv.writer(self._file.enter_context(file), lineterminator="\n")
                self._writer.writerow(HEADER)
            self._writer.writerows(rows)
        except OSError as error:
            raise IoError(
                f"cannot write rejected rows to {self.path}: {error.strerror}; name another file"
            ) from error

    def _row_in_file(self, source: str, row: int) -> int:
        """The number in its file of a row that the core counted as number `row`."""
        malformed = self._malformed_rows.get(source)
        if not malformed:
            return row
        # malformed[i] - i is the core's number of the first good row after the i-th malformed
        # one; it never falls, so the malformed rows before `row` can be counted by bisection.
        return row + bisect_right(range(len(malformed)), row, key=lambda i: malformed[i] - i)
