"""Commands that change the rows of a table. Each returns an exit code; errors are raised."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Collection, Sequence
from io import BufferedReader
from typing import cast

from idmatch import _operations, _outputs, _store
from idmatch._errors import InvalidArgument, TableNotFound
from idmatch._rejects import MaxRejects, RejectsTo
from idmatch._results import EraseReport, LoadReport
from idmatch._store import Store
from idmatch._table import Table
from idmatch._times import millis_or_none
from idmatch._types import Source
from idmatch._written import written

from ._catalog import make_table, new_table_told
from ._checkpoints import as_json, tell_erased
from ._dry_run import dry_run
from ._inputs import csv_of, sources_of
from ._output import detected_as_json, print_json, say_read, warn
from ._stores import open_existing, runs_of
from ._watch import metrics_of

_DONE = 0
_REJECTED_ROWS = 3


def load(options: Namespace) -> int:
    """`idmatch load`"""
    if options.force and not options.replace:
        raise InvalidArgument("--force is for --replace; name both")
    columns = _columns(options.columns, 2 if options.dated else 3)
    sources = sources_of(options.files, options)
    if options.dry_run:
        return dry_run(options, sources, columns)
    to = _rejects_to(options)
    with _store.open(options.store, wait=options.wait, progress=True, record=True) as store:
        is_there = options.table in store.tables()
        is_address = _store.is_address(options.store)
        expected_rows = options.expected_rows
        if is_address and expected_rows is None and not is_there:
            from idmatch._sources import estimated_rows, find

            expected_rows = estimated_rows(find(sources))
        # A table that cannot be made has no runs.
        made = None if is_there else _table_to_load(store, options, expected_rows)
        with runs_of(store).run("load", options.table) as run:
            table, is_new = made or _table_to_load(store, options, expected_rows)
            with new_table_told(
                table,
                is_new,
                options,
                fails_empty=not is_address,
                expected_rows=expected_rows if is_address else None,
            ):
                report = _loaded(table, sources, columns, to, options)
                run.took(report)
    return _show_report(report, is_new, options, _named(columns))


def _loaded(
    table: Table,
    sources: Sequence[Source],
    columns: list[str],
    to: RejectsTo,
    options: Namespace,
) -> LoadReport:
    return _operations.load(
        table._core,
        sources,
        columns,
        options.strict,
        to,
        how=written(options.date_format, options.tz, options.dated, csv_of(options)),
        replace=options.replace,
        before_commit=_replacement_check(table) if options.replace and not options.force else None,
    )


def upsert(options: Namespace) -> int:
    """`idmatch upsert`"""
    one = options.id is not None or options.partner_id is not None
    if one == (options.file is not None):
        raise InvalidArgument("name either FILE or one observation: --id and --partner-id")
    if one and (options.id is None or options.partner_id is None):
        raise InvalidArgument("one observation has both --id and --partner-id")
    if one and (options.date_format or options.tz or options.dated):
        raise InvalidArgument("--date-format, --tz and --dated are for FILE; use --seen-at")
    if options.seen_at and not one:
        raise InvalidArgument("--seen-at is for one observation; rows have dates of their own")
    columns = _columns(options.columns, 3)
    to = _rejects_to(options)
    if options.ack and (options.file != "-" or options.json):
        raise InvalidArgument("--ack is for FILE -, and writes JSON lines itself, without --json")
    if options.metrics and options.file != "-":
        raise InvalidArgument("--metrics is for FILE -: it answers while the stream lasts")
    with _store.open(
        options.store,
        durability=options.durability,
        wait=options.wait,
        progress=True,
        record=not one,
    ) as store:
        table, is_new = _table_to_upsert(store, options)
        with (
            new_table_told(table, is_new, options, fails_empty=False),
            metrics_of(store, options.metrics),
        ):
            if one:
                report = _upsert_one(table, options)
            else:
                with runs_of(store).run("upsert", options.table) as run:
                    report = _upsert(table, columns, to, options)
                    run.took(report)
    return _show_report(report, is_new, options, _named(columns))


def erase(options: Namespace) -> int:
    """`idmatch erase`"""
    one = options.id is not None or options.partner_id is not None
    if one == (options.file is not None):
        raise InvalidArgument("name either FILE, or one target: --id, --partner-id or both")
    if options.columns and one:
        raise InvalidArgument("--columns is for the columns of FILE")
    with open_existing(options.store, options.wait, record=True) as store:
        table = store.table(options.table)
        if one:
            report = table.erase(id=options.id, partner_id=options.partner_id, at=options.at)
            tell_erased(store, report.checkpoints, options.drop_checkpoints)
            return _show_erased(report, options)
        if not any(columns := _columns(options.columns, 2)):
            raise InvalidArgument(
                "name the columns of FILE: --columns ID,PARTNER_ID, or one of them"
            )
        with runs_of(store).run("erase", options.table) as run:
            report = _operations.erase_from(
                table._core,
                sources_of([options.file], options),
                columns,
                millis_or_none(options.at),
                options.strict,
                _rejects_to(options),
                csv_of(options),
            )
            run.rows, run.rejected = report.targets, report.rejected
        tell_erased(store, report.checkpoints, options.drop_checkpoints)
        return _show_erased(report, options)


def _upsert(table: Table, columns: list[str], to: RejectsTo, options: Namespace) -> LoadReport:
    from idmatch._sources import ByteStream

    how = written(options.date_format, options.tz, options.dated, csv_of(options))
    sources = sources_of([options.file], options)
    if options.file == "-":
        stream = ByteStream(cast("BufferedReader", sys.stdin.buffer), "standard input")
        return _operations.upsert_stream(
            table._core,
            stream,
            columns,
            options.strict,
            to,
            how,
            _acknowledge if options.ack else None,
        )
    return _operations.upsert(table._core, sources, columns, options.strict, to, False, how)


def _acknowledge(rows: int, through: int) -> None:
    print(json.dumps({"rows": rows, "through": through}), flush=True)


def _rejects_to(options: Namespace) -> RejectsTo:
    """Where rejected rows go. Raises InvalidArgument for impossible options, before any work."""
    if options.rejects == "-" and (options.json or getattr(options, "ack", False)):
        raise InvalidArgument("--rejects - and --json or --ack all write to standard output")
    if options.rejects is not None:
        _outputs.check_local(options.rejects, overwrite=options.overwrite)
    most = getattr(options, "max_rejects", None)
    return RejectsTo(
        options.rejects, options.overwrite, None if most is None else MaxRejects.parse(most)
    )


def _upsert_one(table: Table, options: Namespace) -> LoadReport:
    started = time.perf_counter()
    table.upsert_one(options.id, options.partner_id, options.seen_at)
    seconds = time.perf_counter() - started
    return LoadReport(1, 0, seconds, None, {}, [], [])


def _named(columns: Sequence[str]) -> list[str]:
    """The roles whose columns are not guessed."""
    roles = zip(("id", "partner_id", "seen_at"), columns, strict=False)
    return [role for role, name in roles if name]


def _columns(text: str | None, at_most: int) -> list[str]:
    names = text.split(",") if text else []
    if len(names) > at_most:
        raise InvalidArgument(f"--columns has {len(names)} names; there are {at_most} columns")
    return names


def _table_to_upsert(store: Store, options: Namespace) -> tuple[Table, bool]:
    """The existing table or, with --create, a new one; and whether it is new."""
    try:
        return store.table(options.table), False
    except TableNotFound as error:
        if options.create:
            return make_table(store, options.table)
        error.add_note("--create makes it")
        raise


def _show_report(
    report: LoadReport, created: bool, options: Namespace, named: Collection[str]
) -> int:
    seconds = round(report.seconds, 3)
    if options.json:
        figures = {"rows": report.rows, "rejected": report.rejected, "seconds": seconds}
        columns = {"columns": report.columns, "hex_columns": report.hex_columns}
        detected = detected_as_json(report.detected)
        rejects = {"rejects": report.rejects}
        print_json({**figures, **rejects, **columns, "detected": detected, "created": created})
    else:
        say_read(report.detected, report.columns, named, report.hex_columns)
        figures_text = f"{report.rows:,} rows read, {report.rejected:,} rejected, in {seconds:,} s"
        # Standard output has the acknowledgements.
        print(figures_text, file=sys.stderr if getattr(options, "ack", False) else sys.stdout)
    if not report.rows:
        warn("there were no rows")
    if report.rejected:
        warn(f"{report.rejected:,} rows were rejected; {report.rejects} says which and why")
    return _REJECTED_ROWS if report.rejected else _DONE


def _show_erased(report: EraseReport, options: Namespace) -> int:
    seconds = round(report.seconds, 3)
    if options.json:
        print_json(
            {
                "targets": report.targets,
                "rejected": report.rejected,
                "rows_by_id": report.by_id,
                "rows_by_partner_id": report.by_partner_id,
                "seconds": seconds,
                "rejects": report.rejects,
                "hex_columns": report.hex_columns,
                "detected": detected_as_json(report.detected),
                "checkpoints": [as_json(one) for one in report.checkpoints],
            }
        )
    else:
        named = _named(_columns(options.columns, 2))
        say_read(report.detected, report.columns, named, report.hex_columns)
        print(
            f"erased {report.by_id:,} rows by id and {report.by_partner_id:,} by partner ID, "
            f"in {seconds:,} s; compact removes their bytes from the files"
        )
    if report.rejected:
        warn(f"{report.rejected:,} rows were rejected; {report.rejects} says which and why")
    return _REJECTED_ROWS if report.rejected else _DONE


def _replacement_check(table: Table) -> Callable[[int], None]:
    """Refuses to replace a table by less than half of its rows."""

    def check(rows: int) -> None:
        pairs = table._core.stats("sample")[0].pairs
        if rows * 2 < pairs:
            raise InvalidArgument(
                f"the new rows are {rows:,}, and table {table.name} has about {pairs:,} pairs; "
                "nothing was replaced. Say --force if so many are to go"
            )

    return check


def _table_to_load(
    store: Store, options: Namespace, expected_rows: int | None
) -> tuple[Table, bool]:
    """The existing table or a new one, and whether it is new. With --keep, --retention or
    --expected-rows, the table must have these options.
    """
    chosen = options.keep or options.retention or options.expected_rows
    if not chosen and options.table in store.tables():
        return store.table(options.table), False
    return make_table(
        store, options.table, options.keep or "last", options.retention, expected_rows
    )
