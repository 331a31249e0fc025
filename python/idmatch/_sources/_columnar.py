"""Parquet and ORC files as streams of the columns that are wanted."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from idmatch._errors import SourceError

from ._checked import checked
from ._columns import Wanted, project
from ._declared import Columns, Declared, columns_of, expressions_of
from ._orc import OrcFile
from ._source import Opened

_BATCH_ROWS = 1 << 17
_BATCHES_AHEAD = 8
_READ_BUFFER_BYTES = 8 << 20
_MAX_SCANNED_GROUP_ROWS = 1 << 22


def open_columnar(
    kind: str,
    filesystem: FileSystem,
    path: str,
    name: str,
    wanted: Wanted,
    partition: Mapping[str, str | None],
    declared: Declared | None = None,
) -> Opened:
    """Streams the wanted columns of a file. `partition` has the columns that its path gives. With
    `declared`, the columns are those of the table that the file belongs to.

    Rows come in the file's order; Arrow's threads decode Parquet without the GIL. At the end rows
    are counted: some of Arrow's readers raise no error if a file is cut off while it is read.
    """
    file: OrcFile | ds.ParquetFileFragment
    if kind == "orc":
        file = OrcFile(filesystem, path)
        schema = file.schema
    else:
        fragment = ds.ParquetFileFormat().make_fragment(path, filesystem=filesystem)
        file = cast("ds.ParquetFileFragment", fragment)
        schema = file.physical_schema
    try:
        if declared is None:
            columns = _all_columns(schema, partition)
        else:
            columns = columns_of(declared, schema)
        chosen = wanted.choose(columns.schema, name, kind)
        expected = _rows_of(file)
    except BaseException:
        if isinstance(file, OrcFile):
            file.close()
        raise
    numbers, roles = wanted.numbers[name], len(wanted.roles)
    # The same file may be read twice.
    before = numbers.rows

    def check() -> None:
        read = numbers.rows - before
        if read != expected:
            raise SourceError(
                f"{name} has {read:,} rows, and {expected:,} by its footer: it is damaged, or "
                "changed while it was read; get the whole file and try again"
            )

    there = {role: columns.names.get(column, column) for role, column in chosen.items()}
    # A file may have a column with the name of a constant: the constant hides the column.
    taken = list(dict.fromkeys(there[role] for role in chosen if chosen[role] in columns.names))
    if isinstance(file, OrcFile):
        batches = _trimmed(file.batches(taken), columns.padded)
    elif _largest_group_rows(file) > _MAX_SCANNED_GROUP_ROWS and declared is None:
        batches = _batches_within_groups(filesystem, path, taken)
    else:
        expressions = expressions_of(columns, file, declared is not None)
        reader = ds.Scanner.from_fragment(
            file,
            schema=schema,
            columns={role: expressions[column] for role, column in chosen.items()},
            batch_size=_BATCH_ROWS,
            batch_readahead=_BATCHES_AHEAD,
            fragment_scan_options=_scan_options(filesystem),
        ).to_reader()
        same = {role: role for role in chosen}
        return Opened(project(reader, reader.schema, same, {}, numbers, roles), check)
    part = pa.schema([schema.field(column) for column in taken])
    return Opened(project(batches, part, there, columns.constants, numbers, roles), check)


def _all_columns(schema: pa.Schema, partition: Mapping[str, str | None]) -> Columns:
    """The columns of a file, and the columns that its path gives."""
    constants = {key: value for key, value in partition.items() if key not in schema.names}
    visible = pa.schema([*schema, *(pa.field(key, pa.string()) for key in constants)])
    return Columns(visible, {name: name for name in schema.names}, constants, frozenset())


def _trimmed(
    batches: Iterable[pa.RecordBatch], padded: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """The same batches, without the spaces at the ends of texts in the `padded` columns."""
    for batch in batches:
        for at, field in enumerate(batch.schema):
            if field.name in padded:
                texts = pc.utf8_rtrim(checked(batch.column(at), is_judged=False), " ")
                batch = batch.set_column(at, field, texts)
        yield batch


def _rows_of(file: OrcFile | ds.ParquetFileFragment) -> int:
    """The rows of an open file, as its footer says."""
    return file.rows if isinstance(file, OrcFile) else int(file.metadata.num_rows)


def footer_rows(kind: str, filesystem: FileSystem, path: str) -> int:
    """The rows of a Parquet or an ORC file, as its footer says."""
    if kind == "orc":
        file = OrcFile(filesystem, path)
        file.close()
        return file.rows
    with filesystem.open_input_file(path) as parquet:
        return int(pq.ParquetFile(parquet).metadata.num_rows)


def _scan_options(filesystem: FileSystem) -> ds.FragmentScanOptions:
    # Coalesced reads hide a network's latency; a local file is read in pieces, in less memory.
    local = isinstance(filesystem, LocalFileSystem)
    return ds.ParquetFragmentScanOptions(
        pre_buffer=not local, use_buffered_stream=local, buffer_size=_READ_BUFFER_BYTES
    )


def _largest_group_rows(fragment: ds.ParquetFileFragment) -> int:
    return max((group.num_rows for group in fragment.row_groups), default=0)


def _batches_within_groups(
    filesystem: FileSystem, path: str, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Reads huge row groups piece by piece; a scanner would hold several of them whole."""
    with (
        filesystem.open_input_file(path) as file,
        pq.ParquetFile(file, buffer_size=_READ_BUFFER_BYTES) as parquet,
    ):
        yield from parquet.iter_batches(_BATCH_ROWS, columns=columns)
