"""Copies tables: opens both stores and calls the core."""

import time
from typing import Protocol

from . import _core
from ._core import Store as CoreStore
from ._errors import InvalidArgument
from ._progress import progress_of
from ._results import CopyReport


class Destination(Protocol):
    """A store to copy to: `idmatch.Store`."""

    @property
    def _core(self) -> CoreStore: ...


def copy(
    table: _core.Table,
    store: _core.Store,
    name: str | None,
    merge: bool,
    accept_lost_erasures: bool,
    batch_rows: int,
) -> CopyReport:
    """Copies a table to a store; see `Table.copy_to`."""
    if batch_rows < 1:
        raise InvalidArgument(f"batch_rows is {batch_rows}; use 1 or more rows")
    started = time.perf_counter()
    name = table.name if name is None else name
    try:
        with progress_of(table).shown():
            done = _core.copy_table(table, store, name, batch_rows, merge, accept_lost_erasures)
    except KeyboardInterrupt as error:
        # A note of the core already says which rows have an unknown outcome.
        if not getattr(error, "__notes__", ()):
            error.add_note("what was copied stays; copy again, which is always safe")
        raise
    seconds = time.perf_counter() - started
    return CopyReport(table=table.name, name=name, **done, seconds=seconds)
