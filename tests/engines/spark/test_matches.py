"""Matches of data frames: what a join gives, whatever happens to tasks."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import idmatch
import idmatch.spark
import pyarrow as pa
import pytest
from idmatch.spark._match import _collected
from mishaps import attempts, failing_once, slow_once
from observed import NEWEST, OBSERVED, START
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytest_plugins = ["spark_session"]

# With ids that no table has, ids that are there twice, and rows without one.
NUMBERS = [number % 4_000 for number in range(0, 9_000, 2)]
PEOPLE = pa.table(
    {
        "cookie": [None if number % 97 == 0 else f"id-{number}" for number in NUMBERS],
        "campaign": [f"c{number % 5}" for number in NUMBERS],
    }
)
NEWEST_ROWS = pa.table(
    {
        "id": [id for id, _ in NEWEST],
        "partner_id": [partner_id for _, partner_id in NEWEST],
        "seen_at": pa.array(NEWEST.values(), pa.timestamp("ms", "UTC")),
    }
)


@pytest.fixture
def table(store: idmatch.Store) -> idmatch.Table:
    """A table with OBSERVED. The store stays open in this process, which writes it."""
    made = store.create_table("crm")
    made.load(OBSERVED.slice(100))
    made.upsert(OBSERVED.slice(0, 100))
    return made


@pytest.fixture
def people(spark: SparkSession) -> "DataFrame":
    """PEOPLE in three partitions."""
    return spark.createDataFrame(PEOPLE.to_pandas()).repartition(3)


def rows_of(found: pa.Table) -> list[tuple[object, ...]]:
    """Its rows, sorted, nulls last."""
    rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])


def joined(question: str) -> list[tuple[object, ...]]:
    """What SQL gives."""
    with duckdb.connect() as database:
        database.register("people", PEOPLE)
        database.register("crm", NEWEST_ROWS)
        return rows_of(database.sql(question).to_arrow_table())


ALL = "SELECT id, partner_id, seen_at FROM people JOIN crm ON cookie = id"


@pytest.mark.parametrize("of_spark", [1, 3, 500])
def test_matches_are_of_large_batches(of_spark: int) -> None:
    """Whatever Spark's batches are, and with each row once."""
    parts = [PEOPLE.slice(at, of_spark) for at in range(0, 1_000, of_spark)]
    batches = [batch for part in parts for batch in part.to_batches()]
    collected = list(_collected(iter(batches), 400))
    assert pa.concat_tables(collected).equals(pa.Table.from_batches(batches))
    assert all(400 <= each.num_rows < 400 + of_spark for each in collected[:-1])


@pytest.mark.parametrize("batch_rows", [1_000_000, 700, 100])
def test_a_join(
    people: "DataFrame", store: idmatch.Store, table: idmatch.Table, batch_rows: int
) -> None:
    frame = idmatch.spark.match(people, store.path, "crm", column="cookie", batch_rows=batch_rows)
    assert frame.dtypes == [("id", "string"), ("partner_id", "string"), ("seen_at", "timestamp")]
    assert rows_of(frame.toArrow()) == joined(ALL)


def test_a_window_and_the_newest(
    people: "DataFrame", store: idmatch.Store, table: idmatch.Table
) -> None:
    since, until = START + timedelta(days=100), START + timedelta(days=200)
    frame = idmatch.spark.match(
        people, store.path, "crm", column="cookie", pick="latest", since=since, until=until
    )
    # Dates of one id are unique here.
    assert rows_of(frame.toArrow()) == joined(
        "SELECT id, newest.partner_id, newest.seen_at FROM people JOIN ("
        "  SELECT id, unnest(max_by(crm, seen_at, 1)) AS newest FROM crm"
        f" WHERE seen_at >= '{since}' AND seen_at < '{until}' GROUP BY id) ON cookie = id"
    )


def test_carried_columns_of_unmatched_rows(
    people: "DataFrame", store: idmatch.Store, table: idmatch.Table
) -> None:
    frame = idmatch.spark.match(
        people, store.path, "crm", column="cookie", carry=["campaign as of.campaign"], how="left"
    )
    assert frame.columns == ["id", "partner_id", "seen_at", "of.campaign"]
    assert rows_of(frame.toArrow()) == joined(
        "SELECT cookie, partner_id, seen_at, campaign FROM people LEFT JOIN crm ON cookie = id"
    )


def test_a_chain(people: "DataFrame", store: idmatch.Store, table: idmatch.Table) -> None:
    """From an id to its partner IDs, and to the ids of those."""
    store.create_table("back").load(OBSERVED)
    frame = idmatch.spark.match(
        people, store.path, "crm", column="cookie", then=["back,by=partner-id"]
    )
    expected = joined(
        "SELECT cookie, back.id, back.seen_at FROM people JOIN crm ON cookie = crm.id"
        " JOIN crm AS back USING (partner_id)"
    )
    assert frame.columns == ["id", "id_2", "seen_at"]
    assert rows_of(frame.toArrow()) == expected


def test_by_partner_id(spark: SparkSession, store: idmatch.Store, table: idmatch.Table) -> None:
    frame = spark.createDataFrame([("p-7",), ("p-8",), ("nobody",)], "uid string")
    matched = idmatch.spark.match(frame, store.path, "crm", by="partner_id")
    assert matched.columns == ["partner_id", "id", "seen_at"]
    assert rows_of(matched.toArrow()) == sorted(
        (partner_id, id, at)
        for (id, partner_id), at in NEWEST.items()
        if partner_id in ("p-7", "p-8")
    )


def test_types_of_columns(spark: SparkSession, store: idmatch.Store) -> None:
    """Identifiers come out in the population's type, carried columns as they were."""
    at = datetime(2026, 1, 2, 3, 4, 5, 6)
    wide = Row(
        text="a", number=7, cents=None, at=at, naive=at, list=["x", None], pair=Row(a=1, b="b")
    )
    kinds = (
        "text string, number bigint, cents decimal(9,2), at timestamp, naive timestamp_ntz, "
        "list array<string>, pair struct<a:int,b:string>"
    )
    frame = spark.createDataFrame([wide], kinds).withColumn("bytes", F.encode("text", "UTF-8"))
    seen = pa.table({"id": ["a", "7", "x"], "partner_id": ["p", "q", "r"], "seen_at": [START] * 3})
    store.create_table("t").load(seen)
    for column, partner_id in [("text", "p"), ("number", "q"), ("bytes", "p")]:
        matched = idmatch.spark.match(frame, store.path, "t", column=column, carry="all")
        kind = dict(frame.dtypes)
        others = [name for name in frame.columns if name != column]
        assert matched.dtypes == [
            ("id", kind[column]),
            ("partner_id", "string"),
            ("seen_at", "timestamp"),
            *((name, kind[name]) for name in others),
        ]
        (row,) = matched.collect()
        (given,) = frame.collect()
        assert row[1] == partner_id
        assert (row["id"], *row[3:]) == (given[column], *(given[name] for name in others))
    lists = idmatch.spark.match(frame, store.path, "t", column="list", carry=["number"])
    assert [tuple(row)[:2] for row in lists.collect()] == [("x", "r")]


def test_nothing_runs_before_it_is_asked(
    spark: SparkSession, store: idmatch.Store, table: idmatch.Table
) -> None:
    never = spark.range(1).select(F.raise_error(F.lit("it ran")).cast("string").alias("id"))
    frame = idmatch.spark.match(never, store.path, "crm", column="id", how="left")
    assert frame.columns == ["id", "partner_id", "seen_at"]
    with pytest.raises(PySparkException, match="it ran"):
        frame.collect()


def test_bad_identifiers(spark: SparkSession, store: idmatch.Store, table: idmatch.Table) -> None:
    """A batch without any identifier has no matches; others are found beside it."""
    texts = ["", "x" * 5_000, None, "id-1"]
    frame = spark.createDataFrame([(text,) for text in texts], "id string").repartition(4)
    ids = [id for id, _ in NEWEST if id == "id-1"]
    inner = idmatch.spark.match(frame, store.path, "crm", batch_rows=1)
    assert [row.id for row in inner.collect()] == ids
    left = idmatch.spark.match(frame, store.path, "crm", how="left", batch_rows=1)
    assert left.count() == len(ids) + 3


def test_failing_tasks(
    people: "DataFrame", store: idmatch.Store, table: idmatch.Table, tmp_path: Path
) -> None:
    flaky = failing_once(people, tmp_path / "marks")
    frame = idmatch.spark.match(flaky, store.path, "crm", column="cookie")
    assert rows_of(frame.toArrow()) == joined(ALL)
    assert min(attempts(tmp_path / "marks")) >= 2


def test_speculation(
    people: "DataFrame", store: idmatch.Store, table: idmatch.Table, tmp_path: Path
) -> None:
    slow = slow_once(people, tmp_path / "marks")
    frame = idmatch.spark.match(slow, store.path, "crm", column="cookie")
    assert rows_of(frame.toArrow()) == joined(ALL)
    assert attempts(tmp_path / "marks")[0] >= 2


def test_one_version(people: "DataFrame", store: idmatch.Store, table: idmatch.Table) -> None:
    """Actions answer as the store was, also after an erasure."""
    frame = idmatch.spark.match(people, store.path, "crm", column="cookie")
    table.erase(id="id-2")
    table.load(pa.table({"id": ["id-4"], "partner_id": ["new"], "seen_at": [START]}))
    assert rows_of(frame.toArrow()) == joined(ALL)


def test_a_checkpoint_that_is_gone(
    people: "DataFrame", store: idmatch.Store, table: idmatch.Table
) -> None:
    frame = idmatch.spark.match(people, store.path, "crm", column="cookie", keep="6h")
    (made,) = store.checkpoints()
    assert made.until - datetime.now(UTC) < timedelta(hours=7)
    store.remove_checkpoint(made)
    with pytest.raises(PySparkException, match=r"Expired.*is no longer in the store"):
        frame.collect()


def test_a_store_that_workers_do_not_see(
    people: "DataFrame", store: idmatch.Store, table: idmatch.Table
) -> None:
    frame = idmatch.spark.match(people, store.path, "crm", column="cookie")
    folder = Path(store.path)
    folder.rename(folder.with_name("elsewhere"))
    try:
        with pytest.raises(PySparkException, match=r"sees no store at .*; all hosts need"):
            frame.collect()
    finally:
        folder.with_name("elsewhere").rename(folder)


def test_errors_come_at_once(
    people: "DataFrame", store: idmatch.Store, table: idmatch.Table, tmp_path: Path
) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "column.* 'id'": {"column": "id"},
        "pick is": {"column": "cookie", "pick": "first"},
        "carry is": {"column": "cookie", "carry": "campaign"},
        'a column "seen_at" of its own': {"column": "cookie", "carry": ["campaign as seen_at"]},
        "batch_rows is 0": {"column": "cookie", "batch_rows": 0},
        "length of time": {"column": "cookie", "keep": "soon"},
    }
    for said, arguments in wrong.items():
        with pytest.raises(idmatch.InvalidArgument, match=said):
            idmatch.spark.match(people, store.path, "crm", **arguments)
    with pytest.raises(idmatch.TableNotFound, match="crm"):
        idmatch.spark.match(people, store.path, "cmr", column="cookie")
    with pytest.raises(idmatch.TableNotFound):
        idmatch.spark.match(people, store.path, "crm", column="cookie", then=["none"])
    with pytest.raises(idmatch.NotAStore):
        idmatch.spark.match(people, str(tmp_path / "none"), "crm", column="cookie")
    assert not (tmp_path / "none").exists()
