"""The arguments and the report of a write: sources, their columns, and rejected rows."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from . import _core
from ._errors import BadInput, Error, InvalidArgument, SourceError, UnknownOutcome
from ._lazy import LazyModule
from ._logs import LOAD, log
from ._progress import progress_of
from ._rejects import Rejects, RejectsFile, RejectsTo
from ._results import LoadReport
from ._times import datetime_or_none
from ._types import Columns
from ._written import Written

if TYPE_CHECKING:
    import pyarrow as pa

    from . import _sources
else:
    # Brings pyarrow.
    _sources = LazyModule("idmatch._sources")

ROLES = ("id", "partner_id", "seen_at")


class Given(NamedTuple):
    """The arguments of a write."""

    table: _core.Table
    sources: "Sequence[_sources.Source]"
    wanted: "_sources.Wanted"
    strict: bool
    rejects: RejectsTo

    def streams(self, log: Rejects) -> "Streams":
        """The sources, opened one after the other."""
        return Streams(self.sources, self.wanted, log.take_malformed)

    def progress(self, stage: str) -> AbstractContextManager[None]:
        """Shows the progress of a call, whose stage with this name reads the sources."""
        return progress_of(self.table).shown(lambda: {stage: _sources.known_rows(self.sources)})


class Report:
    """Adds up what a load or an upsert does. With `strict` it raises the bad row as BadInput."""

    def __init__(self, given: Given, otherwise: str) -> None:
        inputs: list[str] = []
        if given.rejects.path is not None:
            paths = [source.local_path for source in given.sources]
            inputs = [path for path in paths if path is not None]
        self.log = RejectsFile(
            given.wanted.numbers, given.table, given.rejects, inputs, given.strict
        )
        self.rows = 0
        self._rejected = 0
        self._newest: int | None = None
        self._table = given.table.name
        self._wanted = given.wanted
        self._strict = given.strict
        self._otherwise = otherwise
        self._started = time.perf_counter()

    def add(self, rows: int, rejected: int, newest: int | None = None) -> None:
        """Adds rows read and rows rejected by the core, and the newest date of accepted rows."""
        self.rows += rows
        self._rejected += rejected
        if newest is not None:
            self._newest = newest if self._newest is None else max(newest, self._newest)

    @property
    def stored(self) -> int:
        """Rows that the core has taken."""
        return self.rows - self._rejected

    @property
    def rejected(self) -> int:
        """Rows that were rejected, by the core or before they reached it."""
        return self._rejected + self.log.malformed

    def check_rejected(self) -> None:
        """Raises BadInput if more rows are rejected than allowed, once all rows are counted."""
        self.log.check_share(self.rows + self.log.malformed)

    def made(self) -> LoadReport:
        """The sums, and how the sources were read."""
        if self.rejected:
            fields = {"table": self._table, "rejected": self.rejected, "file": self.log.path}
            log(LOAD, logging.WARNING, "rows were rejected", fields)
        return LoadReport(
            rows=self.rows + self.log.malformed,
            rejected=self.rejected,
            seconds=time.perf_counter() - self._started,
            rejects=self.log.path,
            columns=self._wanted.chosen,
            hex_columns=self._wanted.hex_columns,
            detected=self._wanted.detected,
            newest=datetime_or_none(self._newest),
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
            # Rows before the bad one may be stored or not: that matters more than the bad row.
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


class Streams:
    """Opens sources one after the other, and checks each at its end.

    The core sees an error of a stream as text; `raising` raises the exception itself.
    """

    def __init__(
        self,
        sources: "Iterable[_sources.Source]",
        wanted: "_sources.Wanted",
        on_malformed: "_sources.OnMalformed | None",
    ) -> None:
        self._sources = sources
        self._wanted = wanted
        self._on_malformed = on_malformed
        self.raised: list[Error] = []
        """The errors that were raised while rows were read."""

    def __iter__(self) -> "Iterator[tuple[str, pa.RecordBatchReader]]":
        for source in self._sources:
            opened = source.open(self._wanted, self._on_malformed)
            reader = _sources.with_constants(opened.reader, self._wanted.constants)
            yield source.name, _sources.watched(source.name, reader, self.raised)
            opened.check()

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raises the error of a source itself, in place of the core's SourceError."""
        try:
            yield
        except SourceError:
            if self.raised:
                raise self.raised[0] from None
            raise


def wanted_of(columns: Columns, how: Written) -> "_sources.Wanted":
    """The columns of observations."""
    if how.dated is None:
        names = names_of(columns, ROLES)
        return _sources.Wanted(names, csv=how.csv, date_format=how.format)
    dated = {"seen_at": how.dated}
    return _sources.Wanted(names_of(columns, ROLES[:2]), dated, how.csv)


def names_of(columns: Columns, roles: Sequence[str]) -> dict[str, str | None]:
    """The column of each role, None where it is to be guessed."""
    if isinstance(columns, tuple) and not columns:
        return dict.fromkeys(roles)
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
