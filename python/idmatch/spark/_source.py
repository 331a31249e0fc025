"""The data source `idmatch`: the class that Spark calls."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ._options import Options
from ._reader import Reader, schema_of
from ._writer import Writer

_OF_READS = (
    *("store", "table", "columns", "since", "until"),
    *("partitions", "keep", "pushdown"),
)
_OF_WRITES = (
    *("store", "table", "columns", "key", "date_format", "tz", "dated"),
    *("strict", "max_rejects", "wait"),
)


class DefaultSource(DataSource):
    """A table of a store. Spark makes one for each read and each write.

    Both take the options `store`, an absolute path or an address of servers, and `table`.

    Reads take `columns` ("id,seen_at"; all by default), `since`, `until`, `partitions` (the number
    of tasks; by default one for each million rows), `keep` of the checkpoint ("24h"), and
    `pushdown`, which needs Spark 4.1 and its setting spark.sql.python.filterPushdown.enabled.

    Writes take `columns`, in the order id, partner_id, seen_at; `key`, `date_format`, `tz`,
    `dated`, `strict` and `max_rejects` of `Table.load`; and `wait` ("10m"): how long the commit
    waits for another process that writes the store.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "idmatch"

    def schema(self) -> StructType:
        """The columns of a read. None of their values is null."""
        return schema_of(Options(self.options, _OF_READS, "a read").columns)

    def reader(self, schema: StructType) -> Reader:
        """Plans a read; called once for each query. A user's schema can choose columns, too."""
        options = Options(self.options, _OF_READS, "a read")
        if not options.flag("pushdown"):
            return Reader(options, schema)
        # Spark 4.0 has no filters, and without its setting Spark refuses a reader that takes them.
        from ._pushdown import PushingReader

        return PushingReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        """Begins a write; called once for each."""
        return Writer(Options(self.options, _OF_WRITES, "a write"), schema, overwrite)
