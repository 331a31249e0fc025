"""Commands that make, alter, rename and drop tables.

Each returns an exit code; errors are raised.
"""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from idmatch import _store
from idmatch._errors import Error, UnknownOutcome
from idmatch._store import Store
from idmatch._table import Table
from idmatch._types import Keep

from ._output import confirmed, note, print_json, warn
from ._stores import open_existing

_DONE = 0
_NOT_CONFIRMED = 1


def create(options: Namespace) -> int:
    """`idmatch create`"""
    with _store.open(options.store, wait=options.wait) as store:
        table, is_new = make_table(
            store, options.table, options.keep, options.retention, options.expected_rows
        )
        made = {"name": table.name, "keep": table.keep, "retention": table.retention}
    if options.json:
        print_json({**made, "created": is_new})
    else:
        print(f"{options.table}: {'created' if is_new else 'is there already, with these options'}")
    return _DONE


def alter(options: Namespace) -> int:
    """`idmatch alter`"""
    after = None if options.retention == "none" else options.retention
    with open_existing(options.store, options.wait) as store:
        table = store.table(options.table)
        before = table.retention
        hidden = 0
        if after and (options.dry_run or not options.yes):
            hidden = table._core.count(after)
        shown: dict[str, object] = {"name": options.table, "dry_run": options.dry_run}
        if options.dry_run:
            shown["hidden"] = hidden
        else:
            change = f"retention {after} hides {hidden:,} observations of table {table.name}"
            if hidden and not confirmed(change, "Set it?", options):
                return _NOT_CONFIRMED
            table.alter(retention=after)
            after = table.retention
    if options.json:
        print_json({**shown, "retention_before": before, "retention": after})
    elif options.dry_run:
        print(
            f"{options.table}: retention is {before or 'none'}, would be {after or 'none'}; "
            f"{hidden:,} observations would be hidden"
        )
    else:
        print(f"{options.table}: retention was {before or 'none'}, is {after or 'none'}")
    return _DONE


def rename(options: Namespace) -> int:
    """`idmatch rename`"""
    with open_existing(options.store, options.wait) as store:
        change = store.swap_tables if options.swap else store.rename_table
        change(options.old, options.new)
    if options.json:
        print_json({"from": options.old, "to": options.new, "swapped": options.swap})
    elif options.swap:
        print(f"swapped {options.old} and {options.new}")
    else:
        print(f"renamed {options.old} to {options.new}")
    return _DONE


def drop(options: Namespace) -> int:
    """`idmatch drop`"""
    shown: dict[str, object] = {"name": options.table, "dry_run": options.dry_run}
    with open_existing(options.store, options.wait) as store:
        table = store.table(options.table)
        if options.dry_run:
            shown["removed"] = removed = table._core.count(None)
            done = f"would be dropped; {removed:,} observations would be removed"
        else:
            if not options.yes:
                change = f"table {table.name} has about {table.stats().rows:,} observations"
                if not confirmed(change, "Drop it for good?", options):
                    return _NOT_CONFIRMED
            store.drop_table(table.name)
            done = "dropped; its erasures stay for the next table of that name"
    if options.json:
        print_json(shown)
    else:
        print(f"{options.table}: {done}")
    return _DONE


def make_table(
    store: Store,
    name: str,
    keep: Keep = "last",
    retention: str | None = None,
    expected_rows: int | None = None,
) -> tuple[Table, bool]:
    """The table of that name with these options, and whether it is new."""
    is_new = name not in store.tables()
    if not is_new and expected_rows:
        warn(f"table {name} is there already; --expected-rows is for a new one")
    table = store.create_table(name, keep=keep, retention=retention, expected_rows=expected_rows)
    return table, is_new


@contextmanager
def new_table_told(
    table: Table,
    is_new: bool,
    options: Namespace,
    *,
    fails_empty: bool,
    expected_rows: int | None = None,
) -> Iterator[None]:
    """Says on stderr that the table is new and, if the block fails, that the table stays.

    With `fails_empty`, a block that fails leaves no rows in the table.
    """
    if not is_new:
        yield
        return
    if not options.json:
        rows = f" for about {expected_rows:,} rows" if expected_rows else ""
        note(f"made table {table.name}{rows}")
    try:
        yield
    except BaseException as error:
        # After Ctrl-C, a full disk for the rejects or a lost acknowledgement it may have rows.
        is_known = isinstance(error, Error) and not isinstance(error, UnknownOutcome)
        is_empty = fails_empty and is_known
        error.add_note(f"the new table {table.name} stays{', empty' if is_empty else ''}")
        raise
