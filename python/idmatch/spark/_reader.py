"""Reads of a table: each task scans ranges of one version."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampType

from idmatch._errors import InvalidArgument
from idmatch._places import Place, one_version, opened
from idmatch._reads import check_columns
from idmatch._times import datetime_or_none, millis_or_none

from ._options import Options
from ._types import INSTANT, batches

_COLUMNS: dict[str, tuple[DataType, pa.DataType]] = {
    "id": (StringType(), pa.string()),
    "partner_id": (StringType(), pa.string()),
    "seen_at": (TimestampType(), INSTANT),
}

# A task of a million rows takes about a second, much longer than to start it.
_ROWS_PER_TASK = 1_000_000
# Servers do not tell how many rows there are.
_TASKS_OF_SERVERS = 64
_MOST_TASKS = 4_096


def schema_of(names: Sequence[str]) -> StructType:
    """The schema of a read of these columns, or of all without names. No value is null.

    Raises InvalidArgument for a column that tables do not have, and for one that is named twice.
    """
    if names:
        check_columns(names)
    return StructType([StructField(name, _COLUMNS[name][0], False) for name in names or _COLUMNS])


class Range(InputPartition):
    """The scan range that one task reads."""

    def __init__(
        self,
        place: Place,
        table: str,
        range: str,
        since: datetime | None,
        until: datetime | None,
    ) -> None:
        super().__init__(range)
        self.place = place
        self.table = table
        self.since = since
        self.until = until


class Reader(DataSourceReader):
    """Reads the columns of a schema. Spark pickles it, and calls `read` in each task.

    Raises InvalidArgument for a column that tables do not have, or not in this type, and if `since`
    or `until` is no point in time.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        for field, known in zip(schema, schema_of(schema.names), strict=True):
            if field.dataType != known.dataType:
                raise InvalidArgument(
                    f"column {field.name} is {known.dataType.simpleString()}, and "
                    f"{field.dataType.simpleString()} in the schema of the read"
                )
        self._options = options
        self._schema = pa.schema(
            [
                pa.field(field.name, _COLUMNS[field.name][1], nullable=field.nullable)
                for field in schema
            ]
        )
        # Periods such as "90d" count from the planning of the query.
        self._since = millis_or_none(options.text("since"))
        self._until = millis_or_none(options.text("until"))

    def partitions(self) -> Sequence[InputPartition]:
        """Makes the checkpoint, and divides the table; called once, by the driver.

        Raises what `Store.checkpoint` raises, and TableNotFound.
        """
        if self._since is not None and self._until is not None and self._since >= self._until:
            return []
        options = self._options
        window = (datetime_or_none(self._since), datetime_or_none(self._until))
        with one_version(options.store, options.text("keep") or "24h") as (store, place):
            table = store.table(options.table)
            size = table._core.size
            tasks = _TASKS_OF_SERVERS if size is None else size[0] // _ROWS_PER_TASK + 1
            ranges = table.scan_ranges(options.count("partitions") or min(tasks, _MOST_TASKS))
        return [Range(place, options.table, range, *window) for range in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range; called by each task.

        Raises Expired where the checkpoint is gone, NotAStore where this host does not see it.
        """
        if not isinstance(partition, Range):
            # Spark gives a partition of its own if `partitions` returned none.
            return
        table = opened(partition.place).table(partition.table)
        rows = table.scan_range(
            partition.value,
            since=partition.since,
            until=partition.until,
            columns=self._schema.names,
        )
        yield from batches(rows, self._schema)
