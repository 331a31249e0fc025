"""Results go back into Hive, which sees them as a partition."""

from datetime import UTC, date, datetime

import idmatch
import pyarrow as pa
import pytest
from balancer import DROP, Balancer
from conftest import Cli
from hive_server import Database

pytest_plugins = ["hive_server"]

AT = datetime(2026, 11, 20, 23, 30, 0, 123000, tzinfo=UTC)
MADE = (
    "CREATE TABLE found (note STRING, id STRING, partner_id VARCHAR(20), seen_at TIMESTAMP, n INT,"
    " d DATE, amount DECIMAL(9,2)) PARTITIONED BY (day DATE, src STRING) STORED AS PARQUET"
)
PARTITION = {"day": "2026-11-27", "src": "a/b=c %d"}
COLUMNS = "id, partner_id, CAST(seen_at AS STRING), n, CAST(d AS STRING), note, src"


@pytest.fixture
def table(store: idmatch.Store) -> idmatch.Table:
    """Two pairs of `a` and one of `b`."""
    made = store.create_table("t")
    made.load(
        pa.table(
            {"id": ["a", "a", "b"], "partner_id": ["x", "y", "é"], "seen_at": pa.array([AT] * 3)}
        )
    )
    return made


def people(*ids: str) -> pa.Table:
    """A population whose column `n` is larger than that of the table in Hive."""
    count = len(ids)
    return pa.table(
        {"id": ids, "n": pa.array(range(count), pa.int64()), "d": [date(2026, 1, 2)] * count}
    )


def test_a_partition(database: Database, table: idmatch.Table) -> None:
    """Times are in UTC, whatever the server's zone; columns go by name; others are null."""
    database.run(MADE)
    result = table.match(people("a", "b", "c"), column="id", carry="all", how="left")
    result.write(database.url("found"), partition=PARTITION)
    shown = "2026-11-20 23:30:00.123"
    wanted = [
        ("a", "x", shown, 0, "2026-01-02", None, "a/b=c %d"),
        ("a", "y", shown, 0, "2026-01-02", None, "a/b=c %d"),
        ("b", "é", shown, 1, "2026-01-02", None, "a/b=c %d"),
        ("c", None, None, 2, "2026-01-02", None, "a/b=c %d"),
    ]
    assert database.ask(f"SELECT {COLUMNS} FROM found") == wanted
    # And idmatch reads it as it wrote it, in each way.
    for via in ("files", "unload", "rows"):
        again = table.match(database.url("found", via=via), column="id", carry=["seen_at as t"])
        assert set(again.to_arrow()["t"].to_pylist()) == {AT.replace(tzinfo=None)}

    other = table.match(people("b"), column="id")
    with pytest.raises(idmatch.InvalidArgument, match="day=2026-11-27/src=a%2Fb%3Dc %25d exists"):
        other.write(database.url("found"), partition=PARTITION)
    assert len(database.ask("SELECT * FROM found")) == 4
    other.write(database.url("found"), partition=PARTITION, overwrite=True)
    assert database.ask("SELECT id, n FROM found") == [("b", None)]
    assert database.ask("SELECT count(*) FROM found") == [(1,)]
    other.write(database.url("found"), partition=PARTITION | {"src": "other"})
    assert database.ask("SELECT count(*) FROM found") == [(2,)]
    assert database.hidden("found") == []


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("INT", "7", "07"),
        ("DATE", "2026-01-05", "2026-1-5"),
        ("BOOLEAN", "true", "TRUE"),
        ("DECIMAL(5,2)", "1.5", "1.50"),
        ("TIMESTAMP", "2026-01-05 00:00:00", "2026-01-05 00:00:00.0"),
        ("STRING", "7", "07"),
    ],
)
def test_a_value_may_be_written_in_two_ways(
    database: Database, table: idmatch.Table, kind: str, one: str, other: str
) -> None:
    """It is one partition for Hive, whose rows are seen; of text it is two."""
    are_same = kind != "STRING"
    # Hive sets no location that has blanks, as that of a new partition of another text would be.
    orders = ((one, other),) if " " in one else ((one, other), (other, one))
    for first, second in orders:
        database.run(
            "DROP TABLE IF EXISTS found",
            "CREATE TABLE found (id STRING, partner_id STRING, seen_at STRING) "
            f"PARTITIONED BY (k {kind}) STORED AS PARQUET",
        )
        result = table.match(people("a", "b"), column="id", pick="latest")
        result.write(database.url("found"), partition={"k": first})
        assert database.ask("SELECT id FROM found") == [("a",), ("b",)]
        found = table.match(people("b"), column="id")
        if are_same:
            with pytest.raises(idmatch.InvalidArgument, match="exists"):
                found.write(database.url("found"), partition={"k": second})
        found.write(database.url("found"), partition={"k": second}, overwrite=are_same)
        assert database.ask("SELECT id FROM found") == [("a",), ("b",), ("b",)][2 * are_same :]
        assert len(database.ask("SHOW PARTITIONS found")) == 2 - are_same


def test_a_table_without_partitions(database: Database, table: idmatch.Table) -> None:
    database.run(
        "CREATE TABLE found (id STRING, partner_id STRING, seen_at STRING) STORED AS PARQUET",
        "INSERT INTO found VALUES ('old', 'old', 'old')",
    )
    result = table.match(people("b"), column="id")
    with pytest.raises(idmatch.InvalidArgument, match="found exists"):
        result.write(database.url("found"))
    result.write(database.url("found"), overwrite=True)
    assert database.ask("SELECT * FROM found") == [("b", "é", "2026-11-20 23:30:00.123")]
    assert database.ask("SELECT count(*) FROM found") == [(1,)]
    table.scan().write(database.url("found"), overwrite=True)
    assert database.ask("SELECT count(*) FROM found") == [(3,)]


def test_on_the_command_line(database: Database, loaded: Cli) -> None:
    database.run(MADE, "INSERT INTO found PARTITION (day='2026-01-01', src='s') (id) VALUES ('a')")
    where = ["--partition", "day=2026-11-27", "--partition", "src=x=y"]
    out = ["-o", database.url("found")]
    ran = loaded("match", "store", "small", database.url("found"), "--column", "id", *out, *where)
    assert ran.code == 0, ran.err
    first = database.ask("SELECT partner_id FROM found WHERE src = 'x=y'")
    assert len(first) > 0
    ran = loaded("match", "store", "small", database.url("found"), "--column", "id", *out, *where)
    assert (ran.code, "exists" in ran.err) == (2, True)
    ran = loaded("export", "store", "small", *out, *where, "--overwrite")
    assert ran.code == 0, ran.err
    assert len(database.ask("SELECT id FROM found WHERE src = 'x=y'")) >= len(first)


def test_what_is_refused(database: Database, table: idmatch.Table, cli: Cli) -> None:
    database.run(
        MADE,
        "CREATE TABLE o (id STRING) STORED AS ORC",
        "CREATE VIEW v AS SELECT id FROM o",
        "CREATE TABLE narrow (id STRING, partner_id INT, seen_at TIMESTAMP) STORED AS PARQUET",
    )
    result = table.match(people("a"), column="id")
    for name, partition, said in (
        ("found", {}, "has partitions by day, src; name a value of each"),
        ("found", {"src": "x", "day": "2026-11-27"}, "in this order"),
        ("found", {"day": "no day", "src": "x"}, "cannot write"),
        ("o", {}, "stored as ORC"),
        ("v", {}, "VIRTUAL_VIEW"),
        ("nosuch", {}, "Table not found"),
        ("narrow", {"k": "v"}, "has no partitions"),
        ("narrow", {}, "'partner_id' .string. does not fit its column .* .int."),
    ):
        with pytest.raises(idmatch.Error, match=said):
            result.write(database.url(name), partition=partition, overwrite=True)
    carried = table.match(people("a"), column="id", carry=["d as extra"])
    with pytest.raises(idmatch.InvalidArgument, match=r"has no column 'extra'.*columns: note, id"):
        carried.write(database.url("found"), partition=PARTITION)
    assert database.ask("SELECT * FROM found") == []
    assert database.files("found") == []
    for arguments, said in (
        (["-o", "out.csv", "--partition", "a=b"], "--partition is for -o hive://"),
        (["-o", database.url("found"), "--format", "csv"], "leave formats and cuts out"),
        (["-o", database.url("found"), "--partition", "a"], "is not COLUMN=VALUE"),
    ):
        assert said in cli("match", "S", "t", "p.csv", *arguments).err


@pytest.mark.parametrize("arrives", [False, True])
def test_a_connection_breaks_while_a_partition_is_added(
    database: Database, table: idmatch.Table, arrives: bool
) -> None:
    """Where the server did not get the statement nothing is left, else the rows are there."""
    database.run(MADE)
    balancer = Balancer(database.host, database.port)
    balancer.word, balancer.how, balancer.passes_on = b" ADD PARTITION", DROP, arrives
    result = table.match(people("b"), column="id")
    url = database.url("found", port=balancer.port, timeout="2s")
    error = idmatch.UnknownOutcome if arrives else idmatch.IoError
    with pytest.raises(error, match="has sent nothing for 2 s"):
        result.write(url.replace(database.host, "127.0.0.1"), partition=PARTITION)
    balancer.close()
    assert len(database.ask("SELECT id FROM found")) == arrives
    assert bool(database.files("found")) == arrives


def test_a_connection_breaks_after_a_partition_was_replaced(
    database: Database, table: idmatch.Table
) -> None:
    """The rows are there, and the error does not deny it."""
    database.run(MADE)
    table.match(people("a"), column="id").write(database.url("found"), partition=PARTITION)
    balancer = Balancer(database.host, database.port)
    balancer.word, balancer.how, balancer.passes_on = b"UPDATE STATISTICS", DROP, False
    url = database.url("found", port=balancer.port, timeout="2s")
    with pytest.raises(idmatch.UnknownOutcome, match="has the rows, but may still count those"):
        table.match(people("b"), column="id").write(
            url.replace(database.host, "127.0.0.1"), partition=PARTITION, overwrite=True
        )
    balancer.close()
    assert database.ask("SELECT id FROM found") == [("b",)]


def test_a_partition_that_cannot_be_added(database: Database, table: idmatch.Table) -> None:
    """Its folder goes again; what a killed process left is replaced with `overwrite`."""
    database.run(MADE)
    result = table.match(people("a"), column="id")
    with pytest.raises(idmatch.IoError, match="cannot write"):
        result.write(database.url("found"), partition={"day": "2026-02-31", "src": "x"})
    assert database.files("found") == []
    database.put("found/day=2026-11-27/src=x/left", b"left")
    partition = {"day": "2026-11-27", "src": "x"}
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        result.write(database.url("found"), partition=partition)
    result.write(database.url("found"), partition=partition, overwrite=True)
    assert database.ask("SELECT id, partner_id FROM found") == [("a", "x"), ("a", "y")]
