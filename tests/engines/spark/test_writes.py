"""Writes of data frames: committed once, whatever happens to tasks, or not at all."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mishaps import attempts, failing_once, slow_once
from observed import OBSERVED, START, within
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from spark_session import environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytest_plugins = ["spark_session"]

Write = Callable[..., None]

OLD = pa.table({"id": ["old"], "partner_id": ["row"], "seen_at": [START]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with the table "crm", which has OLD. No process has it open: Spark writes it."""
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("crm").load(OLD)
    return tmp_path / "store"


@pytest.fixture
def frame(spark: SparkSession) -> "DataFrame":
    """OBSERVED in three partitions; its times are those of Arrow."""
    rows = OBSERVED.to_pandas()
    return spark.createDataFrame(
        rows, "id string, partner_id string, seen_at timestamp"
    ).repartition(3)


@pytest.fixture
def write(path: Path) -> Write:
    """Writes a frame to the table, with some options."""

    def save(frame: "DataFrame", mode: str = "append", **options: object) -> None:
        given = {"store": str(path), "table": "crm"} | options
        frame.write.format("idmatch").options(**given).mode(mode).save()

    return save


def rows_of(path: Path) -> list[tuple[str, str, datetime]]:
    """The rows of the table, sorted; the table is whole."""
    with idmatch.open(path) as store:
        table = store.table("crm")
        assert table.verify() == []
        columns = table.scan().to_arrow().columns
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def has_old_rows_only(path: Path) -> bool:
    """Whether the store is as it was; nothing of a write may be left in it."""
    left = [file for file in (path / "staging").rglob("*") if file.is_file()]
    return left == [] and rows_of(path) == [("old", "row", START)]


def test_append(write: Write, frame: "DataFrame", path: Path) -> None:
    write(frame)
    assert rows_of(path) == sorted([("old", "row", START), *within(None, None)])


def test_overwrite(write: Write, frame: "DataFrame", path: Path) -> None:
    write(frame, "overwrite")
    assert rows_of(path) == within(None, None)
    write(frame.limit(0), "overwrite")
    assert rows_of(path) == []


def test_columns_and_dates(write: Write, spark: SparkSession, path: Path) -> None:
    frame = spark.createDataFrame(
        [("x", "1/3/2026", "a", 5), ("y", "2/3/2026", "b", 6)],
        "uid string, day string, cookie string, n int",
    )
    write(frame, "overwrite", columns="cookie,uid,day", date_format="%d/%m/%Y", tz="Europe/Paris")
    in_paris = datetime.fromisoformat("2026-02-28T23:00:00+00:00")
    expected = [("a", "x", in_paris), ("b", "y", in_paris + timedelta(days=1))]
    assert rows_of(path) == expected
    write(frame, "overwrite", columns="n,cookie", dated="2025-01-01")
    midnight = datetime.fromisoformat("2025-01-01T00:00:00+00:00")
    assert rows_of(path) == [("5", "a", midnight), ("6", "b", midnight)]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_failing_tasks(write: Write, frame: "DataFrame", path: Path, mode: str) -> None:
    marks = path.with_name("marks")
    write(failing_once(frame, marks), mode)
    old = [("old", "row", START)] if mode == "append" else []
    assert rows_of(path) == sorted([*old, *within(None, None)])
    assert min(attempts(marks)) >= 2


def test_speculation(write: Write, frame: "DataFrame", path: Path) -> None:
    """A row that is staged or committed twice is shown once, and counted twice here."""
    marks = path.with_name("marks")
    write(slow_once(frame, marks), key="slow")
    assert rows_of(path) == sorted([("old", "row", START), *within(None, None)])
    assert attempts(marks)[0] >= 2
    with idmatch.open(path) as store:
        table = store.table("crm")
        outcome = table.begin(key="slow").outcome
        assert outcome == idmatch.Committed(rows=OBSERVED.num_rows, rejected=0)
        assert table.stats().rows == len(within(None, None)) + 1


def test_a_failed_write_leaves_nothing(write: Write, frame: "DataFrame", path: Path) -> None:
    fails = F.when(F.col("id") == "id-7", F.raise_error(F.lit("seven"))).otherwise(F.col("id"))
    with pytest.raises(PySparkException, match="seven"):
        write(frame.withColumn("id", fails), "overwrite")
    assert has_old_rows_only(path)


LATER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = real(clock, at);
    if (clock == CLOCK_REALTIME) at->tv_sec += 25 * 3600;
    return outcome;
}
"""
NEXT_WRITER = """
import sys
import idmatch

with idmatch.open(sys.argv[1]) as store:
    store.table("crm").load(sys.argv[2])
"""


def next_writer(path: Path, **environment: str) -> None:
    """A process that loads OLD once more."""
    rows = path.with_name("old.parquet")
    pq.write_table(OLD, rows)
    command = [sys.executable, "-c", NEXT_WRITER, str(path), str(rows)]
    subprocess.run(command, env=os.environ | environment, check=True)


HANGING = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

store, begun, ended = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()

def hang(batches):
    Path(begun).touch()
    yield from batches
    while not Path(ended).exists():
        time.sleep(0.1)

columns = "id string, partner_id string, seen_at string"
rows = spark.createDataFrame([("new", "row", "2026-01-01")], columns)
rows = rows.mapInArrow(hang, rows.schema)
rows.write.format("idmatch").options(store=store, table="crm").mode("overwrite").save()
"""


def test_a_session_that_spark_does_not_end_goes_after_a_day(path: Path) -> None:
    """That of a driver which is killed while a task runs."""
    begun, ended = path.with_name("begun"), path.with_name("ended")
    command = [sys.executable, "-c", HANGING, str(path), str(begun), str(ended)]
    driver = subprocess.Popen(
        command, env=os.environ | environment(), start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        while not begun.exists():
            assert driver.poll() is None
            time.sleep(0.05)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        ended.touch()
    (left,) = (path / "staging").iterdir()
    next_writer(path)
    assert list((path / "staging").iterdir()) == [left]
    library = path.with_name("later.so")
    compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-ldl", "-o", str(library)]
    subprocess.run(compiler, input=LATER, text=True, check=True)
    next_writer(path, LD_PRELOAD=str(library))
    assert list((path / "staging").iterdir()) == []
    assert has_old_rows_only(path)


def test_rejected_rows(write: Write, frame: "DataFrame", path: Path) -> None:
    some_empty = frame.withColumn("id", F.when(F.col("id") == "id-7", "").otherwise(F.col("id")))
    bad = sum(id == "id-7" for id in OBSERVED.column("id").to_pylist())
    for options in ({"strict": "true"}, {"max_rejects": bad - 1}, {"max_rejects": "0%"}):
        with pytest.raises(PySparkException, match="BadInput"):
            write(some_empty, **options)
        assert has_old_rows_only(path)
    write(some_empty, "overwrite", max_rejects=bad)
    assert rows_of(path) == [row for row in within(None, None) if row[0] != "id-7"]


def test_a_key_is_written_once(write: Write, frame: "DataFrame", path: Path) -> None:
    write(frame, key="monday")
    write(frame.withColumn("id", F.lit("other")), key="monday")
    assert rows_of(path) == sorted([("old", "row", START), *within(None, None)])


def test_another_process_writes(write: Write, frame: "DataFrame", path: Path) -> None:
    """While the tasks run it takes the lock: the commit waits, and gives up; nothing is written."""
    begun, go = path.with_name("begun"), path.with_name("go")

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        while not go.exists():
            time.sleep(0.01)
        yield from batches

    ended = threading.Event()

    def writes() -> None:
        while not begun.exists() and not ended.is_set():
            time.sleep(0.01)
        with idmatch.open(path) as store:
            store.table("crm").upsert_one("new", "one", START)
            go.touch()
            ended.wait()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writes)
        try:
            with pytest.raises(PySparkException, match="nothing was written: write again"):
                write(frame.mapInArrow(held, frame.schema), wait="1s")
        finally:
            ended.set()
        writing.result()
    assert rows_of(path) == [("new", "one", START), ("old", "row", START)]
    assert not any((path / "staging").glob("*"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "cmr"}, "TableNotFound"),
        ({"store": "/nowhere/store"}, "sees no store at /nowhere/store"),
        ({"columns": "cookie,uid,day"}, "named for id"),
        ({"since": "90d"}, "no option 'since'"),
        ({"max_rejects": "many"}, "at most 'many'"),
        ({"dated": "soon"}, "soon"),
        ({"key": "k" * 200}, "1 to 128 bytes"),
    ],
)
def test_wrong_options(
    write: Write, frame: "DataFrame", path: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        write(frame, **options)
    assert said in str(raised.value)
    assert has_old_rows_only(path)


def test_keeping_all_dates(spark: SparkSession, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("all", keep="all")
    frame = spark.createDataFrame([("a", "x", number * 86_400) for number in range(1, 50)])
    frame = frame.select("_1", "_2", F.timestamp_seconds("_3")).repartition(4)
    options = {"store": str(tmp_path / "store"), "table": "all", "columns": "_1,_2"}
    for marks, mishap in ((tmp_path / "failing", failing_once), (tmp_path / "slow", slow_once)):
        mishap(frame, marks).write.format("idmatch").options(**options).mode("overwrite").save()
        with idmatch.open(tmp_path / "store") as store:
            assert len(store.table("all").history("a", "x")) == 49
