"""The command that copies tables from one store to another."""

import os
import time
from argparse import Namespace

from idmatch import _copy, _core, _store
from idmatch._errors import InvalidArgument, NotAStore
from idmatch._results import CopyReport
from idmatch._store import Store
from idmatch._table import Table

from ._output import print_columns, print_json, warn
from ._stores import open_existing

_DONE = 0
_COLUMNS = ["table", "as", "rows", "sent", "rows there", "erasures", "checksum"]


def copy(options: Namespace) -> int:
    """`idmatch copy`"""
    if options.name is not None and len(options.tables) != 1:
        raise InvalidArgument("--as is for one table; name that, and only that")
    started = time.perf_counter()
    with open_existing(options.source) as source:
        names = options.tables or source.tables()
        if not names:
            raise NotAStore(f"there is no table in {source.path}; nothing to copy")
        if options.name in (None, *names) and _is_same(options.source, options.destination):
            raise InvalidArgument("both stores are the same; name another, or --as another table")
        # A missing table raises before anything is copied.
        tables = [source.table(name) for name in names]
        with _store.open(options.destination, wait=options.wait) as destination:
            reports = [_copy_one(table, destination, options) for table in tables]
    seconds = round(time.perf_counter() - started, 3)
    if options.json:
        print_json({"tables": [_as_json(report) for report in reports], "seconds": seconds})
    else:
        print_columns(_COLUMNS, [_as_text(report) for report in reports])
        print(f"in {seconds:,} s")
    for report in reports:
        if report.erasures_lost:
            warn(
                f"{report.table}: {report.erasures_lost:,} erasures could not be taken over; what "
                "was erased shows in the destination when it arrives late"
            )
    return _DONE


def _copy_one(table: Table, destination: Store, options: Namespace) -> CopyReport:
    return _copy.copy(
        table._core,
        destination._core,
        options.name,
        options.merge,
        options.accept_lost_erasures,
        options.batch_rows,
    )


def _is_same(source: str, destination: str) -> bool:
    addresses = [_store.is_address(store) for store in (source, destination)]
    if all(addresses):
        nodes, keyspace = _core.address_parts(source)
        others, other_keyspace = _core.address_parts(destination)
        return keyspace == other_keyspace and not set(nodes).isdisjoint(others)
    return not any(addresses) and os.path.realpath(source) == os.path.realpath(destination)


def _as_json(report: CopyReport) -> dict[str, object]:
    return report._asdict() | {"seconds": round(report.seconds, 3)}


def _as_text(report: CopyReport) -> list[str]:
    counts = (report.rows, report.sent, report.rows_there, report.erasures)
    is_same = report.checksum == report.checksum_there
    return [
        report.table,
        report.name,
        *(f"{count:,}" for count in counts),
        report.checksum if is_same else "(merged)",
    ]
