"""Reads, matches and writes on a Cassandra node."""

from typing import TYPE_CHECKING

import idmatch
import idmatch.spark
import pytest
from observed import NEWEST, OBSERVED, START, within
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytest_plugins = ["spark_session"]


@pytest.fixture
def servers(address: str) -> str:
    """The address of a store with OBSERVED in the table "crm"."""
    with idmatch.open(address) as store:
        store.create_table("crm", expected_rows=100_000).load(OBSERVED)
    return address


def rows_of(frame: "DataFrame") -> list[tuple[object, ...]]:
    """Its rows, sorted."""
    found = frame.toArrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_a_read(spark: SparkSession, servers: str) -> None:
    source = spark.read.format("idmatch").options(store=servers, table="crm", partitions=3)
    assert rows_of(source.load()) == within(None, None)
    assert source.option("columns", "partner_id").load().count() == len(NEWEST)


def test_a_match(spark: SparkSession, servers: str) -> None:
    people = spark.createDataFrame([(f"id-{at}",) for at in range(0, 4_000, 3)], "id string")
    frame = idmatch.spark.match(people.repartition(3), servers, "crm")
    wanted = {f"id-{at}" for at in range(0, 4_000, 3)}
    assert rows_of(frame) == [row for row in within(None, None) if row[0] in wanted]


def test_a_write(spark: SparkSession, servers: str) -> None:
    options = {"store": servers, "table": "crm"}
    frame = spark.createDataFrame([("new", "row", START)], "id string, p string, at timestamp")
    frame.write.format("idmatch").options(**options).mode("append").save()
    with idmatch.open(servers) as store:
        assert store.table("crm").lookup("new") == [("row", START)]
    with pytest.raises(PySparkException, match="Unsupported"):
        frame.write.format("idmatch").options(**options).mode("overwrite").save()


def test_a_key_is_written_once(spark: SparkSession, servers: str) -> None:
    """A retry with the same key stages nothing."""
    for id in ("first", "second"):
        frame = spark.createDataFrame([(id, "row", START)], "id string, p string, at timestamp")
        writer = frame.write.format("idmatch").options(store=servers, table="crm", key="monday")
        writer.mode("append").save()
    with idmatch.open(servers) as store:
        found = store.table("crm").lookup_many(["first", "second"])
    assert found == [[("row", START)], []]


def test_a_password_is_not_shown(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in the plan of a query, nor in the error of one that fails."""
    source = spark.read.format("idmatch").option("table", "crm")
    frame = source.option("store", "cql://user:se-cret@127.0.0.1:1/crm?timeout=1s").load()
    frame.explain(True)
    with pytest.raises(PySparkException) as raised:
        frame.collect()
    assert "Unavailable" in str(raised.value)
    said = "".join(capfd.readouterr())
    assert "Scan" in said
    assert "se-cret" not in said + str(raised.value)
