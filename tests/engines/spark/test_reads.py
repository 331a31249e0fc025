"""Reads of a table by Spark: all rows of one version, each once."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import idmatch
import pytest
from mishaps import attempts, failing_once, slow_once
from observed import NEWEST, OBSERVED, START, within
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytest_plugins = ["spark_session"]

Read = Callable[..., "DataFrame"]


@pytest.fixture
def table(store: idmatch.Store) -> idmatch.Table:
    """A table with OBSERVED; some of it is in a memtable of this process."""
    made = store.create_table("crm")
    made.load(OBSERVED.slice(100))
    made.upsert(OBSERVED.slice(0, 100))
    return made


@pytest.fixture
def read(spark: SparkSession, store: idmatch.Store, table: idmatch.Table) -> Read:
    """Reads the table with some options."""

    def frame(**options: object) -> "DataFrame":
        given = {"store": store.path, "table": table.name} | options
        return spark.read.format("idmatch").options(**given).load()

    return frame


def rows_of(frame: "DataFrame") -> list[tuple[object, ...]]:
    """Its rows, sorted. Dates are those of Arrow: Spark's own are naive."""
    found = frame.toArrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("partitions", [None, 1, 7])
def test_all_rows(read: Read, partitions: int | None) -> None:
    frame = read() if partitions is None else read(partitions=partitions)
    assert frame.dtypes == [("id", "string"), ("partner_id", "string"), ("seen_at", "timestamp")]
    assert rows_of(frame) == within(None, None)
    if partitions:
        assert frame.rdd.getNumPartitions() == partitions


def test_some_columns(read: Read, spark: SparkSession, store: idmatch.Store) -> None:
    expected = sorted((at, id) for (id, _), at in NEWEST.items())
    assert rows_of(read(columns="seen_at, id")) == expected
    chosen = spark.read.format("idmatch").schema("partner_id string")
    frame = chosen.options(store=store.path, table="crm").load()
    assert rows_of(frame) == sorted((partner_id,) for _, partner_id in NEWEST)
    assert read(columns="id").count() == len(NEWEST)


def test_a_window(read: Read) -> None:
    since, until = START + timedelta(days=40), START + timedelta(days=90, milliseconds=1)
    frame = read(since=since.isoformat(), until=until.isoformat(), partitions=3)
    assert rows_of(frame) == within(since, until)
    assert rows_of(read(since=until.isoformat(), until=since.isoformat())) == []


LAST = "timestamp '9999-12-31 23:59:59.999999 UTC'"


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_filters(read: Read, pushdown: str) -> None:
    """Spark's filters give the same rows, whoever evaluates them."""
    frame = read(pushdown=pushdown, partitions=2)
    rows = within(None, None)
    at = rows[1234][2]
    half = F.lit(at) + F.expr("interval 500 microseconds")
    seen_at, one_ms = F.col("seen_at"), timedelta(milliseconds=1)
    asked = {
        "equal": (seen_at == at, (at, at + one_ms)),
        "from": (seen_at >= at, (at, None)),
        "after": (seen_at > at, (at + one_ms, None)),
        "before": (seen_at < at, (None, at)),
        "up to": (seen_at <= at, (None, at + one_ms)),
        "from between": (seen_at >= half, (at + one_ms, None)),
        "up to between": (seen_at <= half, (None, at + one_ms)),
        "up to the last": (seen_at <= F.expr(LAST), (None, None)),
        "both": (
            (seen_at >= at) & (seen_at < at + timedelta(days=9)),
            (at, at + timedelta(days=9)),
        ),
    }
    for name, (condition, window) in asked.items():
        assert rows_of(frame.where(condition)) == within(*window), name
    assert rows_of(frame.where(seen_at == half)) == []
    of_one = frame.where((seen_at >= at) & (F.col("id") == rows[1234][0]))
    assert rows_of(of_one) == [row for row in within(at, None) if row[0] == rows[1234][0]]
    plan = frame.where(seen_at >= at)._jdf.queryExecution().executedPlan().toString()
    assert ("Filter (" in plan) == (pushdown == "false")


def test_one_version(read: Read, table: idmatch.Table) -> None:
    """Tasks that begin after a write do not show it."""
    rows = read(partitions=8).toLocalIterator()
    first = next(rows)
    table.load(OBSERVED.set_column(1, "partner_id", OBSERVED.column("id")))
    table.erase(id=first.id)
    assert 1 + sum(1 for _ in rows) == len(NEWEST)


def test_failing_tasks(read: Read, tmp_path: Path) -> None:
    frame = failing_once(read(partitions=3), tmp_path / "marks")
    assert rows_of(frame) == within(None, None)
    assert min(attempts(tmp_path / "marks")) >= 2


def test_speculation(read: Read, tmp_path: Path) -> None:
    frame = slow_once(read(partitions=4), tmp_path / "marks")
    assert rows_of(frame) == within(None, None)
    assert attempts(tmp_path / "marks")[0] >= 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "cmr"}, "TableNotFound"),
        ({"store": "/nowhere/store"}, "sees no store at /nowhere/store"),
        ({"sicne": "90d"}, "no option 'sicne'"),
        ({"columns": "id,date"}, "no column date"),
        ({"columns": "id,id"}, "no list of different names"),
        ({"pushdown": "yes"}, "pushdown is 'yes'"),
        ({"partitions": "0"}, "partitions is '0'"),
        ({"since": "soon"}, "soon"),
        ({"keep": "9d"}, "9d"),
    ],
)
def test_wrong_options(read: Read, options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException) as raised:
        read(**options).collect()
    assert said in str(raised.value)


def test_a_missing_table_is_a_required_option(spark: SparkSession, store: idmatch.Store) -> None:
    with pytest.raises(PySparkException, match="option 'table' is missing"):
        spark.read.format("idmatch").option("store", store.path).load()


def test_a_checkpoint_is_read_as_it_is(
    read: Read, store: idmatch.Store, table: idmatch.Table
) -> None:
    made = store.checkpoint()
    table.load(OBSERVED.set_column(1, "partner_id", OBSERVED.column("id")))
    assert read(store=made.path).count() == len(NEWEST)
    assert [one.path for one in store.checkpoints()] == [made.path]
