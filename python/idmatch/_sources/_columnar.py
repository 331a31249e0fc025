"""Parquet and ORC files as streams of the columns that are wanted."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from idmatch._errors import SourceError

from ._columns import Wanted, project
from ._declared import Declared, columns_of, constant
from ._source import Opened

_BATCH_ROWS = 1 << 17
_BATCHES_AHEAD = 8
_READ_BUFFER_BYTES = 8 << 20
_MAX_SCANNED_GROUP_ROWS = 1 << 22

FORMATS: Mapping[str, type[ds.FileFormat]] = {
    "parquet": ds.ParquetFileFormat,
    "orc": ds.OrcFileFormat,
}


def open_columnar(
    kind: str,
    filesystem: FileSystem,
    path: str,
    name: str,
    wanted: Wanted,
    partition: Mapping[str, str | None],
    declared: Declared | None = None,
) -> Opened:
    """Streams a file's wanted columns; `partition` holds those that its path gives. Of a file of a
    table, the columns are those that it declares.

    Rows come in the file's order, decoded by Arrow's threads without the GIL. In the end they are
    counted: a file that is cut off while it is read just ends for some of Arrow's readers.
    """
    fragment = FORMATS[kind]().make_fragment(path, filesystem=filesystem)
    schema = fragment.physical_schema
    constants = {key: value for key, value in partition.items() if key not in schema.names}
    visible = pa.schema([*schema, *(pa.field(key, pa.string()) for key in constants)])
    if declared is not None:
        visible, expressions = columns_of(declared, fragment)
    else:
        expressions = {column: ds.field(column) for column in schema.names}
        expressions |= {column: constant(text) for column, text in constants.items()}
    chosen = wanted.choose(visible, name, kind)
    expected = _footer_rows(kind, fragment, filesystem, path)
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

    if _largest_group_rows(fragment) > _MAX_SCANNED_GROUP_ROWS and declared is None:
        columns = [column for column in chosen.values() if column not in constants]
        batches = _batches_within_groups(filesystem, path, columns)
        return Opened(project(batches, schema, chosen, constants, numbers, roles), check)
    reader = ds.Scanner.from_fragment(
        fragment,
        schema=schema,
        columns={role: expressions[column] for role, column in chosen.items()},
        batch_size=_BATCH_ROWS,
        batch_readahead=_BATCHES_AHEAD,
        fragment_scan_options=_scan_options(kind, filesystem),
    ).to_reader()
    read = {role: role for role in chosen}
    return Opened(project(reader, reader.schema, read, {}, numbers, roles), check)


def _footer_rows(kind: str, fragment: ds.Fragment, filesystem: FileSystem, path: str) -> int:
    if isinstance(fragment, ds.ParquetFileFragment):
        return int(fragment.metadata.num_rows)
    return footer_rows(kind, filesystem, path)


def footer_rows(kind: str, filesystem: FileSystem, path: str) -> int:
    """The rows of a Parquet or an ORC file, as its footer says."""
    with filesystem.open_input_file(path) as file:
        if kind == "orc":
            return int(orc.ORCFile(file).nrows)
        return int(pq.ParquetFile(file).metadata.num_rows)


def _scan_options(kind: str, filesystem: FileSystem) -> ds.FragmentScanOptions | None:
    if kind != "parquet":
        return None
    # Coalesced reads hide a network's latency; a local file is read in pieces, in less memory.
    local = isinstance(filesystem, LocalFileSystem)
    return ds.ParquetFragmentScanOptions(
        pre_buffer=not local, use_buffered_stream=local, buffer_size=_READ_BUFFER_BYTES
    )


def _largest_group_rows(fragment: ds.Fragment) -> int:
    if not isinstance(fragment, ds.ParquetFileFragment):
        return 0
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
