"""Which column of a source plays which role: named by the user, or guessed if just one fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import types

from idmatch._carry import Carry
from idmatch._csv_options import Csv
from idmatch._errors import InvalidArgument
from idmatch._results import Detected
from idmatch._text import looks_like_value, shown, shown_column

from ._checked import checked
from ._lists import RowNumbers, explode, is_list, value_type

_MAX_BATCH_ROWS = 1 << 18

_USUAL_NAMES = {
    "id": {"id", "ownid", "cookie", "cookieid", "owncookie", "userid", "email"},
    "partner_id": {"partnerid", "partneruid", "partnercookie", "partner", "externalid"},
    "seen_at": {"seenat", "lastseen", "lastseenat", "date", "datetime", "time", "timestamp", "ts"},
}

# The columns of the first schemas: services upsert small batches of one schema.
_REMEMBERED = 64
_remembered: dict[tuple[object, ...], dict[str, str]] = {}


class Wanted:
    """The columns to read, and the columns that the sources turned out to have.

    Takes the roles to fill ("id", "partner_id", "seen_at"), each with a column's name, or None to
    guess it; roles that have one text in all rows; how CSV is written; and which other columns are
    carried.
    """

    def __init__(
        self,
        names: Mapping[str, str | None],
        constants: Mapping[str, str] | None = None,
        csv: Csv | None = None,
        date_format: str | None = None,
        carry: Carry | None = None,
    ) -> None:
        self._names = names
        self._carry = carry or Carry()
        self._date_format = date_format
        self.constants = constants or {}
        self.csv = csv or Csv()
        if csv:
            csv.check()
        self.chosen: dict[str, list[str]] = {role: [] for role in names}
        """The columns that played each role; several if sources differ, none before a read."""
        self.hex_columns: list[str] = []
        """The chosen columns of fixed-size binary: the core reads them as lowercase hex."""
        self.detected: list[Detected] = []
        """How the sources are written, each way once."""
        self.numbers: defaultdict[str, RowNumbers] = defaultdict(RowNumbers)
        """For each source, by its name: the rows that its exploded rows come from."""

    @property
    def roles(self) -> Sequence[str]:
        """The roles to fill."""
        return list(self._names)

    def guesses(self, role: str) -> bool:
        """Whether the column of a role is guessed."""
        return self._names.get(role) is None

    def choose(
        self,
        schema: pa.Schema,
        source: str,
        format: str,
        delimiter: str | None = None,
    ) -> dict[str, str]:
        """`columns_of` a source; notes the columns and the format of the source."""
        chosen = self.columns_of(schema, source)
        self.note(schema, chosen, format, delimiter)
        return chosen

    def columns_of(self, schema: pa.Schema, source: str) -> dict[str, str]:
        """The name of each role's column in a source of this schema, then those of the carried
        columns under their new names.

        A column without a name is guessed: by a usual name of its role and, failing that, by its
        type. Exactly one column must fit that no other role has taken.

        Raises InvalidArgument, which lists the columns, when one is missing or ambiguous.
        """
        # Bytes: not every type of a column has a hash.
        key = (*self._names.items(), schema.serialize().to_pybytes())
        chosen = _remembered.get(key)
        if chosen is None:
            chosen = _choose(self._names, schema, source)
            if len(_remembered) < _REMEMBERED:
                _remembered[key] = chosen
        return chosen | self._carry.choose(schema.names, chosen, source)

    def note(
        self,
        schema: pa.Schema,
        chosen: Mapping[str, str],
        format: str,
        delimiter: str | None = None,
        why: str | None = None,
    ) -> None:
        """Notes the columns that a source turned out to have, and how it is written."""
        fields = {field.name: field for field in schema}
        for role in self._names:
            name = chosen[role]
            if name not in self.chosen[role]:
                self.chosen[role].append(name)
            is_hex = name in fields and _is_hex(fields[name])
            if is_hex and name not in self.hex_columns:
                self.hex_columns.append(name)
        dates = chosen["seen_at"] if "seen_at" in self._names else None
        detected = Detected(
            format,
            delimiter,
            self.csv.encoding if format == "csv" else None,
            self._dates(fields[dates].type) if dates is not None else None,
            why,
        )
        if detected not in self.detected:
            self.detected.append(detected)

    def _dates(self, kind: pa.DataType) -> str:
        return str(kind) if _is_date(kind) else self._date_format or "ISO 8601"


def project(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    chosen: Mapping[str, str],
    constants: Mapping[str, str | None],
    numbers: RowNumbers,
    roles: int,
) -> pa.RecordBatchReader:
    """The chosen columns of batches of `schema` under the names of their roles, checked, lists
    exploded.

    The first `roles` columns fill roles; the others are carried, and their lists are not exploded.
    A column that `schema` does not have is one of `constants`. Any column may have nulls, whatever
    its field says. Only lists and buffers that are not aligned are copied.
    """
    fields = [
        (_exploded(schema.field(name)) if at < roles else schema.field(name))
        .with_name(role)
        .with_nullable(True)
        if name in schema.names
        else pa.field(role, pa.string())
        for at, (role, name) in enumerate(chosen.items())
    ]

    def column(batch: pa.RecordBatch, name: str) -> pa.Array[Any]:
        if name in schema.names:
            return batch.column(name)
        return pa.repeat(pa.scalar(constants[name], pa.string()), batch.num_rows)

    def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        starts = range(0, batch.num_rows, _MAX_BATCH_ROWS)
        return (batch.slice(start, _MAX_BATCH_ROWS) for start in starts)

    def projected(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            checked(column(batch, name), is_judged=at < roles)
            for at, name in enumerate(chosen.values())
        ]
        return pa.RecordBatch.from_arrays(explode(columns, numbers, roles), schema=out)

    out = pa.schema(fields)
    # A loop's variable would hold the memory of a batch, up to a row group, while the next is read.
    each = map(projected, chain.from_iterable(map(slices, batches)))
    return pa.RecordBatchReader.from_batches(out, each)


def with_constants(
    reader: pa.RecordBatchReader, constants: Mapping[str, str]
) -> pa.RecordBatchReader:
    """The same rows, and a column for each constant, with one text in all rows."""
    if not constants:
        return reader
    fields = [pa.field(role, pa.string()) for role in constants]
    out = pa.schema([*reader.schema, *fields])

    def extended(batch: pa.RecordBatch) -> pa.RecordBatch:
        more = [pa.repeat(text, batch.num_rows) for text in constants.values()]
        return pa.RecordBatch.from_arrays([*batch.columns, *more], schema=out)

    return pa.RecordBatchReader.from_batches(out, map(extended, reader))


def _choose(wanted: Mapping[str, str | None], schema: pa.Schema, source: str) -> dict[str, str]:
    chosen = {role: name for role, name in wanted.items() if name is not None}
    for role, name in chosen.items():
        if schema.names.count(name) != 1:
            count = schema.names.count(name) or "no"
            raise _unclear(
                f"{source} has {count} column(s) {shown(name)!r}, named for {role}", schema
            )
    # Usual names of all roles come first: fewer columns are then left to fit by type alone.
    for fits in (_has_usual_name, _has_usual_type):
        for role in wanted:
            if role in chosen:
                continue
            fitting = [
                field.name
                for field in schema
                if field.name not in chosen.values() and fits(role, field)
            ]
            if len(fitting) > 1:
                columns = ", ".join(map(shown_column, fitting))
                raise _unclear(f"{source} has several columns for {role} ({columns})", schema)
            if fitting:
                chosen[role] = fitting[0]
    for role in wanted:
        if role not in chosen:
            raise _unclear(f"{source} has no column that is plainly {role}", schema)
    return {role: chosen[role] for role in wanted}


def _unclear(what: str, schema: pa.Schema) -> InvalidArgument:
    columns = ", ".join(f"{shown_column(field.name)} ({field.type})" for field in schema)
    hint = "; CSV without a header is read with --no-header, in Python Csv(header=False)"
    has_values = any(map(looks_like_value, schema.names))
    return InvalidArgument(
        f"{what}; name one of its columns: {columns}{hint if has_values else ''}"
    )


def _has_usual_name(role: str, field: pa.Field[Any]) -> bool:
    name = field.name.lower().replace("_", "").replace("-", "").replace(" ", "")
    if name not in _USUAL_NAMES[role]:
        return False
    kind = value_type(field.type)
    if role == "seen_at":
        return _is_date(kind) or _is_text(kind) or types.is_integer(kind)
    return _is_text(kind) or types.is_integer(kind)


def _has_usual_type(role: str, field: pa.Field[Any]) -> bool:
    return _is_date(field.type) if role == "seen_at" else _is_text(field.type)


def _exploded(field: pa.Field[Any]) -> pa.Field[Any]:
    """The field of a column after its lists are exploded."""
    return field.type.value_field if is_list(field.type) else field


def _is_date(kind: pa.DataType) -> bool:
    return types.is_timestamp(kind) or types.is_date(kind)


def _is_hex(field: pa.Field[Any]) -> bool:
    """Whether the core reads the identifiers of this column as hex: fixed-size binary, no UUIDs."""
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if not types.is_fixed_size_binary(kind):
        return False
    return (field.metadata or {}).get(b"ARROW:extension:name") != b"arrow.uuid"


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text or UUIDs, in any of Arrow's forms."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
        or isinstance(kind, pa.UuidType)
    )
