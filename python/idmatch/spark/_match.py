"""Matches of data frames: Spark's partitions, in large batches, each against the whole table."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from idmatch._carry import Carry
from idmatch._errors import InvalidArgument
from idmatch._hops import Then
from idmatch._job_match import JobMatch
from idmatch._places import one_version, opened
from idmatch._times import Moment
from idmatch._types import By, How, Pick

from ._types import SEEN_AT, batches, outline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A match of a million ids reads large tables in few passes, and holds about 100 MB of memory.
_BATCH_ROWS = 1_000_000
# Carried columns may be wide.
_BATCH_BYTES = 256 << 20


def match(
    df: "DataFrame",
    store: str,
    table: str,
    *,
    column: str | None = None,
    by: By = "id",
    pick: Pick = "all",
    limit: int | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    carry: Sequence[str] | Literal["all"] = (),
    how: How = "inner",
    then: Then = (),
    with_hops: bool = False,
    keep: str = "24h",
    batch_rows: int = _BATCH_ROWS,
) -> "DataFrame":
    """Finds the matches of every identifier of a data frame, as `Table.match` does.

    The result is a lazy data frame: `id` or `partner_id` of the population, in its type; the other
    identifier (string), `seen_at` (timestamp), and the carried columns. Only the columns that are
    needed go to Python. Nothing is shuffled: each partition is matched in batches of about
    `batch_rows` rows, whatever Spark's batches are, or of 256 MiB if rows are wide.

    `store` is an absolute path, which all workers see, or an address of servers. In a directory,
    all tasks read one checkpoint, made by this call: a task that runs twice answers alike, and so
    does every action on the result within `keep` ("1m" to "7d"). Later a task raises Expired. The
    checkpoint still shows rows that are erased after the call. On servers rows are read as they
    are.

    Arguments from `column` to `with_hops` are those of `Table.match`. Times before now ("90d")
    count from this call. A batch without any identifier is no error here: it has no matches.

    Raises InvalidArgument for a wrong argument or column, TableNotFound, NotAStore, and what
    `Store.checkpoint` raises; from tasks, what `Table.match` raises.
    """
    if batch_rows < 1:
        raise InvalidArgument(f"batch_rows is {batch_rows}; use 1 or more")
    question = JobMatch.of_now(by, pick, limit, since, until, how, then, with_hops)
    side = question.by
    with one_version(store, keep) as (there, place):
        # A population without rows: the result has its columns, and each argument is checked.
        none = outline(df.schema).empty_table()
        found = question.ask(there.table(table), none, column, carry)
        schema = pa.RecordBatchReader.from_stream(found).schema
    (column,) = found.columns
    carried = Carry(carry).choose(df.columns, {side: column}, "the data frame")
    # Spark takes a dot in a name for a field of a struct: columns have numbers as names meanwhile.
    numbers = [str(at) for at in range(len(carried))]
    names = dict(zip([side, *numbers], [column, *carried.values()], strict=True))
    population = df.select([F.col(_quoted(name)).alias(alias) for alias, name in names.items()])

    def matched(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = opened(place).table(table)
        for batch in _collected(parts, batch_rows):
            yield from batches(question.ask_batch(asked, batch, side, numbers))

    own = [
        StructField(field.name, TimestampType() if field.type == SEEN_AT else StringType())
        for field in list(schema)[: len(schema) - len(carried)]
    ]
    types = [StructField(name, population.schema[name].dataType) for name in numbers]
    result = population.mapInArrow(matched, StructType(own + types)).toDF(*schema.names)
    return _typed(result, population.schema[side].dataType)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _collected(parts: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """The same rows in larger batches."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for part in parts:
        waiting.append(part)
        count += part.num_rows
        size += part.nbytes
        if count >= rows or size >= _BATCH_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, count, size = [], 0, 0
    if count:
        yield pa.Table.from_batches(waiting)


def _typed(result: "DataFrame", kind: DataType) -> "DataFrame":
    """The result with identifiers in the type of the population, whose lists are exploded."""
    if isinstance(kind, ArrayType):
        kind = kind.elementType
    if isinstance(kind, StringType):
        return result
    first, *others = map(_quoted, result.columns)
    return result.select(F.col(first).cast(kind), *others)
