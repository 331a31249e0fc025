"""Registers the data source `idmatch`: Spark imports modules whose name begins with "pyspark_".

    spark.read.format("idmatch").option("store", "/data/store").option("table", "crm").load()

`idmatch.spark` describes it. Import that one.
"""

from idmatch.spark import DefaultSource

__all__ = ["DefaultSource"]
