"""Loads and matches: the core at work on the sources that users name."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from . import _core
from ._errors import BadInput, InvalidArgument, UnknownOutcome
from ._match import MatchResult
from ._rejects import Rejects
from ._results import EraseReport, LoadReport
from ._sources import OnMalformed, Pieces, Source, Wanted, are_short, find


def load(
    table: _core.Table,
    sources: Sequence[Source],
    columns: Wanted,
    strict: bool,
    rejects: str | os.PathLike[str] | None,
) -> LoadReport:
    """Loads all sources into a table in one step; see `Table.load`."""
    with _Report(table, strict, rejects, otherwise="nothing was loaded") as report:
        streams = _streams(sources, columns, report.log.take_malformed)
        report.add(table.load(streams, strict, report.log.take))
    return report.made()


def upsert(
    table: _core.Table,
    sources: Sequence[Source],
    columns: Wanted,
    strict: bool,
    rejects: str | os.PathLike[str] | None,
    always: bool,
) -> LoadReport:
    """Upserts all sources into a table; see `Table.upsert`."""
    with _Report(table, strict, rejects, otherwise="batches before it stay") as report:
        if are_short(sources):
            tables = [(source.name, source.read(columns)) for source in sources]
            report.add(table.upsert(tables, strict, report.log.take, True, always))
        else:
            streams = _streams(sources, columns, report.log.take_malformed)
            report.add(table.upsert(streams, strict, report.log.take, False, always))
    return report.made()


def upsert_pieces(
    table: _core.Table,
    pieces: Pieces,
    columns: Wanted,
    strict: bool,
    rejects: str | os.PathLike[str] | None,
) -> LoadReport:
    """Upserts what arrives on a stream, piece by piece."""
    with _Report(table, strict, rejects, otherwise="rows before it stay") as report:
        for piece in pieces.read(columns, report.log.take_malformed):
            # The core numbers the rows of each piece from 1.
            before = report.rows

            def take(found: list[tuple[str, int, str, str]], before: int = before) -> None:
                report.log.take(
                    [(name, row + before, column, why) for name, row, column, why in found]
                )

            streams = [(pieces.name, piece)]
            report.add(table.upsert(streams, strict, take, short=True, always=False))
    return report.made()


def erase(
    table: _core.Table,
    source: Any,
    id: str | None,
    partner_id: str | None,
    at: int | None,
    strict: bool,
    rejects: str | os.PathLike[str] | None,
) -> EraseReport:
    """Erases one target, or those that a source names; see `Table.erase`."""
    named = {"id": id, "partner_id": partner_id}
    named = {role: name for role, name in named.items() if name is not None}
    if not named:
        what = "columns of the source" if source is not None else "the identifiers to erase"
        raise InvalidArgument(f"name {what}: id, partner_id or both")
    if source is None:
        for role, value in named.items():
            if not isinstance(value, str):
                raise TypeError(f"{role} is {value!r}; an identifier is a str")
        # Its columns have the names of their roles; one bad value is an error.
        source = pa.table({role: pa.array([value], pa.string()) for role, value in named.items()})
        named, strict = {role: role for role in named}, True
    with _Report(table, strict, rejects, otherwise="nothing was erased") as report:
        streams = _streams(find(source), named, report.log.take_malformed)
        rows, rejected, by_id, by_partner_id = table.erase(streams, strict, report.log.take, at)
        report.add((rows, rejected))
    made = report.made()
    return EraseReport(made.rows, made.rejected, by_id, by_partner_id, made.seconds, made.rejects)


class _Report:
    """Adds up what a load or an upsert does; when strict, words the bad row as the error it is."""

    def __init__(
        self,
        table: _core.Table,
        strict: bool,
        rejects: str | os.PathLike[str] | None,
        otherwise: str,
    ) -> None:
        self.log = Rejects(rejects or f"{table.name}.rejects.csv", strict)
        self.rows = 0
        self._rejected = 0
        self._strict = strict
        self._otherwise = otherwise
        self._started = time.perf_counter()

    def add(self, counted: tuple[int, int]) -> None:
        """Adds rows read and rows rejected by the core."""
        self.rows += counted[0]
        self._rejected += counted[1]

    def made(self) -> LoadReport:
        """The sums."""
        return LoadReport(
            rows=self.rows + self.log.malformed,
            rejected=self._rejected + self.log.malformed,
            seconds=time.perf_counter() - self._started,
            rejects=self.log.path if self.log.written else None,
        )

    def __enter__(self) -> Self:
        self.log.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.log.__exit__(kind, error, traceback)
        if not isinstance(error, Exception) or not self._strict:
            return
        if isinstance(error, UnknownOutcome):
            # Rows before the bad one may be there or not, which is worse to miss.
            return
        if self.log.first_malformed:
            raise BadInput(f"{self.log.first_malformed}; {self._otherwise}") from error
        if isinstance(error, BadInput):
            raise BadInput(f"{error}; {self._otherwise}") from error


def match(
    table: _core.Table,
    population: Sequence[Source],
    column: str | None,
    by: str,
    pick: str,
    since: int | None,
    until: int | None,
) -> MatchResult:
    """Matches a population; see `Table.match`."""
    started = time.perf_counter()
    streams = _streams(population, {by: column}, None)
    matched = table.match(streams, by, pick, since, until, are_short(population))
    return MatchResult(matched, time.perf_counter() - started)


def _streams(
    sources: Iterable[Source], columns: Wanted, on_malformed: OnMalformed | None
) -> Iterator[tuple[str, pa.RecordBatchReader]]:
    for source in sources:
        yield source.name, source.open(columns, on_malformed)
