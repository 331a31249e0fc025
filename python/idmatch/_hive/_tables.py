"""A table as Hive describes it: its columns, and where its files are.

Invariant: `folders` gives folders only if their files hold all rows of the table, and no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from ._place import Place, literal, quoted
from ._server import Server, StatementError
from ._values import Column

_FORMATS = {
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat": "parquet",
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat": "orc",
}
_WITH_FILES = ("MANAGED_TABLE", "EXTERNAL_TABLE")
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# Characters that Hive writes as %XX in names of folders.
_ESCAPED = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_COLUMNS, _PARTITION, _DETAILS = "columns", "partition", "details"


class Unfit(Exception):
    """Why the files of a table cannot be read in place of its rows: the end of a sentence."""


class Folder(NamedTuple):
    """A folder with files of a table."""

    location: str
    format: str
    """ "parquet" or "orc"."""
    partition: Mapping[str, str | None]
    """The values of the partition's columns."""


class Table(NamedTuple):
    """A table or a view."""

    columns: Sequence[Column]
    """The columns in its files; types as HiveQL writes them, such as varchar(20)."""
    partition_columns: Sequence[Column]
    details: Mapping[str, str]
    """The details of DESCRIBE FORMATTED, by names in lower case: location, inputformat."""

    @property
    def location(self) -> str:
        """The address of its folder."""
        return self.details.get("location", "")

    @property
    def format(self) -> str:
        """The format of its files. Raises Unfit if the files cannot be read as its rows."""
        kind = self.details.get("table type", "")
        if kind not in _WITH_FILES:
            raise Unfit(f"it is a {kind}" if kind else "the server does not say what it is")
        if self.details.get("transactional", "").lower() == "true":
            raise Unfit("it is transactional: its files also have rows that were deleted")
        if "storage_handler" in self.details:
            raise Unfit("its rows are in another system")
        name = self.details.get("inputformat", "")
        if name not in _FORMATS:
            raise Unfit(f"its files are read by {name or 'a program that Hive does not name'}")
        return _FORMATS[name]


def table_of(server: Server, place: Place) -> Table:
    """Asks for a table. Raises StatementError where there is none, and SourceError."""
    return _parsed(server.ask(f"DESCRIBE FORMATTED {place.quoted}"))


def folders(server: Server, place: Place, table: Table) -> Iterator[Folder]:
    """The folders with the rows of a table. Cost: one statement for each partition.

    Raises Unfit if the files cannot be read as its rows.
    """
    kind = table.format
    if not table.partition_columns:
        yield Folder(table.location, kind, {})
        return
    for values in partitions(server, place):
        described = _described(server, place, values)
        if described.format != kind:
            raise Unfit(f"its partitions are of two formats, {kind} and {described.format}")
        shown = {key: None if value == _NULL_PARTITION else value for key, value in values.items()}
        yield Folder(described.location, kind, shown)


def partitions(server: Server, place: Place) -> list[dict[str, str]]:
    """The values of each partition, by the names of the columns. Raises Unfit."""
    try:
        found = server.ask(f"SHOW PARTITIONS {place.quoted}")
    except StatementError as error:
        raise Unfit(f"its partitions cannot be listed: {error}") from None
    return [
        {
            key: unquote(value)
            for key, _, value in (part.partition("=") for part in row[0].split("/"))
        }
        for row in found
    ]


def location_of(server: Server, place: Place, values: Mapping[str, str]) -> str | None:
    """The address of a partition's folder; None where the server knows no such partition. Hive
    compares values, not texts: `01` of an `int` is `1`.
    """
    try:
        found = _described(server, place, values)
    except Unfit:
        return None
    # Hive raises no error for a value that its type does not have: it describes no partition.
    is_partition = any(key.startswith("partition value") for key in found.details)
    return (is_partition and found.location) or None


def folder_name(values: Mapping[str, str]) -> str:
    """The path of a partition's folder below the table's folder, as Hive names it."""
    return "/".join(f"{_escaped(key)}={_escaped(value)}" for key, value in values.items())


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def clause(values: Mapping[str, str]) -> str:
    """A partition in HiveQL."""
    parts = [f"{quoted(key)}={literal(value)}" for key, value in values.items()]
    return f"PARTITION ({', '.join(parts)})"


def _described(server: Server, place: Place, values: Mapping[str, str]) -> Table:
    try:
        found = _parsed(server.ask(f"DESCRIBE FORMATTED {place.quoted} {clause(values)}"))
    except StatementError as error:
        raise Unfit(f"a partition of it cannot be described: {error}") from None
    # Hive does not repeat the table type for a partition.
    return found._replace(details={"table type": _WITH_FILES[0], **found.details})


def _parsed(rows: Sequence[tuple[str, ...]]) -> Table:
    columns = list[Column]()
    partition_columns = list[Column]()
    details = dict[str, str]()
    section = _COLUMNS
    for row in rows:
        name, value, more = (text.strip() for text in (*row, "", "")[:3])
        if name.startswith("#"):
            if name == "# Partition Information":
                section = _PARTITION
            elif name != "# col_name":
                section = _DETAILS
        elif section == _DETAILS:
            # Parameters have their name in the second column.
            key, said = (name.rstrip(":"), value) if name else (value, more)
            details.setdefault(key.lower(), said)
        elif name:
            (columns if section == _COLUMNS else partition_columns).append(Column(name, value))
    names = {column.name for column in partition_columns}
    return Table([each for each in columns if each.name not in names], partition_columns, details)
