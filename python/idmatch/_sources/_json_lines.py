"""JSON lines: one object a line, as rows of text that the core judges."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from idmatch._errors import Error, SourceError

from ._columns import Wanted
from ._lists import explode
from ._records import Readable, arrivals, lines
from ._source import OnMalformed, reading

_MAX_NUMBER_BITS = 8_192

_Value = str | None | list[str | None]


class JsonLines:
    """Reads objects, and counts them."""

    def __init__(
        self,
        stream: Readable,
        name: str,
        wanted: Wanted,
        on_malformed: OnMalformed | None,
        partition: Mapping[str, str | None] | None = None,
    ) -> None:
        """Without `on_malformed` a line that is no object is an error; `partition` holds the
        columns that the path gives.
        """
        self._stream = stream
        self._name = name
        self._wanted = wanted
        self._on_malformed = on_malformed
        self._partition = dict(partition or {})
        self._chosen: dict[str, str] | None = None
        self.rows = 0
        """Lines read, without empty ones."""

    def read(self) -> Iterator[pa.Table | None]:
        """Yields the rows that have arrived, until the end. None stands for malformed lines only.

        Raises SourceError if the bytes cannot be read, and for a malformed line that ends the read;
        InvalidArgument when the first object lacks a column.
        """
        whole = lines(arrivals(self._stream, None), self._name)
        while True:
            with reading(self._name):
                arrived = next(whole, None)
            if arrived is None:
                return
            yield self._rows_of(arrived)

    def _rows_of(self, whole: bytes) -> pa.Table | None:
        """The rows of some whole lines; None if no line is a row."""
        found: list[tuple[_Value, ...]] = []
        for line in whole.split(b"\n"):
            if not line.strip():
                continue
            self.rows += 1
            row, reason = _object(line)
            if row is not None:
                try:
                    found.append(self._values(self._partition | row if self._partition else row))
                    continue
                except ValueError as error:
                    if isinstance(error, Error):
                        raise
                    reason = str(error)
            if self._on_malformed is None or not self._on_malformed(self._name, self.rows, reason):
                raise SourceError(f"{self._name}, row {self.rows}: {reason}")
        if not found or self._chosen is None:
            return None
        columns = [_column(values) for values in zip(*found, strict=True)]
        exploded = explode(columns, self._wanted.numbers[self._name], len(self._wanted.roles))
        return pa.table(dict(zip(self._chosen, exploded, strict=True)))

    def _values(self, row: dict[str, Any]) -> tuple[_Value, ...]:
        if self._chosen is None:
            schema = pa.schema([(name, _type(value)) for name, value in row.items()])
            self._chosen = self._wanted.choose(schema, self._name, "json lines")
        roles = len(self._wanted.roles)
        return tuple(
            _value(role, row.get(name)) if at < roles else _carried(row.get(name))
            for at, (role, name) in enumerate(self._chosen.items())
        )


def _type(value: object) -> pa.DataType:
    return pa.list_(pa.string()) if isinstance(value, list) else pa.string()


def _column(values: tuple[_Value, ...]) -> "pa.Array[Any]":
    """A column of text, or of lists of text if any value is a list."""
    if not any(isinstance(value, list) for value in values):
        return pa.array(values, pa.string())
    as_lists = [value if isinstance(value, list) else [value] for value in values]
    return pa.array(as_lists, pa.list_(pa.string()))


def _object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object on a line, or None and why there is none."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return None, f"is no JSON object: {error}"
    return (row, "") if isinstance(row, dict) else (None, "is no JSON object")


def _value(role: str, value: Any) -> _Value:
    """A value as text; the core judges numbers as it does those of other sources."""
    if isinstance(value, list):
        return [_text(role, each) for each in value]
    return _text(role, value)


def _carried(value: Any) -> str | None:
    """A carried value as text, which the core does not judge. Other values are written as JSON."""
    if value is None or isinstance(value, str):
        return _text("", value)
    return json.dumps(value, ensure_ascii=False)


def _text(role: str, value: Any) -> str | None:
    if isinstance(value, str):
        # Raises ValueError for text that is no valid Unicode: Arrow's text cannot hold it.
        value.encode()
        return value
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return _digits(value)
    raise ValueError(f"has neither text nor a whole number for {role}")


def _digits(number: int) -> str:
    # Python does not write very long numbers as text.
    if number.bit_length() > _MAX_NUMBER_BITS:
        raise ValueError("has a number that is too large")
    return str(number)
