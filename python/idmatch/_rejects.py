"""Rejected rows: numbered as they are in their files, counted, and written to a CSV file."""

import csv
import os
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self, TextIO

from . import _outputs, _rejects_folder
from ._core import Table
from ._errors import BadInput, InvalidArgument, IoError
from ._types import Path, Reject

if TYPE_CHECKING:
    from _csv import Writer

    from . import _sources

HEADER = ("file", "row", "column", "reason")


class MaxRejects(NamedTuple):
    """How many rows of a load may be rejected."""

    rows: int | None
    share: float | None
    text: str

    @classmethod
    def parse(cls, given: int | str) -> Self:
        """From a number of rows, or a share such as "1%". Raises InvalidArgument."""
        text = str(given).strip()
        try:
            if text.endswith("%"):
                share = float(text[:-1]) / 100
                if 0 <= share <= 1:
                    return cls(None, share, text)
            elif not isinstance(given, bool) and int(text) >= 0:
                return cls(int(text), None, f"{int(text):,}")
        except ValueError:
            pass
        raise InvalidArgument(
            f'at most {given!r} rejected rows: use a number of rows, or a share such as "1%"'
        )

    def check(self, rejected: int, rows: int | None) -> None:
        """Raises BadInput for more rejected rows than that; a share counts once `rows` is known."""
        of_rows = self.share * rows if self.share is not None and rows is not None else None
        most = self.rows if self.rows is not None else of_rows
        if most is not None and rejected > most:
            of = "" if rows is None else f" of {rows:,}"
            raise BadInput(
                f"{rejected:,}{of} rows were rejected, and at most {self.text} may be; "
                "nothing was loaded"
            )


class RejectsTo(NamedTuple):
    """Where rejected rows go, and how many there may be."""

    path: Path | None = None
    """The file; None for one in the folder of the store's rejects."""
    overwrite: bool = False
    most: MaxRejects | None = None


class Rejects:
    """Takes the rejected rows of one load, from any thread.

    Rows are numbered from 1; the header of a CSV file does not count. Column and reason name the
    table's columns; a malformed line has no column.

    CSV lines with a wrong number of fields never reach the core, so it numbers the rows after them
    too low. It also counts each value of a list as a row. This class corrects the numbers of the
    rows that the core rejects.
    """

    def __init__(self, numbers: "Mapping[str, _sources.RowNumbers]", strict: bool = False) -> None:
        self._numbers = numbers
        self._strict = strict
        self.rejected = 0
        self.malformed = 0
        self.first_malformed: Reject | None = None
        self._malformed_rows: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
        self._lock = Lock()

    def take(self, rejects: list[Reject]) -> None:
        """Takes rows that the core rejected: (source, row, column, reason)."""
        with self._lock:
            self._take(
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
                self._take([(source, row, "", reason)])
        return not self._strict

    def _take(self, rows: list[Reject]) -> None:
        self.rejected += len(rows)

    def _row_in_file(self, source: str, row: int) -> int:
        """The number, in its file, of the row that has number `row` in the core."""
        if source in self._numbers:
            row = self._numbers[source].of(row)
        malformed = self._malformed_rows.get(source)
        if not malformed:
            return row
        # malformed[i] - i is the core's number of the first good row after the i-th malformed
        # one; it never falls, so the malformed rows before `row` can be counted by bisection.
        return row + bisect_right(range(len(malformed)), row, key=lambda i: malformed[i] - i)


class FirstRejects(Rejects):
    """Keeps the first rejected rows."""

    def __init__(self, numbers: "Mapping[str, _sources.RowNumbers]", most: int) -> None:
        super().__init__(numbers)
        self._most = most
        self.first: list[Reject] = []

    def _take(self, rows: list[Reject]) -> None:
        super()._take(rows)
        self.first += rows[: self._most - len(self.first)]


class RejectsFile(Rejects):
    """Writes the rows to a CSV file with the columns file, row, column and reason.

    The file is made at the first rejected row, for its owner only.
    """

    def __init__(
        self,
        numbers: "Mapping[str, _sources.RowNumbers]",
        table: Table,
        to: RejectsTo,
        inputs: Sequence[str],
        strict: bool,
    ) -> None:
        super().__init__(numbers, strict)
        self._table = table
        self._to = to
        self._inputs = inputs
        self.path: str | None = None
        """The file, once it is made."""
        self._stream: TextIO | None = None
        self._writer: Writer | None = None

    def check_share(self, rows: int) -> None:
        """Raises BadInput if more rows are rejected than allowed, once all rows are counted."""
        if self._to.most:
            self._to.most.check(self.rejected, rows)

    def sync(self) -> None:
        """Makes the written rows durable, and the name of their file.

        Raises IoError if the disk refuses.
        """
        with self._lock, self._writing():
            if self._stream is not None and self.path is not None:
                self._stream.flush()
                _outputs.sync(self._stream.fileno(), self.path)

    def __enter__(self) -> Self:
        if self._to.path is not None and _outputs.check_local(
            self._to.path, overwrite=self._to.overwrite, inputs=self._inputs
        ):
            # The reader of a FIFO waits for its end, also if no row is rejected.
            self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._stream is not None:
            with self._writing():
                self._stream.close()
        if self.path is not None and isinstance(error, Exception):
            error.add_note(f"{self.path} says which rows were rejected until then, and why")

    def _take(self, rows: list[Reject]) -> None:
        super()._take(rows)
        with self._writing():
            (self._writer or self._open()).writerows(rows)
        if self._to.most:
            self._to.most.check(self.rejected, None)

    def _open(self) -> "Writer":
        if self._to.path is None:
            path, file = _rejects_folder.new_file(self._table)
        else:
            path = os.fspath(self._to.path)
            file = _outputs.open_at_once(path, overwrite=self._to.overwrite, inputs=self._inputs)
        self._stream = os.fdopen(file, "w", encoding="utf-8", newline="")
        self.path = path
        self._writer = csv.writer(self._stream, lineterminator="\n")
        self._writer.writerow(HEADER)
        return self._writer

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except IoError:
            raise
        except OSError as error:
            raise IoError(
                f"cannot write rejected rows to {self.path}: {error.strerror}; name another file"
            ) from error
