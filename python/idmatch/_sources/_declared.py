"""The columns of a file, as the table that it belongs to declares them.

Invariant: a column has the values that the table's own engine, Hive, shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import types

from idmatch._errors import SourceError

# Names that old writers of ORC give to columns.
_UNNAMED = "_col"
_UTC = ("UTC", "Z", "GMT", "Etc/UTC")


@dataclass(frozen=True)
class Declared:
    """The declaration of a table for one of its files."""

    format: str
    """ "parquet" or "orc"."""
    columns: Mapping[str, str]
    """The type of each column in HiveQL, by its name, in the order of the table."""
    partition: Mapping[str, str | None]
    """The columns that have one text in all rows, or null."""


class Columns(NamedTuple):
    """The visible columns of a file, and where their values come from."""

    schema: pa.Schema
    names: dict[str, str]
    """The name in the file of each column that the file has."""
    constants: dict[str, str | None]
    """For each other column, its text in all rows, or null."""
    padded: frozenset[str]
    """Columns of the file whose texts end with spaces that do not count."""


def columns_of(declared: Declared, schema: pa.Schema) -> Columns:
    """The columns that the table declares, in a file of this schema. A column that the file lacks
    is null.

    Raises SourceError for a file with two columns whose names differ by case alone.
    """
    fields = list[tuple[str, pa.DataType]]()
    names = dict[str, str]()
    constants = dict[str, str | None]()
    padded = set[str]()
    for at, (name, kind) in enumerate(declared.columns.items()):
        there = _named(schema, name, at)
        if there is None:
            constants[name] = None
            fields.append((name, pa.string()))
            continue
        names[name] = there
        type_ = schema.field(there).type
        fields.append((name, type_))
        if kind.startswith("char(") and types.is_string(type_):
            padded.add(there)
    for name, text in declared.partition.items():
        constants[name] = text
        fields.append((name, pa.string()))
    return Columns(pa.schema(fields), names, constants, frozenset(padded))


def expressions_of(
    columns: Columns, file: ds.ParquetFileFragment, is_declared: bool
) -> dict[str, ds.Expression]:
    """How Arrow reads each column of a Parquet file. If a table declares the columns, times are the
    times that Hive shows.
    """
    zone = _zone_of(file) if is_declared else None
    expressions = {name: _constant(text) for name, text in columns.constants.items()}
    for name, there in columns.names.items():
        read = ds.field(there)
        if zone and types.is_timestamp(columns.schema.field(name).type) and _is_int96(file, there):
            # Hive has written its local times shifted to UTC: shift them back.
            read = pc.local_timestamp(read.cast(pa.timestamp("ns", zone)))
        elif there in columns.padded:
            read = pc.utf8_rtrim(read, " ")
        expressions[name] = read
    return expressions


def _constant(text: str | None) -> ds.Expression:
    """A column of this text, or of nulls."""
    return pc.scalar(pa.scalar(text, pa.string()))  # type: ignore[arg-type]


def _named(schema: pa.Schema, name: str, at: int) -> str | None:
    """The file's column for a column of the table, by name or, in old ORC files, by position.

    Names match in upper and lower case: Hive's names are in lower case.
    """
    if schema.names and all(each.startswith(_UNNAMED) for each in schema.names):
        return schema.names[at] if at < len(schema.names) else None
    found = [each for each in schema.names if each.lower() == name.lower()]
    if len(found) > 1:
        raise SourceError(f"it has two columns {name!r}; name one of them otherwise")
    return found[0] if found else None


def _zone_of(file: ds.ParquetFileFragment) -> str | None:
    """The time zone of a server that has written local times as UTC."""
    zone = (file.metadata.metadata or {}).get(b"writer.time.zone", b"").decode()
    return None if zone in _UTC else zone or None


def _is_int96(file: ds.ParquetFileFragment, name: str) -> bool:
    schema = file.metadata.schema
    return any(
        schema.column(at).path == name and schema.column(at).physical_type == "INT96"
        for at in range(len(schema))
    )
