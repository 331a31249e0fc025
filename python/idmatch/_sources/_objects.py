"""Objects in memory that speak the Arrow PyCapsule protocol."""

from collections.abc import Sized
from typing import Any

import pyarrow as pa

from ._columns import Wanted, choose, project
from ._source import OnMalformed, reading

_FEW_ROWS = 10_000


def is_arrow(source: Any) -> bool:
    """Whether an object exports Arrow data."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


class ArrowObject:
    """A table, data frame, relation, stream or column; an array counts as a table of one column."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.name = type(source).__name__

    @property
    def is_short(self) -> bool:
        """Whether it can tell how many rows it has, and they are few."""
        source = self._source
        rows = source.num_rows if isinstance(source, pa.RecordBatch) else None
        if rows is None and isinstance(source, Sized):
            rows = len(source)
        return rows is not None and rows <= _FEW_ROWS

    def open(self, wanted: Wanted, on_malformed: OnMalformed | None) -> pa.RecordBatchReader:
        """See `Source`; an object has no malformed lines. A short one is read at once: its stream
        then runs no Python."""
        if self.is_short:
            with reading(self.name):
                table = _table(self._source)
            chosen = choose(wanted, table.schema, self.name)
            columns = [table.column(name) for name in chosen.values()]
            return pa.table(columns, names=list(chosen)).to_reader()
        with reading(self.name):
            reader = _reader(self._source)
        chosen = choose(wanted, reader.schema, self.name)
        return project(reader, reader.schema, chosen, constants={})


def _table(source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    return _reader(source).read_all()


def _reader(source: Any) -> pa.RecordBatchReader:
    try:
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source)
        return pa.table(pa.record_batch(source)).to_reader()
    except (pa.ArrowInvalid, TypeError, ValueError):
        return pa.table({"values": pa.chunked_array(source)}).to_reader()
