"""Columns of lists: makes a row of each value, and knows which row of the source it comes from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from idmatch._errors import InvalidArgument

_List: TypeAlias = "pa.ListType[Any] | pa.LargeListType[Any] | pa.FixedSizeListType[Any, Any]"


def is_list(kind: pa.DataType) -> TypeGuard[_List]:
    """Whether a column of this type has several values a row."""
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, of lists and of others."""
    return kind.value_type if is_list(kind) else kind


class RowNumbers:
    """Which row of a source each exploded row comes from. Cost: 8 bytes for each exploded row."""

    def __init__(self) -> None:
        # For each batch: the exploded rows before it, the rows before it, and the row in the batch
        # of each of its exploded rows.
        self._starts: list[int] = []
        self._rows_before: list[int] = []
        self._parents: list[pa.Int64Array | None] = []
        self._exploded = 0
        self.rows = 0
        """Rows noted so far."""

    def add(self, parents: pa.Int64Array | None, rows: int) -> None:
        """Notes a batch of `rows` rows. `parents` has the row in the batch of each exploded row; it
        is None for a batch without lists.
        """
        if parents is not None or self._parents[-1:] != [None]:
            self._starts.append(self._exploded)
            self._rows_before.append(self.rows)
            self._parents.append(parents)
        self._exploded += rows if parents is None else len(parents)
        self.rows += rows

    def of(self, exploded: int) -> int:
        """The number of the row that an exploded row comes from. Both numbers count from 1."""
        if not self._starts:
            return exploded
        at = bisect_right(self._starts, exploded - 1) - 1
        within, parents = exploded - 1 - self._starts[at], self._parents[at]
        if parents is not None:
            within = parents[within].as_py()
        return self._rows_before[at] + within + 1


def explode(
    columns: Sequence[pa.Array[Any]], numbers: RowNumbers, roles: int
) -> Sequence[pa.Array[Any]]:
    """A row for each value of the one column of lists among the first `roles`, as SQL's UNNEST
    makes them: none for an empty list or a null one.

    Raises InvalidArgument for two such columns.
    """
    lists = [at for at, column in enumerate(columns[:roles]) if is_list(column.type)]
    if not lists:
        numbers.add(None, len(columns[0]))
        return columns
    if len(lists) > 1:
        raise InvalidArgument("two columns have lists; one is exploded, write the other one out")
    parents = pc.list_parent_indices(columns[lists[0]])
    numbers.add(parents, len(columns[lists[0]]))
    return [
        pc.list_flatten(column) if at == lists[0] else column.take(parents)
        for at, column in enumerate(columns)
    ]
