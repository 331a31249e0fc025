"""The columns of a file as the table declares them that it is a file of.

Invariant: a column has the values that the table's own engine, Hive, shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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
    """What a table says of one of its files."""

    format: str
    """ "parquet" or "orc"."""
    columns: Mapping[str, str]
    """The type of each column in HiveQL, by its name, in the order of the table."""
    partition: Mapping[str, str | None]
    """The columns that have one text in all rows, or null."""


def columns_of(
    declared: Declared, fragment: ds.Fragment
) -> tuple[pa.Schema, dict[str, ds.Expression]]:
    """The schema of a table's file, and how each column is read. Those that the file lacks are
    null.

    Raises SourceError for a file with two columns whose names differ by case alone.
    """
    schema = fragment.physical_schema
    zone = _zone_of(fragment)
    fields = list[tuple[str, pa.DataType]]()
    expressions = dict[str, ds.Expression]()
    for at, (name, kind) in enumerate(declared.columns.items()):
        there = _named(schema, name, at)
        if there is None:
            read, type_ = constant(None), pa.string()
        else:
            read, type_ = ds.field(there), schema.field(there).type
            if zone and types.is_timestamp(type_) and _is_int96(fragment, there):
                # Hive has shifted what it shows to UTC.
                read = pc.local_timestamp(read.cast(pa.timestamp("ns", zone)))
            elif kind.startswith("char(") and types.is_string(type_):
                read = pc.utf8_rtrim(read, " ")
        fields.append((name, type_))
        expressions[name] = read
    for name, text in declared.partition.items():
        fields.append((name, pa.string()))
        expressions[name] = constant(text)
    return pa.schema(fields), expressions


def constant(text: str | None) -> ds.Expression:
    """A column of this text, or of nulls."""
    return pc.scalar(pa.scalar(text, pa.string()))  # type: ignore[arg-type]


def _named(schema: pa.Schema, name: str, at: int) -> str | None:
    """The column of a file that a column of the table is: Hive's names are in lower case."""
    if schema.names and all(each.startswith(_UNNAMED) for each in schema.names):
        return schema.names[at] if at < len(schema.names) else None
    found = [each for each in schema.names if each.lower() == name.lower()]
    if len(found) > 1:
        raise SourceError(f"it has two columns {name!r}; name one of them otherwise")
    return found[0] if found else None


def _zone_of(fragment: ds.Fragment) -> str | None:
    """The time zone of a server that has written local times as UTC."""
    if not isinstance(fragment, ds.ParquetFileFragment):
        return None
    zone = (fragment.metadata.metadata or {}).get(b"writer.time.zone", b"").decode()
    return None if zone in _UTC else zone or None


def _is_int96(fragment: ds.Fragment, name: str) -> bool:
    if not isinstance(fragment, ds.ParquetFileFragment):
        return False
    schema = fragment.metadata.schema
    return any(
        schema.column(at).path == name and schema.column(at).physical_type == "INT96"
        for at in range(len(schema))
    )
