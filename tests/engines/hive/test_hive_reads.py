"""Tables and queries of Hive are read, in each of three ways, and give the same."""

from datetime import UTC, datetime
from typing import Any

import idmatch
import pyarrow as pa
import pytest
from conftest import Cli
from hive_server import Database

pytest_plugins = ["hive_server"]

WAYS = ("files", "unload", "rows")
Rows = set[tuple[object, ...]]
# Fails while it runs.
BREAKS = "SELECT CASE WHEN enforce_constraint(id = 'b') THEN id END AS id FROM base"


def at(day: int, hour: int = 0, ms: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, 30 if hour else 0, tzinfo=UTC).replace(
        microsecond=ms * 1000
    )


def stored(table: idmatch.Table) -> Rows:
    return {tuple(row.values()) for row in pa.table(table.scan()).to_pylist()}


@pytest.fixture
def empty(store: idmatch.Store) -> idmatch.Table:
    return store.create_table("t", keep="all")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["PARQUET", "ORC"])
def test_a_table(database: Database, empty: idmatch.Table, form: str, way: str) -> None:
    """Text, VARCHAR and CHAR; a TIMESTAMP is as Hive shows it, whatever the server's time zone."""
    database.run(
        f"CREATE TABLE seen (c CHAR(8), v VARCHAR(9), s STRING, t TIMESTAMP, n BIGINT)"
        f" STORED AS {form}",
        """INSERT INTO seen VALUES
        ('a1', 'x 1', 'ä', TIMESTAMP '2026-11-20 10:30:00', 7),
        ('a1', 'x2', 'b', TIMESTAMP '2026-11-20 23:30:00.123', 8),
        ('c3', 'x3', NULL, TIMESTAMP '2026-11-21 01:30:00', NULL)""",
    )
    url = database.url("seen", via=way)
    report = empty.load(url, columns=["c", "v", "t"])
    assert (report.rows, report.rejected) == (3, 0)
    assert stored(empty) == {
        ("a1", "x 1", at(20, 10)),
        ("a1", "x2", at(20, 23, 123)),
        ("c3", "x3", at(21, 1)),
    }
    (read,) = report.detected
    assert read.format == (form.lower() if way == "files" else f"hive {way}")
    # A population of it, with null; whole numbers are identifiers.
    found = empty.match(url, column="v", by="partner_id", carry=["s", "n"]).to_arrow()
    values = {tuple(row.values())[2:] for row in found.to_pylist()}
    assert values == {(at(20, 10), "ä", 7), (at(20, 23, 123), "b", 8), (at(21, 1), None, None)}
    assert database.staged() == []


@pytest.mark.parametrize("way", WAYS)
def test_partitions(database: Database, empty: idmatch.Table, way: str) -> None:
    """Their columns count, with any characters; a column that was added later is null before."""
    database.run(
        "CREATE TABLE seen (id STRING, pid STRING) PARTITIONED BY (day DATE, src STRING)"
        " STORED AS PARQUET",
        "INSERT INTO seen PARTITION (day='2026-11-20', src='a/b=c %d') VALUES ('p1', 'q1')",
        "INSERT INTO seen PARTITION (day='2026-11-21', src='é\"x') VALUES ('p2', 'q2')",
        "ALTER TABLE seen ADD COLUMNS (late STRING) CASCADE",
        "INSERT INTO seen PARTITION (day='2026-11-22', src='n') VALUES ('p3', 'q3', 'l3')",
        "ALTER TABLE seen ADD PARTITION (day='2026-11-23', src='none')",
        "INSERT INTO seen PARTITION (day, src) SELECT 'p4', 'q4', 'l4', CAST(NULL AS DATE), 'd'",
    )
    url = database.url("seen", via=way)
    assert empty.load(url, columns={"id": "id", "partner_id": "src", "seen_at": "day"}).rows == 4
    assert stored(empty) == {
        ("p1", "a/b=c %d", at(20)),
        ("p2", 'é"x', at(21)),
        ("p3", "n", at(22)),
    }
    result = empty.match(url, column="id", carry=["late", "src", "day"], how="left").to_arrow()
    carried = zip(*(result[name].to_pylist() for name in ("late", "src", "day")), strict=True)
    assert {(late, src, day and str(day)) for late, src, day in carried} == {
        (None, "a/b=c %d", "2026-11-20"),
        (None, 'é"x', "2026-11-21"),
        ("l3", "n", "2026-11-22"),
        ("l4", "d", None),
    }


def test_decimals_and_others_come_out(database: Database, empty: idmatch.Table) -> None:
    """Carried columns are the same by each way, to the type."""
    database.run(
        "CREATE TABLE people (id STRING, d DECIMAL(9,2), f DOUBLE, b BOOLEAN, y DATE, i INT,"
        " z BINARY, t TINYINT) STORED AS PARQUET",
        "INSERT INTO people SELECT 'a', 12.30, 0.5, true, DATE '2026-11-20', 7,"
        " CAST('z' AS BINARY), 1Y",
        "INSERT INTO people SELECT 'a', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    )
    empty.load(pa.table({"id": ["a"], "partner_id": ["x"], "seen_at": [at(20)]}))
    found = list[Any]()
    for way in WAYS:
        rows = empty.match(database.url("people", via=way), column="id", carry="all").to_arrow()
        found.append(rows.sort_by("i").drop_columns(["t"]))
    assert found[0].num_rows == 2
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


def test_auto_takes_the_fastest_way_that_is_right(database: Database, empty: idmatch.Table) -> None:
    database.run(
        "CREATE TABLE base (id STRING, pid STRING, t TIMESTAMP) STORED AS PARQUET",
        "INSERT INTO base VALUES ('a', 'x', TIMESTAMP '2026-11-20 10:30:00')",
        "CREATE VIEW seen AS SELECT * FROM base WHERE id <> 'hidden'",
        "CREATE TABLE csv (id STRING, pid STRING, t TIMESTAMP) STORED AS TEXTFILE",
        "INSERT INTO csv SELECT * FROM base",
        "CREATE TABLE mixed (id STRING, pid STRING, t TIMESTAMP) PARTITIONED BY (k INT)"
        " STORED AS PARQUET",
        "INSERT INTO mixed PARTITION (k=1) SELECT * FROM base",
        "ALTER TABLE mixed SET FILEFORMAT ORC",
        "INSERT INTO mixed PARTITION (k=2) SELECT 'b', pid, t FROM base",
        "CREATE TABLE nothing (id STRING, pid STRING, t TIMESTAMP) STORED AS ORC",
    )
    for table, format, why in (
        ("base", "parquet", None),
        ("seen", "hive unload", "VIRTUAL_VIEW"),
        ("csv", "hive unload", "TextInputFormat"),
        ("mixed", "hive unload", "two formats"),
        ("nothing", "hive unload", "no files"),
    ):
        report = empty.load(database.url(table), columns=["id", "pid", "t"])
        assert report.rows == {"mixed": 2, "nothing": 0}.get(table, 1)
        (read,) = report.detected
        assert read.format == format
        assert (read.why is None) if why is None else why in str(read.why)
        if why is not None:
            with pytest.raises(idmatch.SourceError, match=f"{why}.*use via=unload or rows"):
                empty.load(database.url(table, via="files"))
    assert stored(empty) == {("a", "x", at(20, 10)), ("b", "x", at(20, 10))}


def test_names_of_old_files(database: Database, empty: idmatch.Table) -> None:
    """ORC without names counts by place; Parquet's names may have capitals."""
    database.run(
        "CREATE TABLE base (id STRING, pid STRING, t TIMESTAMP) STORED AS PARQUET",
        "INSERT INTO base VALUES ('a', 'x', TIMESTAMP '2026-11-20 10:30:00')",
        "INSERT OVERWRITE DIRECTORY '/tests/old' STORED AS ORC SELECT * FROM base",
        "CREATE EXTERNAL TABLE old (id STRING, pid STRING, t TIMESTAMP) STORED AS ORC"
        " LOCATION '/tests/old'",
    )
    assert database.ask("SELECT id, pid FROM old") == [("a", "x")]
    report = empty.load(database.url("old"), columns=["id", "pid", "t"])
    assert [read.format for read in report.detected] == ["orc"]
    assert stored(empty) == {("a", "x", at(20, 10))}


@pytest.mark.parametrize("way", ["unload", "rows"])
def test_queries(database: Database, cli: Cli, way: str) -> None:
    """The command line loads, matches and erases what a SELECT gives."""
    database.run(
        "CREATE TABLE base (id STRING, pid STRING, t TIMESTAMP) STORED AS PARQUET",
        "INSERT INTO base VALUES ('a', 'x', TIMESTAMP '2026-11-20 10:30:00'),"
        " ('b', 'y', TIMESTAMP '2026-11-20 10:30:00'), ('c', 'z', NULL)",
    )
    hive = [database.url(), "--via", way]
    query = "WITH q AS (SELECT * FROM base) SELECT t AS seen_at, id, pid AS partner_id FROM q;"
    ran = cli("load", "S", "t", *hive, "--query", query + "\n", "--json")
    assert (ran.json()["rows"], ran.json()["rejected"]) == (3, 1), ran.err
    assert ran.json()["detected"][0]["format"] == f"hive {way}"
    people = "SELECT id, count(*) AS n FROM base GROUP BY id -- each once"
    ran = cli("match", "S", "t", *hive, "--query", people, "--json", "-o", "out.csv")
    assert (ran.json()["population"], ran.json()["matched"]) == (3, 2), ran.err
    ran = cli(
        "erase", "S", "t", *hive, "--query", "SELECT id FROM base WHERE id = 'a'", "--columns", "id"
    )
    assert ran.code == 0, ran.err
    ran = cli("match", "S", "t", database.url("base"), "--column", "id", "--json")
    assert ran.json()["matched"] == 1
    assert 'read parquet: id from "id"' in cli("match", "S", "t", database.url("base")).err
    assert database.staged() == []


def test_what_is_wrong_is_said(database: Database, empty: idmatch.Table, cli: Cli) -> None:
    database.run(
        "CREATE TABLE base (id STRING, tags ARRAY<STRING>) STORED AS PARQUET",
        "INSERT INTO base SELECT 'a', array('p', 'q')",
    )
    url = database.url("base")
    wrong: dict[str | idmatch.Hive, str] = {
        database.url("nosuch"): "Table not found",
        url.replace(database.name, "nosuch"): "Database does not exist: nosuch",
        database.url("base", auth="md5"): "auth is none of none, ldap, kerberos, nosasl",
        database.url("base", colour="red"): "has an option that is none of auth, via",
        database.url("base", timeout="soon"): "timeout is no length of time",
        database.url(): "names no table",
        database.url("a/b"): "no database and table",
        database.url("base", port=1): "no connection to .*Connection refused",
        database.url("base", auth="nosasl"): "closed the connection",
        idmatch.Hive(url, query="SELECT 1"): "names a table beside a query",
        idmatch.Hive(database.url(), query="SELECT 1", via="files"): "a query has no files",
        idmatch.Hive(database.url(), query="SELEC 1"): "ParseException.*check the query",
        idmatch.Hive(database.url(), query="SELECT id, id FROM base"): "mbiguous|[Dd]uplicate",
        idmatch.Hive(database.url(), query=BREAKS): "CHECK.*check the query",
    }
    for source, said in wrong.items():
        with pytest.raises(idmatch.Error, match=said):
            empty.match(source, column="id")
    with pytest.raises(idmatch.SourceError, match=r"'tags' \(array\) come as text"):
        empty.match(database.url("base", via="rows"), column="tags")
    assert empty.match(url, column="tags").population == 2
    for arguments, said in (
        (["load", "S", "t", "a.csv", "--via", "rows"], "--query and --via are for Hive"),
        (["load", "S", "t", url, url, "--query", "SELECT 1"], "--query is for one"),
    ):
        assert said in cli(*arguments).err


def test_no_secret_is_shown(database: Database, empty: idmatch.Table) -> None:
    secret = "hunter2"
    url = database.url("nosuch", staging=f"/{secret}").replace("//", f"//me:{secret}@", 1)
    for source in (url, idmatch.Hive(url.replace("/nosuch", ""), query="SELECT x")):
        with pytest.raises(idmatch.Error) as raised:
            empty.load(source)
        assert secret not in str(raised.value) + repr(source if source is not url else "")
