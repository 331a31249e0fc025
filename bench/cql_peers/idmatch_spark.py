"""idmatch from Spark 4: `idmatch.spark.match` on the tables that idmatch filled.

Settings: a task for each processor and a population in as many partitions, so that none is idle;
all else as it comes. Spark's Python workers run already when the first time is taken that counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import idmatch
import idmatch.spark
import pyspark
from pyspark.sql import SparkSession

from cql_peers.base import START_MILLIS, Answer, CqlPeer, Place

_MEMORY = "3g"
_TABLE = "matches"


class IdmatchSpark(CqlPeer):
    """Spark in this process, with a task for each processor."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._cores = os.cpu_count() or 1
        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings = {
            "spark.driver.memory": _MEMORY,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.files.minPartitionNum": str(self._cores),
            "spark.sql.files.openCostInBytes": "0",
        }
        builder = SparkSession.builder.master(f"local[{self._cores}]").appName("idmatch-bench")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._store = f"cql://{place.address}/{place.keyspace}?replication=1"

    def version(self) -> str:
        return f"{idmatch.__version__}, Spark {pyspark.__version__}"

    def settings(self) -> Mapping[str, str]:
        return {"master": f"local[{self._cores}]", "memory": _MEMORY}

    def match(self, population: Path) -> Answer:
        people = self._spark.read.parquet(str(population))
        matched = idmatch.spark.match(people, self._store, _TABLE, column="id")
        (found,) = matched.selectExpr(
            "count(partner_id) AS rows",
            f"coalesce(sum(unix_millis(seen_at) - {START_MILLIS}), 0) AS dates",
        ).collect()
        return Answer(found["rows"], found["dates"])

    def close(self) -> None:
        self._spark.stop()


PEERS = {"pyspark": IdmatchSpark}
