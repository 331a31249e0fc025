"""`idmatch load --dry-run`: what a load would read and store, without storing it."""

from argparse import Namespace
from collections.abc import Sequence

from idmatch import _operations
from idmatch._core import format_instant
from idmatch._given import ROLES
from idmatch._hive_query import Hive
from idmatch._progress import Progress
from idmatch._rejects import HEADER, MaxRejects
from idmatch._sizes import show_size
from idmatch._written import written

from ._inputs import csv_of
from ._output import detected_as_json, print_columns, print_json, say_read

_DONE = 0
_REJECTED_ROWS = 3
_SHOWN_ROWS = 10
# A row beside its identifiers, in one direction: its date, and its share of blocks and indexes.
_ROW_BYTES = 10
_DIRECTIONS = 2


def dry_run(options: Namespace, sources: Sequence[str | Hive], columns: Sequence[str]) -> int:
    """Reads all rows, and shows the first ones as they would be stored or rejected."""
    how = written(options.date_format, options.tz, options.dated, csv_of(options))
    with Progress(options.table, True).shown():
        judged = _operations.judge(sources, columns, how, _SHOWN_ROWS)
    report = judged.report
    rows = [(id, partner_id, format_instant(at)) for id, partner_id, at in judged.good]
    stored = report.rows - report.rejected
    store_bytes = (judged.id_bytes + stored * _ROW_BYTES) * _DIRECTIONS
    if options.json:
        print_json(
            {
                "dry_run": True,
                "rows": report.rows,
                "rejected": report.rejected,
                "seconds": round(report.seconds, 3),
                "columns": report.columns,
                "hex_columns": report.hex_columns,
                "detected": detected_as_json(report.detected),
                "first": [dict(zip(ROLES, row, strict=True)) for row in rows],
                "first_rejected": [dict(zip(HEADER, row, strict=True)) for row in judged.rejected],
                "store_bytes_at_most": store_bytes,
            }
        )
    else:
        named = [role for role, name in zip(ROLES, columns, strict=False) if name]
        say_read(report.detected, report.columns, named, report.hex_columns)
        print_columns(ROLES, rows)
        if judged.rejected:
            print("\nrejected:")
            shown = [[file, str(row), *why] for file, row, *why in judged.rejected]
            print_columns(HEADER, shown)
        print(
            f"\n{report.rows:,} rows read, {report.rejected:,} would be rejected, in "
            f"{report.seconds:,.3f} s; a load takes up to {show_size(store_bytes)} in the store, "
            "and as much again until it ends. Nothing was stored"
        )
    if options.max_rejects is not None:
        MaxRejects.parse(options.max_rejects).check(report.rejected, report.rows)
    return _REJECTED_ROWS if report.rejected else _DONE
