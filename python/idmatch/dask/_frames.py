"""Data frames of Dask and pandas, and the Arrow tables that the package reads and gives."""

from collections.abc import Hashable
from uuid import uuid4

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa

from idmatch._errors import InvalidArgument
from idmatch._places import Place

_STRING = pd.StringDtype("pyarrow")
_TEXT = (pa.string(), pa.large_string(), pa.string_view())


def checked(frame: object) -> dd.DataFrame:
    """A data frame of Dask; raises InvalidArgument for anything else."""
    if not isinstance(frame, dd.DataFrame):
        kind = f"{type(frame).__module__}.{type(frame).__qualname__}"
        raise InvalidArgument(
            f"{kind} is no dask.dataframe.DataFrame; make one with dask.dataframe.read_parquet or "
            "from_pandas, or use the methods of idmatch.Table"
        )
    for name in frame.columns:
        if not isinstance(name, str):
            raise InvalidArgument(f"the column {name!r} has a name that is no text; rename it")
    return frame


def task_name(what: str, place: Place) -> str:
    """The name for Dask's dashboard. On servers it is unique: Dask must not reuse former rows."""
    # For fused tasks, Dask shows the part of the name before its first hyphen.
    return f"idmatch_{what}-{uuid4().hex}" if place.is_remote else f"idmatch_{what}"


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """The columns of a partition; the index is left out."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    # A column of objects has no type where the frame has no rows.
    text = [
        field.with_type(pa.string()) if pa.types.is_null(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(text))


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Rows as a partition of a data frame. Text is `string[pyarrow]`, as Dask has it. Integers keep
    Arrow's types, so that nulls beside them do not round them.
    """

    def kind(type: pa.DataType) -> pd.api.extensions.ExtensionDtype | None:
        if type in _TEXT:
            return _STRING
        return pd.ArrowDtype(type) if pa.types.is_integer(type) else None

    return table.to_pandas(types_mapper=kind, ignore_metadata=True)


def with_types_of(
    result: pd.DataFrame, population: pd.DataFrame, carried: dict[str, str]
) -> pd.DataFrame:
    """The result with carried columns in the types of the population; `carried` has their names
    there.
    """
    types: dict[Hashable, object] = {
        alias: population.dtypes[name]
        for alias, name in carried.items()
        if not isinstance(population.dtypes[name], pd.CategoricalDtype)
    }
    return result.astype(types)
