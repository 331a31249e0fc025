"""Writes results as partitions of Hive's tables: first the files in the folder, then the partition.

Invariants: a partition that others see is whole. After an exception other than UnknownOutcome and
KeyboardInterrupt nothing is left; a killed process may leave a folder that is no partition.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from . import _remote_outputs
from ._address import Address
from ._errors import InvalidArgument, IoError, UnknownOutcome
from ._lazy import LazyModule
from ._remote_targets import target_of
from ._target import exists
from ._types import ArrowStream

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from . import _hive
else:
    pa = LazyModule("pyarrow")
    pq = LazyModule("pyarrow.parquet")
    _hive = LazyModule("idmatch._hive")

_FILE = "000000_0"


class _Target(NamedTuple):
    """A partition, or a table without partitions."""

    location: str
    """Its folder, as Hadoop writes it."""
    is_there: bool
    columns: Mapping[str, _hive.Column]
    """The columns of its files, by name."""

    @property
    def url(self) -> str:
        """The URL of its folder, as `target_of` takes it."""
        if Address(self.location).is_hdfs:
            return self.location
        scheme, _, path = self.location.partition(":")
        path = quote(path.lstrip("/"))
        return f"{scheme}:///{path}" if scheme == "file" else f"{scheme}://{path}"


def check(address: str, partition: Mapping[str, str], *, overwrite: bool) -> None:
    """Checks that an output can be written, before the work.

    Raises InvalidArgument for a table that is not of Parquet, and for a partition with other
    columns than the table's. Raises it also for a partition that exists, unless `overwrite` is set.
    Raises IoError if a server refuses, and MissingExtra.
    """
    place = _place_of(address)
    with _writing(place) as server:
        _target(server, place, partition, overwrite)


def write(
    rows: ArrowStream, address: str, partition: Mapping[str, str], *, overwrite: bool
) -> tuple[int, float]:
    """Adds rows as a partition, or replaces one. No connection is open while rows are written.

    Returns the number of rows, and the reading of `time.monotonic` when all were read. Raises what
    `check` raises, InvalidArgument for columns that the table does not have, and UnknownOutcome if
    the connection breaks after the files are in place.
    """
    place = _place_of(address)
    with _writing(place) as server:
        target = _target(server, place, partition, overwrite)
    # The folder may have files of a process that was killed before it added the partition.
    replaces = overwrite and target_of(target.url).has_files()
    with _remote_outputs.new_folder(target.url, overwrite=replaces) as folder:
        count = _write_parquet(rows, os.path.join(folder, _FILE), target.columns, place)
        written = time.monotonic()
    clause = f" {_hive.clause(partition)}" if partition else ""
    try:
        with _writing(place) as server:
            if not target.is_there:
                server.run(f"ALTER TABLE {place.quoted} ADD{clause}")
                # Hive names the folder k=1 where the value is written 01.
                if _hive.location_of(server, place, partition) != target.location:
                    there = _hive.literal(target.location)
                    server.run(f"ALTER TABLE {place.quoted}{clause} SET LOCATION {there}")
            # Hive may answer a count from its statistics of the former files.
            with suppress(_hive.StatementError):
                noted = f"UPDATE STATISTICS SET ('numRows'='{count}')"
                server.run(f"ALTER TABLE {place.quoted}{clause} {noted}")
    except BaseException as error:
        if target.is_there or replaces or _may_have(place, partition):
            if not isinstance(error, Exception):
                raise
            what = (
                "has the rows, but may still count those before"
                if target.is_there
                else "may have the partition"
            )
            raise UnknownOutcome(
                f"{place.shown} {what}: {error}; look, and repeat with --overwrite (in Python "
                "overwrite=True)"
            ) from None
        with suppress(IoError):
            target_of(target.url).remove()
        raise
    return count, written


def _may_have(place: _hive.Place, partition: Mapping[str, str]) -> bool:
    """Whether a table has a partition. True also if the server does not tell."""
    try:
        with _writing(place) as server:
            return _hive.location_of(server, place, partition) is not None
    except (IoError, InvalidArgument):
        return True


def _place_of(address: str) -> _hive.Place:
    place = _hive.place_of(Address(address))
    if place.table is None:
        raise InvalidArgument(f"{place.shown} names no table; write hive://HOST/DATABASE/TABLE")
    return place


@contextmanager
def _writing(place: _hive.Place) -> Iterator[_hive.Server]:
    with _hive.Server(place, writes=True) as server:
        try:
            yield server
        except _hive.StatementError as error:
            raise IoError(f"cannot write {place.shown}: {error}") from None
        except _hive.Unfit as error:
            raise InvalidArgument(f"cannot write {place.shown}: {error}") from None


def _target(
    server: _hive.Server, place: _hive.Place, partition: Mapping[str, str], overwrite: bool
) -> _Target:
    table = _hive.table_of(server, place)
    if table.format != "parquet":
        raise _hive.Unfit("it is stored as ORC, and results are Parquet")
    names = [column.name for column in table.partition_columns]
    if list(partition) != names:
        raise InvalidArgument(
            f"{place.shown} has partitions by {', '.join(names)}; name a value of "
            "each, in this order: --partition COLUMN=VALUE, in Python partition={...}"
            if names
            else f"{place.shown} has no partitions; leave the partition out"
        )
    location, is_there = table.location, True
    if names:
        known = _hive.location_of(server, place, partition)
        location = known or f"{location}/{_hive.folder_name(partition)}"
        is_there = known is not None
    if is_there and not overwrite:
        raise exists(f"{place.shown} {_hive.folder_name(partition)}".rstrip())
    return _Target(location, is_there, {each.name: each for each in table.columns})


def _write_parquet(
    rows: ArrowStream, path: str, columns: Mapping[str, _hive.Column], place: _hive.Place
) -> int:
    """Writes rows as the table's columns of the same names, and counts them."""
    reader = pa.RecordBatchReader.from_stream(rows)
    fields = []
    for name in reader.schema.names:
        column = columns.get(name.lower())
        kind = column and _hive.file_type_of(column)
        if kind is None:
            raise InvalidArgument(
                f"{place.shown} has no column {name!r} that a result can have; its columns: "
                f"{', '.join(columns)}"
            )
        fields.append(pa.field(name.lower(), kind))
    schema, count = pa.schema(fields), 0
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for batch in reader:
            arrays = []
            for field, array in zip(schema, batch.columns, strict=True):
                try:
                    if isinstance(array.type, pa.TimestampType):
                        # Hive's times have no zone: an instant becomes its time in UTC.
                        array = array.cast(pa.timestamp(array.type.unit))
                    arrays.append(array.cast(field.type))
                except (pa.ArrowException, ValueError):
                    raise InvalidArgument(
                        f"a value of {field.name!r} ({array.type}) does not fit its column of "
                        f"{place.shown} ({columns[field.name].type}); carry it as another one"
                    ) from None
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            count += batch.num_rows
    return count
