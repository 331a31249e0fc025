"""Dates as partners write them: by a pattern, as numbers, in a time zone, or once for a file."""

import json
from datetime import UTC, date, datetime

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Cli, rejects_file

DAY = datetime(2026, 11, 3, tzinfo=UTC)
SECONDS = int(DAY.timestamp())


@pytest.fixture
def store(cli: Cli) -> idmatch.Store:
    """An empty store in the directory where commands run."""
    return idmatch.open(cli.home / "store")


def seen(cli: Cli, partner_id: str, table: str = "t") -> datetime | None:
    """The date of the id "a" and a partner ID."""
    with idmatch.open(cli.home / "store") as store:
        return store.table(table).last_seen("a", partner_id)


def test_a_pattern_of_days_first(cli: Cli) -> None:
    (cli.home / "days.csv").write_text("id,partner_id,date\na,p,03/11/2026\na,q,2026-11-03\n")
    loaded = cli("load", "store", "t", "days.csv", "--date-format", "%d/%m/%Y", "--json")
    assert (loaded.code, loaded.json()["rejected"]) == (3, 1)
    assert (seen(cli, "p"), seen(cli, "q")) == (DAY, None)
    (_, reject) = rejects_file(cli.home).read_text().splitlines()
    assert ",2,seen_at," in reject
    assert "0000-00-00" in reject
    assert "2026-11-03" not in reject
    assert "%d/%m/%Y" in reject
    for wrong in ("%H:%M", "dd/mm/yyyy"):
        refused = cli("load", "store", "t", "days.csv", "--date-format", wrong)
        assert (refused.code, wrong in refused.err) == (2, True), refused.err


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ("ada@example.com", "example"),
        ("4915112345678901", "49151123"),
        ("+49 151 123", "151 123"),
        ("2026-99-99", "99-99"),
        ("2026-03-29T02:30:00", "03-29T02:30"),
    ],
)
@pytest.mark.parametrize(
    "rules",
    [["--tz", "Europe/Paris"], ["--date-format", "%d/%m/%Y"], ["--date-format", "s"]],
)
def test_a_reason_has_no_value(cli: Cli, wrong: str, part: str, rules: list[str]) -> None:
    # As where the column of dates is named by mistake.
    (cli.home / "wrong.csv").write_text(f"id,partner_id,seen_at\na,p,{wrong}\n")
    load = ("load", "store", "t", "wrong.csv", "-vv", *rules)
    for ran in (cli(*load), cli(*load, "--strict", "--json")):
        assert ran.code in (1, 3)
        assert part not in ran.out + ran.err
    assert part not in rejects_file(cli.home).read_text()


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
)
def test_numbers_since_1970(cli: Cli, unit: str, factor: int) -> None:
    rows = {"id": ["a"], "partner_id": ["p"], "ts": [SECONDS * factor]}
    pq.write_table(pa.table(rows), cli.home / "numbers.parquet")
    bare = cli("load", "store", "bare", "numbers.parquet", "--strict")
    if unit == "ms":
        assert (bare.code, seen(cli, "p", "bare")) == (0, DAY)
    else:
        assert bare.code == 1
        assert f"say --date-format {unit}" in bare.err
    said = cli("load", "store", "t", "numbers.parquet", "--date-format", unit)
    assert (said.code, seen(cli, "p")) == (0, DAY), said.err
    # The same in JSON lines.
    line = json.dumps({"id": "a", "partner_id": "json", "ts": SECONDS * factor})
    upserted = cli("upsert", "store", "t", "-", "--date-format", unit, stdin=line)
    assert (upserted.code, seen(cli, "json")) == (0, DAY), upserted.err


def test_numbers_that_no_writer_means_are_rejected(cli: Cli) -> None:
    lines = [
        {"id": "a", "partner_id": "day", "seen_at": 20261103},
        {"id": "a", "partner_id": "zero", "seen_at": 0},
        {"id": "a", "partner_id": "huge", "seen_at": 10**400},
        {"id": "a", "partner_id": "huger", "seen_at": 10**4000},
        {"id": "a", "partner_id": "last", "seen_at": "2026-11-03"},
    ]
    stdin = "\n".join(map(json.dumps, lines))
    ran = cli("upsert", "store", "t", "-", "--create", "--json", stdin=stdin)
    assert (ran.code, ran.json()["rows"], ran.json()["rejected"]) == (3, 5, 3), ran.err
    found = [seen(cli, name) for name in ("day", "zero", "huge", "huger", "last")]
    assert found == [DAY, None, None, None, DAY]


def test_local_times(cli: Cli) -> None:
    (cli.home / "local.csv").write_text(
        "id,partner_id,time\n"
        "a,summer,2026-07-01 12:00:00\na,winter,2026-02-01 12:00:00\n"
        "a,skipped,2026-03-29 02:30:00\na,repeated,2025-10-26 02:30:00\n"
        "a,instant,2026-07-01T12:00:00Z\n"
    )
    ran = cli("load", "store", "t", "local.csv", "--tz", "Europe/Paris", "--json")
    assert (ran.code, ran.json()["rejected"]) == (3, 1)
    expected = {
        "summer": datetime(2026, 7, 1, 10, tzinfo=UTC),
        "winter": datetime(2026, 2, 1, 11, tzinfo=UTC),
        "skipped": None,
        "repeated": datetime(2025, 10, 26, 1, 30, tzinfo=UTC),
        "instant": datetime(2026, 7, 1, 12, tzinfo=UTC),
    }
    assert {name: seen(cli, name) for name in expected} == expected
    refused = cli("load", "store", "t", "local.csv", "--tz", "Paris")
    assert (refused.code, "Europe/Paris" in refused.err) == (2, True)


def test_one_date_for_a_file_without_any(cli: Cli, store: idmatch.Store) -> None:
    (cli.home / "pairs.csv").write_text("id,partner_id\na,p\n")
    ran = cli("load", "store", "t", "pairs.csv", "--dated", "2026-11-03")
    assert (ran.code, seen(cli, "p")) == (0, DAY), ran.err
    upserted = cli(
        "upsert", "store", "t", "-", "--dated", "2026-11-04", stdin="id,partner_id\na,p\n"
    )
    assert (upserted.code, seen(cli, "p")) == (0, DAY.replace(day=4)), upserted.err
    # Local times have a zone here, too.
    ran = cli("load", "store", "t", "pairs.csv", "--dated", "2026-11-05", "--tz", "Asia/Tokyo")
    assert (ran.code, seen(cli, "p")) == (0, datetime(2026, 11, 4, 15, tzinfo=UTC)), ran.err
    for wrong in (
        ["--dated", "90d"],
        ["--dated", "soon"],
        ["--dated", "2026-11-03", "--date-format", "s"],
    ):
        assert cli("load", "store", "t", "pairs.csv", *wrong).code == 2
    table = store.table("t")
    rows = pa.table({"id": ["a"], "partner_id": ["q"]})
    table.load(rows, dated=date(2026, 11, 6))
    assert table.last_seen("a", "q") == DAY.replace(day=6)
    table.upsert(rows, dated=DAY.replace(day=7))
    assert table.last_seen("a", "q") == DAY.replace(day=7)
    with table.begin() as session:
        session.add(rows, dated="2026-11-08T12:00:00+02:00")
    assert table.last_seen("a", "q") == DAY.replace(day=8, hour=10)
    with pytest.raises(idmatch.InvalidArgument, match="no date format"):
        table.load(rows, dated=DAY, date_format="s")
