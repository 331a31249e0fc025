"""Runs loads, upserts and erasures: opens the sources, calls the core, returns a report."""

import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from . import _core
from ._checkpoints import checkpoint_of
from ._csv_options import Csv
from ._errors import Error, InvalidArgument
from ._given import ROLES, Given, Report, Streams, names_of, wanted_of
from ._lazy import LazyModule
from ._rejects import FirstRejects, RejectsTo
from ._results import EraseReport, LoadReport
from ._spool import Spool
from ._types import Columns, Reject
from ._written import Written

if TYPE_CHECKING:
    from . import _sources
else:
    # Brings pyarrow.
    _sources = LazyModule("idmatch._sources")


class Judged(NamedTuple):
    """The result of a load that stores nothing."""

    report: LoadReport
    id_bytes: int
    """Bytes of the identifiers of good rows."""
    good: list[tuple[str, str, int]]
    """The first good rows: id, partner ID, and milliseconds since 1970."""
    rejected: list[Reject]
    """The first rejected rows."""


def load(
    table: _core.Table,
    source: object,
    columns: Columns,
    strict: bool,
    rejects: RejectsTo,
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
    wanted = wanted_of(columns, how)
    sources = _sources.ready(source, wanted)
    # The load history keeps the names.
    names = [source.name for source in sources]
    session = _core.begin(table, replace, key, names, "locked")
    try:
        if done := session.outcome():
            seconds = time.perf_counter() - started
            return LoadReport(*done, seconds, None, wanted.chosen, [], [], repeated=True)
        given = Given(table, sources, wanted, strict, rejects)
        with given.progress("load"):
            with Report(given, otherwise="nothing was loaded") as report:
                if rejects.most is not None and table.is_remote:
                    _stage_judged(session, given, report, how)
                else:
                    streams = given.streams(report.log)
                    with streams.raising():
                        rows, rejected, newest, _ = session.add(
                            streams,
                            strict,
                            report.log.take,
                            how.rules,
                            lambda: report.log.malformed,
                            None,
                        )
                    report.add(rows, rejected, newest)
                    report.check_rejected()
            made = report.made()
            if before_commit is not None:
                before_commit(made.rows - made.rejected)
            session.commit(None)
        return made._replace(seconds=time.perf_counter() - started)
    except BaseException:
        # The exception says more than an error of the abort.
        with suppress(Error):
            session.abort()
        raise


def add(
    session: _core.Session,
    table: _core.Table,
    source: object,
    columns: Columns,
    strict: bool,
    rejects: RejectsTo,
    how: Written,
    number: int | None,
) -> LoadReport:
    """Stages all of a source in a session; see `Session.add`."""
    wanted = wanted_of(columns, how)
    given = Given(table, _sources.ready(source, wanted), wanted, strict, rejects)
    with given.progress("load"), Report(given, otherwise="nothing of it was staged") as report:
        streams = given.streams(report.log)
        with streams.raising():
            rows, rejected, newest, part = session.add(
                streams, strict, report.log.take, how.rules, lambda: report.log.malformed, number
            )
        report.add(rows, rejected, newest)
    return report.made()._replace(part=part)


def _stage_judged(session: _core.Session, given: Given, report: Report, how: Written) -> None:
    """Stages sources after all of their rows are judged, since servers keep every row they get.

    Until then the rows are in a temporary file.
    """

    def ignore(_: list[Reject]) -> None:
        # The rejects are in the file already.
        return

    streams = given.streams(report.log)
    with closing(Spool(streams.raised)) as spool:
        with streams.raising():
            written = spool.writing(streams)
            report.add(*_core.judge(written, given.strict, report.log.take, how.rules, 0)[:2])
        report.check_rejected()
        added = session.add(
            spool.reading(), False, ignore, how.rules, lambda: report.rejected, None
        )
        report.add(0, 0, added[2])


def judge(source: object, columns: Columns, how: Written, shown: int) -> Judged:
    """Reads a source without storing it, and judges its rows; keeps the first ones."""
    started = time.perf_counter()
    wanted = wanted_of(columns, how)
    log = FirstRejects(wanted.numbers, shown)
    streams = Streams(_sources.ready(source, wanted), wanted, log.take_malformed)
    with streams.raising():
        rows, rejected, size, good = _core.judge(streams, False, log.take, how.rules, shown)
    report = LoadReport(
        rows=rows + log.malformed,
        rejected=rejected + log.malformed,
        seconds=time.perf_counter() - started,
        rejects=None,
        columns=wanted.chosen,
        hex_columns=wanted.hex_columns,
        detected=wanted.detected,
    )
    return Judged(report, size, good, log.first)


def upsert(
    table: _core.Table,
    source: object,
    columns: Columns,
    strict: bool,
    rejects: RejectsTo,
    always: bool,
    how: Written,
) -> LoadReport:
    """Upserts all of a source into a table; see `Table.upsert`."""
    wanted = wanted_of(columns, how)
    sources = _sources.ready(source, wanted)
    given = Given(table, sources, wanted, strict, rejects)
    with given.progress("upsert"), Report(given, otherwise="batches before it stay") as report:
        if _sources.are_short(sources):
            tables = [
                (
                    source.name,
                    _sources.with_constants(source.read(wanted).to_reader(), wanted.constants),
                )
                for source in sources
            ]
            report.add(*table.upsert(tables, strict, report.log.take, True, always, how.rules))
        else:
            streams = given.streams(report.log)
            with streams.raising():
                report.add(
                    *table.upsert(streams, strict, report.log.take, False, always, how.rules)
                )
    return report.made()


def upsert_stream(
    table: _core.Table,
    stream: "_sources.ByteStream",
    columns: Columns,
    strict: bool,
    rejects: RejectsTo,
    how: Written,
    on_durable: Callable[[int, int], None] | None = None,
) -> LoadReport:
    """Upserts rows of a stream as they arrive.

    After each batch, `on_durable` gets the number of rows stored so far, and the number of a row of
    the stream. Every row up to that row is durable: in the store, or in the file of rejects.
    """
    wanted = wanted_of(columns, how)
    given = Given(table, [], wanted, strict, rejects)
    with Report(given, otherwise="rows before it stay") as report:
        for chunk in stream.read(wanted, report.log.take_malformed):
            if chunk is not None:
                # The core numbers the rows of each chunk from 1.
                before = report.rows

                def take(found: list[Reject], before: int = before) -> None:
                    report.log.take(
                        [(name, row + before, column, why) for name, row, column, why in found]
                    )

                streams = [(stream.name, _sources.with_constants(chunk, wanted.constants))]
                always = on_durable is not None
                report.add(*table.upsert(streams, strict, take, True, always, how.rules))
            if on_durable is not None:
                report.log.sync()
                on_durable(report.stored, stream.rows)
    return report.made()


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
    wanted = _sources.Wanted(dict.fromkeys(values))
    erased = _erase(Given(table, sources, wanted, True, RejectsTo()), at)
    # The source is the arguments: there is nothing to report about it.
    return erased._replace(detected=[], columns={})


def erase_from(
    table: _core.Table,
    source: object,
    columns: Columns,
    at: int | None,
    strict: bool,
    rejects: RejectsTo,
    csv: Csv | None,
) -> EraseReport:
    """Erases the targets that the rows of a source name; see `Table.erase_from`."""
    named = {role: name for role, name in names_of(columns, ROLES[:2]).items() if name is not None}
    if not named:
        raise InvalidArgument("name the columns of the source: id, partner_id or both")
    wanted = _sources.Wanted(named, csv=csv)
    return _erase(Given(table, _sources.ready(source, wanted), wanted, strict, rejects), at)


def _erase(given: Given, at: int | None) -> EraseReport:
    with given.progress("erase"), Report(given, otherwise="nothing was erased") as report:
        streams, take = given.streams(report.log), report.log.take
        with streams.raising():
            rows, rejected, by_id, by_partner_id, checkpoints = given.table.erase(
                streams, given.strict, take, at
            )
        report.add(rows, rejected)
    made = report.made()
    return EraseReport(
        made.rows,
        made.rejected,
        by_id,
        by_partner_id,
        made.seconds,
        made.rejects,
        made.hex_columns,
        made.detected,
        made.columns,
        [checkpoint_of(told) for told in checkpoints],
    )
