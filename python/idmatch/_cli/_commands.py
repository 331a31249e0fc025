"""Commands that read, check, compact or back up a store, and `COMMANDS`, the map of all commands.

Each command returns an exit code; errors are raised.
"""

import time
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from idmatch import _recovery, _store
from idmatch._core import explain_address, format_instant
from idmatch._errors import InvalidArgument
from idmatch._lazy import LazyModule
from idmatch._results import Finding, TableStats
from idmatch._sizes import show_size
from idmatch._table import Table
from idmatch._times import to_millis

from ._catalog import alter, create, drop, rename
from ._checkpoints import as_json, checkpoint, tell
from ._copy import copy
from ._lab import lab
from ._matches import export, match
from ._output import grouped, print_columns, print_json, warn
from ._parser import Command
from ._process import show
from ._stores import open_existing
from ._watch import cql_exporter, dashboard, exporter, last_runs, print_runs, writer_of
from ._writes import erase, load, upsert

if TYPE_CHECKING:
    import pyarrow as pa

    from idmatch import _sample
else:
    # Imports numpy.
    _sample = LazyModule("idmatch._sample")

_DONE = 0
_FOUND_PROBLEMS = 1


def lookup(options: Namespace) -> int:
    """`idmatch lookup`"""
    if options.id is None and options.partner_id is None:
        raise InvalidArgument("name --id, --partner-id or both")
    with open_existing(options.store) as store:
        table = store.table(options.table)
        if options.id is not None and options.partner_id is not None:
            _lookup_pair(table, options)
        elif options.id is not None:
            answers = table.partner_ids(options.id, since=options.since, limit=options.limit)
            _show_answers(answers, options)
        else:
            answers = table.ids(options.partner_id, since=options.since, limit=options.limit)
            _show_answers(answers, options)
    return _DONE


def tables(options: Namespace) -> int:
    """`idmatch tables`"""
    if options.explain:
        return _explain(options)
    is_remote = _store.is_address(options.store)
    with open_existing(options.store, record=options.count) as store:
        found = [store.table(name) for name in store.tables()]
        listed = [(table, table.stats(count=options.count)) for table in found]
        checkpoints = store.checkpoints()
        writer, runs = writer_of(store), last_runs(store)
    if options.json:
        of_tables = [_table_as_json(table, stats) for table, stats in listed]
        of_checkpoints = [as_json(one) for one in checkpoints]
        print_json(
            {
                "tables": of_tables,
                "checkpoints": of_checkpoints,
                "writer": writer,
                "runs": runs,
            }
        )
    else:
        print_columns(
            _TABLE_COLUMNS,
            [_table_as_text(table, stats, is_remote) for table, stats in listed],
        )
        print_runs(runs)
        tell(checkpoints)
    if writer and (failing := writer["last_background_error"]):
        warn(
            f"the {failing['work']} of the process that writes (pid {writer['pid']}) fails since "
            f"{failing['since']}: {failing['error']}"
        )
    for table, stats in listed:
        if stats.is_outgrown:
            warn(
                f"table {table.name} was made for {stats.expected_rows:,} rows and has "
                f"{stats.rows:,}: copy it into a new one, which is made for what is copied "
                f"(idmatch copy STORE STORE {table.name} --as NEW), and exchange their names"
            )
    return _DONE


def _explain(options: Namespace) -> int:
    if not _store.is_address(options.store):
        raise InvalidArgument("--explain is for addresses of servers; a directory has no settings")
    settings = explain_address(options.store)
    if options.json:
        shown = [{"name": name, "value": value, "about": about} for name, value, about in settings]
        print_json({"settings": shown})
    else:
        print_columns(["setting", "value", ""], [list(setting) for setting in settings])
    return _DONE


def verify(options: Namespace) -> int:
    """`idmatch verify`"""
    if (options.accept_loss or options.accept_older) and not options.repair:
        raise InvalidArgument("--accept-loss and --accept-older say how to --repair; name both")
    # Only a store in files may need recovery before it opens.
    has_files = options.repair and not _store.is_address(options.store)
    recovered = (
        _recovery.recover(
            options.store,
            accept_loss=options.accept_loss,
            accept_older=options.accept_older,
            progress=True,
        )
        if has_files
        else []
    )
    with open_existing(options.store, options.wait) as store:
        names = [options.table] if options.table else store.tables()
        if options.repair:
            return _repair(recovered, {name: store.table(name) for name in names}, options)
        findings = {name: store.table(name).verify() for name in names}
        checkpoints = store.checkpoints()
    if options.json:
        checked = [
            {"name": name, "problems": [finding._asdict() for finding in found]}
            for name, found in findings.items()
        ]
        print_json({"tables": checked, "checkpoints": [as_json(one) for one in checkpoints]})
    else:
        tell(checkpoints)
        for name, found in findings.items():
            print(f"{name}: {f'{len(found):,} problems' if found else 'all is well'}")
            for place, problem in found:
                print(f"  {place}: {problem}")
    return _FOUND_PROBLEMS if any(findings.values()) else _DONE


def _repair(recovered: list[Finding], tables: dict[str, Table], options: Namespace) -> int:
    repaired = {
        name: table.repair(accept_loss=options.accept_loss) for name, table in tables.items()
    }
    if options.json:
        of_tables = [
            {
                "name": name,
                "problems": [finding._asdict() for finding in report.findings],
                "lost": report.lost,
            }
            for name, report in repaired.items()
        ]
        print_json({"store": [found._asdict() for found in recovered], "tables": of_tables})
        return _DONE
    if recovered:
        print(f"{options.store} could not be opened: {len(recovered):,} problems repaired")
        for place, problem in recovered:
            print(f"  {place}: {problem}")
    for name, (findings, lost) in repaired.items():
        repaired_text = f"{len(findings):,} problems repaired, up to {lost:,} rows lost"
        print(f"{name}: {repaired_text if findings else 'all is well'}")
        for place, problem in findings:
            print(f"  {place}: {problem}")
    return _DONE


def compact(options: Namespace) -> int:
    """`idmatch compact`"""
    started = time.perf_counter()
    with open_existing(options.store, options.wait) as store:
        names = [options.table] if options.table else store.tables()
        tables = [store.table(name) for name in names]
        changes = []
        for table in tables:
            before = table.stats()
            table.compact()
            changes.append((table.name, before, table.stats()))
    seconds = round(time.perf_counter() - started, 3)
    if options.json:
        done = [
            {
                "name": name,
                "segments_before": before.segments,
                "segments": after.segments,
                "bytes_before": before.bytes,
                "bytes": after.bytes,
            }
            for name, before, after in changes
        ]
        print_json({"tables": done, "seconds": seconds})
        return _DONE
    for name, before, after in changes:
        print(
            f"{name}: {before.segments:,} segments became {after.segments:,}, "
            f"{show_size(before.bytes)} became {show_size(after.bytes)}"
        )
    print(f"in {seconds:,} s")
    return _DONE


def backup(options: Namespace) -> int:
    """`idmatch backup`"""
    started = time.perf_counter()
    with open_existing(options.store) as store:
        store.backup(options.destination)
    return _show_copied(options.store, options.destination, started, options)


def restore(options: Namespace) -> int:
    """`idmatch restore`"""
    started = time.perf_counter()
    _recovery.restore(options.source, options.store, verify=options.verify, progress=True)
    verified = {"verified": options.verify}
    return _show_copied(options.source, options.store, started, options, verified)


def sample(options: Namespace) -> int:
    """`idmatch sample`"""
    started = time.perf_counter()
    show("numpy")
    made = _sample.generate(
        options.directory, options.people, options.partners, options.seed, options.overwrite
    )
    seconds = round(time.perf_counter() - started, 3)
    if options.json:
        print_json({"files": made.rows_by_file, "seconds": seconds})
        return _DONE
    print_columns(["file", "rows"], [[name, grouped(n)] for name, n in made.rows_by_file.items()])
    print(f"\nmade in {seconds:,} s; to try next:\n")
    for line in made.commands_to_try:
        print(f"  {line}")
    return _DONE


_TABLE_COLUMNS = [
    *("table", "keep", "retention", "rows", "pairs", "ids", "partner IDs", "bytes", "segments"),
    *("memtable", "to compact", "erasures", "oldest", "newest"),
]

COMMANDS: Mapping[str, Command] = {
    command.__name__.replace("_", "-"): command
    for command in (
        create,
        load,
        upsert,
        erase,
        match,
        export,
        lookup,
        tables,
        alter,
        rename,
        drop,
        verify,
        compact,
        copy,
        backup,
        checkpoint,
        restore,
        exporter,
        cql_exporter,
        dashboard,
        lab,
        sample,
    )
}


def _lookup_pair(table: Table, options: Namespace) -> None:
    if options.limit is not None:
        raise InvalidArgument("--limit is for lookups by one identifier; leave it out")
    seen = table.last_seen(options.id, options.partner_id)
    if seen and options.since and to_millis(seen) < to_millis(options.since):
        seen = None
    shown = format_instant(to_millis(seen)) if seen else None
    if options.json:
        print_json({"last_seen": shown})
    else:
        print(shown or "never")


def _show_answers(answers: "pa.Table", options: Namespace) -> None:
    import pyarrow as pa

    side = answers.column_names[0]
    values = cast("list[str]", answers.column(side).to_pylist())
    dates = cast("list[int]", answers.column("seen_at").cast(pa.int64()).to_pylist())
    rows = list(zip(values, map(format_instant, dates), strict=True))
    if options.json:
        print_json({"matches": [{side: value, "seen_at": seen_at} for value, seen_at in rows]})
    else:
        print_columns([side, "seen_at"], rows)


def _table_as_json(table: Table, stats: TableStats) -> dict[str, object]:
    return {
        "name": table.name,
        "keep": table.keep,
        "retention": table.retention,
        **stats._asdict(),
        "oldest": stats.oldest and format_instant(to_millis(stats.oldest)),
        "newest": stats.newest and format_instant(to_millis(stats.newest)),
    }


def _table_as_text(table: Table, stats: TableStats, is_remote: bool) -> list[str]:
    about = "" if stats.is_exact else "~"
    # A directory knows its rows and bytes.
    sampled = about if is_remote else ""
    return [
        table.name,
        table.keep,
        table.retention or "-",
        sampled + grouped(stats.rows),
        *(about + grouped(count) for count in (stats.pairs, stats.ids, stats.partner_ids)),
        sampled + show_size(stats.bytes),
        grouped(stats.segments),
        show_size(stats.memtable_bytes),
        show_size(stats.pending_compaction_bytes),
        grouped(stats.erasures),
        f"{stats.oldest:%Y-%m-%d}" if stats.oldest else "-",
        f"{stats.newest:%Y-%m-%d}" if stats.newest else "-",
    ]


def _show_copied(
    source: str,
    destination: str,
    started: float,
    options: Namespace,
    also: Mapping[str, bool] | None = None,
) -> int:
    seconds = round(time.perf_counter() - started, 3)
    also = also or {}
    if options.json:
        print_json({"from": source, "to": destination, "seconds": seconds, **also})
    else:
        notes = "".join(f"{'' if done else 'not '}{name}, " for name, done in also.items())
        print(f"copied {source} to {destination}, {notes}in {seconds:,} s")
    return _DONE
