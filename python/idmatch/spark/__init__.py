"""Spark 4: match data frames, and read and write tables as the data source `idmatch`.

    import idmatch.spark

    matched = idmatch.spark.match(population, "/data/store", "crm", column="cookie")
    rows = spark.read.format("idmatch").options(store="/data/store", table="crm").load()
    frame.write.format("idmatch").options(store="/data/store", table="crm").mode("append").save()

The Python of the driver and the Python of all workers need this package. A store in a directory
must be at the same path for all of them. docs/how-to/spark.md has an example and all options.

Importing this raises MissingExtra without PySpark 4.
"""

from idmatch._errors import MissingExtra

try:
    import pyspark.sql.datasource  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        "idmatch.spark needs PySpark 4; "
        "install idmatch with its extra 'spark': in a checkout, pip install '.[spark]'"
    ) from error

from ._match import match
from ._source import DefaultSource

__all__ = ["DefaultSource", "match"]
