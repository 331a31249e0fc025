"""Sources of loads and matches as data frames: each task reads a file."""

from collections.abc import Sequence

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa

from idmatch._carry import Carry
from idmatch._sources import File, Opened, Wanted, find
from idmatch._sources import Source as Found
from idmatch._types import Source

from ._frames import to_pandas

_ROWS_OF_A_PARTITION = 1_000_000


def read_source(source: Source, *, columns: Sequence[str] | None = None) -> dd.DataFrame:
    """The rows of a source that `Table.load` takes: files, also of HDFS, tables and queries of
    Hive.

    Lazy for files: each is a partition, which a worker reads, in the columns that the job uses. So
    all workers read a table of Hive at once, if its files can be read as its rows. This call reads
    any other source, such as a query, and holds it in memory. Text is `string[pyarrow]`; all files
    have the columns of the first one.

    Raises SourceError if a source cannot be read, InvalidArgument for missing columns. A task
    raises SourceError, also for a file whose columns are of other types.
    """
    found = find(source)
    files = [each for each in found if isinstance(each, File)]
    frames = [_whole(each) for each in found if not isinstance(each, File)]
    if files:
        schema = _opened(files[0], None).reader.schema
        frames.append(
            dd.from_map(
                _read_file,
                files,
                args=[schema],
                meta=to_pandas(schema.empty_table()),
                label="idmatch_read_source",
            )
        )
    whole = frames[0] if len(frames) == 1 else dd.concat(frames)
    return whole if columns is None else whole[list(columns)]


def _whole(source: Found) -> dd.DataFrame:
    table = _read(source, None)
    return dd.from_pandas(
        to_pandas(table), npartitions=table.num_rows // _ROWS_OF_A_PARTITION + 1, sort=False
    )


def _read_file(file: File, schema: pa.Schema, columns: Sequence[str] | None = None) -> pd.DataFrame:
    wanted = schema.names if columns is None else list(columns)
    table = _read(file, wanted)
    return to_pandas(table.cast(pa.schema([schema.field(name) for name in wanted])))


def _read(source: Found, columns: Sequence[str] | None) -> pa.Table:
    opened = _opened(source, columns)
    table = opened.reader.read_all()
    opened.check()
    return table


def _opened(source: Found, columns: Sequence[str] | None) -> Opened:
    carry = Carry("all" if columns is None else columns)
    return source.open(Wanted({}, carry=carry), None)
