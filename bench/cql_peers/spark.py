"""Spark with the connector of Cassandra, as a DataFrame join of a population with a table.

`spark` is told to ask for each id (DirectJoin); `spark-scan` is told to read the whole table and
to join it in Spark, which is what it should do for a large part of a table.

Settings: one task for each processor, so many requests in flight as the connector's default is,
which is the others' number too (512). A population is read in as many partitions as keep all tasks
busy, which needs no shuffle. With DirectJoin, plans are not adapted while they run and exchanges
not shared, because to compare plans fails with it in Spark 3.5; this plan has nothing to share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pyspark
from pyspark.sql import DataFrame, SparkSession

from cql_peers.base import IN_FLIGHT, START_MILLIS, Answer, CqlPeer, Place

_JARS = "IDMATCH_BENCH_SPARK_JARS"  # a folder, see bench.mk
_SPARK_HAS = ("scala-library", "scala-reflect", "slf4j-api")
_PARTITIONS_PER_CORE = 4
_MEMORY = "3g"
_WITHOUT_COMPARING_PLANS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.exchange.reuse": "false",
}
_DIRECT_JOIN = "Cassandra Direct Join"


class SparkConnector(CqlPeer):
    """Spark in this process, with a task for each processor."""

    setting: ClassVar[str] = "on"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._cores = os.cpu_count() or 1
        self._jars = sorted(
            jar
            for jar in Path(os.environ[_JARS]).glob("*.jar")
            if not jar.name.startswith(_SPARK_HAS)
        )
        settings = {
            "spark.jars": ",".join(map(str, self._jars)),
            "spark.driver.memory": _MEMORY,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.extensions": "com.datastax.spark.connector.CassandraSparkExtensions",
            "spark.sql.shuffle.partitions": str(self._cores * _PARTITIONS_PER_CORE),
            "spark.sql.files.minPartitionNum": str(self._cores * _PARTITIONS_PER_CORE),
            "spark.sql.files.openCostInBytes": "0",
            "spark.sql.session.timeZone": "UTC",
            "spark.cassandra.connection.host": place.address,
            "spark.cassandra.input.consistency.level": "LOCAL_QUORUM",
            "spark.cassandra.concurrent.reads": str(IN_FLIGHT),
        }
        if self.setting == "on":
            settings |= _WITHOUT_COMPARING_PLANS
        builder = SparkSession.builder.master(f"local[{self._cores}]").appName("idmatch-bench")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        self._matches = (
            self._spark.read.format("org.apache.spark.sql.cassandra")
            .options(table="by_id", keyspace=place.keyspace, directJoinSetting=self.setting)
            .load()
        )

    def version(self) -> str:
        connector = next(
            jar for jar in self._jars if jar.name.startswith("spark-cassandra-connector_")
        )
        return f"{connector.stem.rpartition('-')[2]}, Spark {pyspark.__version__}"

    def settings(self) -> Mapping[str, str]:
        return {
            "master": f"local[{self._cores}]",
            "memory": _MEMORY,
            "directJoinSetting": self.setting,
            "spark.cassandra.concurrent.reads": str(IN_FLIGHT),
        }

    def match(self, population: Path) -> Answer:
        ids = self._spark.read.parquet(str(population))
        joined = ids.join(self._matches, "id").selectExpr(
            "count(partner_id) AS rows",
            f"coalesce(sum(unix_millis(seen_at) - {START_MILLIS}), 0) AS dates",
        )
        found = joined.collect()[0]
        self._check_plan(joined)
        return Answer(found["rows"], found["dates"])

    def close(self) -> None:
        self._spark.stop()

    def _check_plan(self, joined: DataFrame) -> None:
        """That Spark did what it was told; asking takes a millisecond."""
        plan = joined._jdf.queryExecution().executedPlan().toString()
        if (_DIRECT_JOIN in plan) != (self.setting == "on"):
            raise RuntimeError(f"directJoinSetting={self.setting}, and the plan is {plan}")


class SparkScan(SparkConnector):
    """The same, without DirectJoin."""

    setting = "off"


PEERS = {"spark": SparkConnector, "spark-scan": SparkScan}
