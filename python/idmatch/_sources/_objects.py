"""Objects in memory that speak the Arrow PyCapsule protocol."""

import math
from collections.abc import Sized
from typing import TypeGuard

import pyarrow as pa

from idmatch._types import ArrowArray, ArrowStream

from ._checked import is_good
from ._columns import Wanted, project
from ._lists import is_list
from ._source import OnMalformed, Opened, reading


def is_arrow(source: object) -> TypeGuard[ArrowArray | ArrowStream]:
    """Whether an object exports Arrow data."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


class ArrowObject:
    """A table, data frame, relation, stream or column; an array counts as a table of one column."""

    def __init__(self, source: ArrowArray | ArrowStream) -> None:
        self._source = source
        self.name = type(source).__name__

    @property
    def local_path(self) -> None:
        """See `Source`."""

    @property
    def rows(self) -> float:
        """How many there are; infinity where the object cannot tell."""
        return len(self._source) if isinstance(self._source, Sized) else math.inf

    def open(self, wanted: Wanted, on_malformed: OnMalformed | None) -> Opened:
        """See `Source`; an object has no malformed lines."""
        with reading(self.name):
            return Opened(self._projected(_reader(self._source), wanted))

    def read(self, wanted: Wanted) -> pa.Table:
        """The rows as a table: no Python code and no thread of the object runs later."""
        with reading(self.name):
            table = _table(self._source)
            chosen = wanted.choose(table.schema, self.name, "arrow")
            columns = [table.column(name) for name in chosen.values()]
            has_lists = any(is_list(column.type) for column in columns[: len(wanted.roles)])
            whole = pa.table(columns, names=list(chosen))
            if has_lists or not is_good(whole):
                return self._projected(table.to_reader(), wanted).read_all()
            return whole

    def _projected(self, reader: pa.RecordBatchReader, wanted: Wanted) -> pa.RecordBatchReader:
        chosen = wanted.choose(reader.schema, self.name, "arrow")
        numbers, roles = wanted.numbers[self.name], len(wanted.roles)
        return project(reader, reader.schema, chosen, {}, numbers, roles)


def _table(source: ArrowArray | ArrowStream) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    return _reader(source).read_all()


def _reader(source: ArrowArray | ArrowStream) -> pa.RecordBatchReader:
    try:
        if isinstance(source, ArrowStream):
            return pa.RecordBatchReader.from_stream(source)
        return pa.table(pa.record_batch(source)).to_reader()
    except (pa.ArrowInvalid, TypeError, ValueError):
        return pa.table({"values": pa.chunked_array(source)}).to_reader()  # type: ignore[call-overload]
