"""Types of columns: from Spark to Arrow, and the other way round."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from idmatch._types import ArrowStream

INSTANT = pa.timestamp("us", "UTC")
"""A date of an observation in Spark, whose times are microseconds."""

SEEN_AT = pa.timestamp("ms", "UTC")
"""A date of an observation in idmatch. No column of Spark has this type."""


def outline(schema: StructType) -> pa.Schema:
    """The columns of a data frame. Their types are only as exact as the choice of columns needs."""
    return pa.schema([(field.name, outline_type(field.dataType)) for field in schema])


def outline_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a column that may have identifiers or dates; boolean for all others."""
    match kind:
        case ArrayType():
            return pa.list_(outline_type(kind.elementType))
        case StringType():
            return pa.string()
        case BinaryType():
            return pa.binary()
        case IntegralType():
            return pa.int64()
        case TimestampType() | TimestampNTZType():
            return INSTANT
        case DateType():
            return pa.date32()
    return pa.bool_()


def in_spark(schema: pa.Schema) -> pa.Schema:
    """The same columns as Spark takes them: nullable, and with its times."""
    return pa.schema(
        [pa.field(field.name, INSTANT if field.type == SEEN_AT else field.type) for field in schema]
    )


def batches(rows: ArrowStream, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    """The rows, streamed: these columns in their types, or all as Spark takes them."""
    reader = pa.RecordBatchReader.from_stream(rows)
    wanted = schema or in_spark(reader.schema)
    for batch in reader:
        yield batch.select(wanted.names).cast(wanted)
