"""Rows as HiveServer2 sends them, as Arrow arrays.

Text comes as bytes, and so do dates, timestamps and decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_TYPES: dict[str, pa.DataType] = {
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}
_SENT_AS_THEY_ARE = [kind for kind in _TYPES.values() if not types.is_temporal(kind)]
# Up to microseconds: 2026-11-20 10:00:00.123456
_TIMESTAMP_CHARACTERS = 26


class Column(NamedTuple):
    """A column of a result."""

    name: str
    type: str
    """As HiveServer2 calls it, such as BIGINT or DECIMAL(10,2), and of a table as HiveQL does:
    varchar(20)."""

    @property
    def is_nested(self) -> bool:
        """Whether its type is nested. Such values come as JSON over the connection."""
        return self.type.upper().startswith(("ARRAY", "MAP", "STRUCT", "UNIONTYPE"))


class Bits(Protocol):
    """The methods of a bitarray. The first row is in the lowest bit."""

    def any(self) -> bool: ...
    def tobytes(self) -> bytes: ...
    def __invert__(self) -> Bits: ...


class FetchedColumn(Protocol):
    """A column as impyla returns it: its `Column`."""

    values: list[object]
    nulls: Bits


class Fetched(Protocol):
    """A batch as impyla returns it: its `CBatch`."""

    columns: Sequence[FetchedColumn]


def type_of(column: Column) -> pa.DataType:
    """The Arrow type of a column. A type that is not listed here becomes text, such as an array as
    JSON.
    """
    if column.type.startswith("DECIMAL("):
        precision, scale = column.type[len("DECIMAL(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TYPES.get(column.type, pa.string())


def file_type_of(column: Column) -> pa.DataType | None:
    """The type of a table's column in a Parquet file that Hive reads; None for a nested type."""
    if column.is_nested:
        return None
    if column.type == "float":
        return pa.float32()
    return type_of(Column(column.name, column.type.upper()))


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of a result."""
    return pa.schema([(column.name, type_of(column)) for column in columns])


def no_rows(columns: Sequence[Column]) -> pa.RecordBatch:
    """An empty batch of a result."""
    return pa.RecordBatch.from_pylist([], schema=schema_of(columns))


def batch_of(columns: Sequence[Column], fetched: Fetched) -> pa.RecordBatch:
    """Some rows of a result. Raises ArrowInvalid for text that is not UTF-8."""
    arrays = [
        _array(column, got.values, got.nulls)
        for column, got in zip(columns, fetched.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def _array(column: Column, values: list[object], nulls: Bits) -> pa.Array[pa.Scalar[pa.DataType]]:
    kind = type_of(column)
    is_sent_as_text = kind not in _SENT_AS_THEY_ARE
    array = pa.array(values, pa.binary() if is_sent_as_text else kind)
    if nulls.any():
        # A null comes as an empty text or a zero, and its bit is set.
        valid = pa.py_buffer((~nulls).tobytes())
        array = pa.Array.from_buffers(array.type, len(array), [valid, *array.buffers()[1:]])
    if not is_sent_as_text:
        return array
    text = array.cast(pa.string())
    match column.type:
        case "CHAR":
            # CHAR(8) is filled up with blanks, which do not count.
            return pc.utf8_rtrim(text, " ")
        case "TIMESTAMP":
            return pc.utf8_slice_codeunits(text, 0, _TIMESTAMP_CHARACTERS).cast(kind)
    return text.cast(kind)
