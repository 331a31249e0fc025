"""Tables as data frames: each task reads a share."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa

from idmatch._places import Place, StoreOrAddress, one_version, opened
from idmatch._rows import Rows
from idmatch._table import Table
from idmatch._times import Moment, datetime_or_none, millis_or_none

from ._frames import task_name, to_pandas

_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "partner_id": pa.string(),
    "seen_at": pa.timestamp("ms", "UTC"),
}
_Window: TypeAlias = tuple[int | None, int | None]
_ROWS_OF_A_PARTITION = 1_000_000
_PARTITIONS_ON_SERVERS = 32


def read(
    store: StoreOrAddress,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    keep: timedelta | str = "24h",
) -> dd.DataFrame:
    """All observations of a table, in no particular order: `id`, `partner_id`, `seen_at`.

    Lazy, in `partitions` splits of the table, at most 4,096; by default of about a million rows in
    a directory, and 32 splits on servers. Columns that are not in `columns`, or that the job does
    not use, are not read. The window is that of `Table.scan`; a window that is relative to now
    counts from the moment of this call. In a directory all tasks see the version of this call: a
    checkpoint, which stays for `keep`.

    Raises TableNotFound, InvalidArgument for a window that ends before it starts, and what
    `Store.checkpoint` raises. A task raises Expired when the checkpoint is gone, NotAStore where
    its host does not see the directory.
    """
    window = (millis_or_none(since), millis_or_none(until))
    with one_version(store, keep) as (here, place):
        found = here.table(table)
        if partitions is None and place.is_remote:
            partitions = _PARTITIONS_ON_SERVERS
        elif partitions is None:
            partitions = found.stats().rows // _ROWS_OF_A_PARTITION + 1
        ranges = found.scan_ranges(partitions)
        # Checks the window.
        _scan(found, ranges[0], window, list(_COLUMNS))
    whole = dd.from_map(
        _read_range,
        ranges,
        args=[place, table, window],
        meta=to_pandas(pa.schema(_COLUMNS).empty_table()),
        label=task_name("read", place),
    )
    return whole if columns is None else whole[list(columns)]


def _read_range(
    scan_range: str,
    place: Place,
    table: str,
    window: _Window,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    wanted = list(_COLUMNS) if columns is None else list(columns)
    # Without a wanted column the number of rows still counts: `seen_at` has the fewest bytes.
    rows = _scan(opened(place).table(table), scan_range, window, wanted or ["seen_at"])
    reader = pa.RecordBatchReader.from_stream(rows)
    batches = [batch.select(wanted) for batch in reader]
    return to_pandas(pa.Table.from_batches(batches, pa.schema(map(reader.schema.field, wanted))))


def _scan(table: Table, scan_range: str, window: _Window, columns: Sequence[str]) -> Rows:
    since, until = map(datetime_or_none, window)
    return table.scan_range(scan_range, since=since, until=until, columns=columns)
