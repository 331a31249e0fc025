"""Loads, upserts, erasures and matches: the core at work on the sources that users name."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from . import _core
from ._csv_options import Csv
from ._errors import BadInput, Error, InvalidArgument, UnknownOutcome
from ._lazy import LazyModule
from ._match import MatchResult
from ._rejects import Rejects
from ._results import EraseReport, LoadReport
from ._types import By, Columns, Path, Pick, Reject
from ._written import Written

if TYPE_CHECKING:
    import pyarrow as pa

    from . import _sources
else:
    # Brings pyarrow.
    _sources = LazyModule("idmatch._sources")

_ROLES = ("id", "partner_id", "seen_at")


def load(
    table: _core.Table,
    source: object,
    columns: Columns,
    strict: bool,
    rejects: Path | None,
    *,
    how: Written,
    replace: bool = False,
    key: str | None = None,
    before_commit: Callable[[int], None] | None = None,
) -> LoadReport:
    """Loads all of a source into a table in one step; see `Table.load`.

    `before_commit` gets the number of staged rows, and may refuse by an exception.
    """
    started = time.perf_counter()
    wanted = _wanted(columns, how)
    sources = _sources.find(source)
    names = [_without_user(source.name) for source in sources]
    session = _core.begin(table, replace, key, names, keeps_lock=True)
    try:
        if done := session.outcome():
            seconds = time.perf_counter() - started
            return LoadReport(*done, seconds, None, wanted.chosen, [], repeated=True)
        with _Report(table, strict, rejects, otherwise="nothing was loaded") as report:
            streams = _streams(sources, wanted, report.log.take_malformed)
            report.add(session.add(streams, strict, report.log.take, how.rules))
        made = report.made(wanted)
        if before_commit is not None:
            before_commit(made.rows - made.rejected)
        session.commit(report.log.malformed)
        return made._replace(seconds=time.perf_counter() - started)
    except BaseException:
        # The exception says more than one of the end of the session.
        with suppress(Error):
            session.abort()
        raise


def add(
    session: _core.Session,
    table: _core.Table,
    source: object,
    columns: Columns,
    strict: bool,
    rejects: Path | None,
    how: Written,
) -> tuple[LoadReport, int]:
    """Stages all of a source in a session; see `Session.add`. Returns its malformed lines, too."""
    wanted = _wanted(columns, how)
    sources = _sources.find(source)
    with _Report(table, strict, rejects, otherwise="nothing of it was staged") as report:
        streams = _streams(sources, wanted, report.log.take_malformed)
        report.add(session.add(streams, strict, report.log.take, how.rules))
    return report.made(wanted), report.log.malformed


def _without_user(name: str) -> str:
    """The name of a source without user and password of a URL: the load history keeps it."""
    return re.sub(r"://[^/@]*@", "://", name)


def upsert(
    table: _core.Table,
    source: object,
    columns: Columns,
    strict: bool,
    rejects: Path | None,
    always: bool,
    how: Written,
) -> LoadReport:
    """Upserts all of a source into a table; see `Table.upsert`."""
    wanted = _wanted(columns, how)
    sources = _sources.find(source)
    with _Report(table, strict, rejects, otherwise="batches before it stay") as report:
        if _sources.are_short(sources):
            tables = [
                (
                    source.name,
                    _sources.with_constants(source.read(wanted).to_reader(), wanted.constants),
                )
                for source in sources
            ]
            report.add(table.upsert(tables, strict, report.log.take, True, always, how.rules))
        else:
            streams = _streams(sources, wanted, report.log.take_malformed)
            report.add(table.upsert(streams, strict, report.log.take, False, always, how.rules))
    return report.made(wanted)


def upsert_stream(
    table: _core.Table,
    stream: "_sources.ByteStream",
    columns: Columns,
    strict: bool,
    rejects: Path | None,
    how: Written,
) -> LoadReport:
    """Upserts rows of a stream as they arrive."""
    wanted = _wanted(columns, how)
    with _Report(table, strict, rejects, otherwise="rows before it stay") as report:
        for chunk in stream.read(wanted, report.log.take_malformed):
            # The core numbers the rows of each chunk from 1.
            before = report.rows

            def take(found: list[Reject], before: int = before) -> None:
                report.log.take(
                    [(name, row + before, column, why) for name, row, column, why in found]
                )

            streams = [(stream.name, _sources.with_constants(chunk, wanted.constants))]
            report.add(table.upsert(streams, strict, take, True, False, how.rules))
    return report.made(wanted)


def erase(
    table: _core.Table, id: str | None, partner_id: str | None, at: int | None
) -> EraseReport:
    """Erases one identifier or one pair; see `Table.erase`."""
    given = {"id": id, "partner_id": partner_id}
    values = {role: value for role, value in given.items() if value is not None}
    if not values:
        raise InvalidArgument("name the identifiers to erase: id, partner_id or both")
    for role, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{role} is of type {type(value).__name__}; an identifier is a str")
    sources = _sources.one_row(values)
    return _erase(table, sources, dict.fromkeys(values), at, strict=True, rejects=None)


def erase_from(
    table: _core.Table,
    source: object,
    columns: Columns,
    at: int | None,
    strict: bool,
    rejects: Path | None,
    csv: Csv | None,
) -> EraseReport:
    """Erases what the rows of a source name; see `Table.erase_from`."""
    named = {role: name for role, name in _names(columns, _ROLES[:2]).items() if name is not None}
    if not named:
        raise InvalidArgument("name the columns of the source: id, partner_id or both")
    return _erase(table, _sources.find(source), named, at, strict, rejects, csv)


def _erase(
    table: _core.Table,
    sources: "Sequence[_sources.Source]",
    names: Mapping[str, str | None],
    at: int | None,
    strict: bool,
    rejects: Path | None,
    csv: Csv | None = None,
) -> EraseReport:
    wanted = _sources.Wanted(names, csv=csv)
    with _Report(table, strict, rejects, otherwise="nothing was erased") as report:
        streams = _streams(sources, wanted, report.log.take_malformed)
        rows, rejected, by_id, by_partner_id = table.erase(streams, strict, report.log.take, at)
        report.add((rows, rejected))
    made = report.made(wanted)
    return EraseReport(
        made.rows,
        made.rejected,
        by_id,
        by_partner_id,
        made.seconds,
        made.rejects,
        made.hex_columns,
    )


def match(
    table: _core.Table,
    population: object,
    column: str | None,
    by: By,
    pick: Pick,
    since: int | None,
    until: int | None,
    csv: Csv | None,
) -> MatchResult:
    """Matches a population; see `Table.match`."""
    started = time.perf_counter()
    sources = _sources.find(population)
    wanted = _sources.Wanted({by: column}, csv=csv)
    streams = _streams(sources, wanted, None)
    matched = table.match(streams, by, pick, since, until, _sources.are_short(sources))
    seconds = time.perf_counter() - started
    return MatchResult(matched, seconds, wanted.chosen[by], wanted.hex_columns)


class _Report:
    """Adds up what a load or an upsert does. With `strict` it raises the bad row as BadInput."""

    def __init__(
        self,
        table: _core.Table,
        strict: bool,
        rejects: Path | None,
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

    def made(self, wanted: "_sources.Wanted") -> LoadReport:
        """The sums, and the columns that were read."""
        return LoadReport(
            rows=self.rows + self.log.malformed,
            rejected=self._rejected + self.log.malformed,
            seconds=time.perf_counter() - self._started,
            rejects=self.log.path if self.log.written else None,
            columns=wanted.chosen,
            hex_columns=wanted.hex_columns,
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
            source, row, _, reason = self.log.first_malformed
            bad = BadInput(f"{source}, row {row}: {reason}; {self._otherwise}")
            bad.source, bad.row, bad.reason = source, row, reason
            raise bad from error
        if isinstance(error, BadInput):
            bad = BadInput(f"{error}; {self._otherwise}")
            vars(bad).update(vars(error))
            raise bad from error


def _streams(
    sources: "Iterable[_sources.Source]",
    wanted: "_sources.Wanted",
    on_malformed: "_sources.OnMalformed | None",
) -> "Iterator[tuple[str, pa.RecordBatchReader]]":
    for source in sources:
        opened = source.open(wanted, on_malformed)
        yield source.name, _sources.with_constants(opened, wanted.constants)


def _wanted(columns: Columns, how: Written) -> "_sources.Wanted":
    """The columns of observations."""
    if how.dated is None:
        return _sources.Wanted(_names(columns, _ROLES), csv=how.csv)
    dated = {"seen_at": how.dated}
    return _sources.Wanted(_names(columns, _ROLES[:2]), dated, how.csv)


def _names(columns: Columns, roles: Sequence[str]) -> dict[str, str | None]:
    """The column of each role, None where it is to be guessed."""
    expected = f"name up to {len(roles)} columns, {', '.join(roles)}, in a list or a dict"
    if isinstance(columns, Mapping):
        if unknown := set(columns) - set(roles):
            raise InvalidArgument(f"columns has the key {min(unknown, key=str)!r}; {expected}")
        named = dict(columns)
    elif isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidArgument(f"columns is {columns!r}; {expected}")
    elif len(columns) > len(roles):
        raise InvalidArgument(f"columns has {len(columns)} names; {expected}")
    else:
        named = dict(zip(roles, columns, strict=False))
    for role, name in named.items():
        if name is not None and not isinstance(name, str):
            raise InvalidArgument(f"the column named for {role} is {name!r}; {expected}")
    return {role: named.get(role) or None for role in roles}
