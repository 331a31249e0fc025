"""Upserts: from Python, and from the command line in every form."""

import io
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, SMALL, Cli, observations, pairs, rejects_file


def test_an_upsert_is_seen_at_once_in_both_directions(store: idmatch.Store) -> None:
    table = store.create_table("t")
    report = table.upsert(observations(("a", "x", NOON)))
    assert (report.rows, report.rejected, report.rejects) == (1, 0, None)
    assert pairs(table.partner_ids("a")) == [("x", NOON)]
    assert pairs(table.ids("x")) == [("a", NOON)]
    assert table.match(pa.table({"id": ["a", "b"]})).rows == 1
    table.upsert(observations(("a", "x", NOON - timedelta(days=1))))
    assert table.last_seen("a", "x") == NOON


def test_upserts_and_loads_are_one_table(store: idmatch.Store) -> None:
    loaded, upserted = store.create_table("loaded"), store.create_table("upserted")
    loaded.load(SMALL)
    upserted.load(SMALL.slice(0, 2))
    upserted.upsert(SMALL.slice(1))
    for name in "abc":
        assert loaded.partner_ids(name) == upserted.partner_ids(name)
    for name in "xyz":
        assert loaded.ids(name) == upserted.ids(name)
    assert upserted.verify() == []


def test_upserts_outlive_the_store(tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("t").upsert(SMALL)
    table = idmatch.open(tmp_path / "store").table("t")
    assert table.stats().rows == table.stats().memtable_rows == SMALL.num_rows
    assert pairs(table.partner_ids("b")) == [("x", NOON - timedelta(days=30))]


def test_one_by_one(store: idmatch.Store) -> None:
    table = store.create_table("t", keep="all")
    dates: list[datetime | str] = [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.isoformat(),
        NOON + timedelta(microseconds=999),
    ]
    for seen_at in dates:
        table.upsert_one("a", "x", seen_at)
    assert table.history("a", "x") == [NOON]
    table.upsert_one("a", "x", NOON.date(), durability="always")
    assert table.history("a", "x")[1] == NOON.replace(hour=0)
    before = datetime.now(UTC)
    table.upsert_one("a", "y")
    newest = table.latest_partner_id("a")
    assert newest is not None
    assert newest.value == "y"
    assert abs(newest.seen_at - before) < timedelta(minutes=1)
    assert pairs(table.ids("y")) == [("a", newest.seen_at)]


@pytest.mark.parametrize(
    ("id", "partner_id", "seen_at", "reason"),
    [
        ("", "x", NOON, "id is empty"),
        ("a", "x" * 1025, NOON, "partner_id is 1025 bytes long"),
        ("a", "x", datetime(1969, 12, 31), "seen_at is out of range"),
        ("a", "x", datetime.now(UTC) + timedelta(days=2), "seen_at is out of range"),
        ("a", "x", "90d", "seen_at is no date"),
        ("a", "x", "", "seen_at is missing"),
    ],
)
def test_one_that_is_bad(
    store: idmatch.Store, id: str, partner_id: str, seen_at: datetime | str, reason: str
) -> None:
    table = store.create_table("t")
    with pytest.raises(idmatch.BadInput, match=reason):
        table.upsert_one(id, partner_id, seen_at)
    assert table.stats().rows == 0


def test_many_threads_upsert(store: idmatch.Store) -> None:
    table = store.create_table("t")

    def upsert(number: int) -> None:
        table.upsert(observations((f"id-{number}", "shared", NOON)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(upsert, range(200)))
    assert table.ids("shared").num_rows == 200


def test_one_process_writes_and_others_read(cli: Cli) -> None:
    pq.write_table(observations(("b", "y", NOON)), cli.home / "more.parquet")
    with idmatch.open(cli.home / "store") as writer:
        writer.create_table("t").upsert(observations(("a", "x", NOON)))
        found = cli("lookup", "store", "t", "--id", "a", "--json").json()
        assert [match["partner_id"] for match in found["matches"]] == ["x"]
        refused = cli("upsert", "store", "t", "more.parquet", "--json")
        assert refused.code == 75
        error = refused.json()["error"]
        assert (error["type"], error["pid"]) == ("busy", os.getpid())
        assert datetime.fromisoformat(error["since"]).tzinfo == UTC
        assert f"process {os.getpid()} (" in refused.err
        assert "is writing" in refused.err
    assert cli("upsert", "store", "t", "more.parquet").code == 0


def test_bad_rows_are_told(
    store: idmatch.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = store.create_table("t")
    rows = observations(("a", "x", NOON), ("", "y", NOON), ("c", "z", NOON))
    report = table.upsert(rows)
    assert (report.rows, report.rejected) == (3, 1)
    assert "2,id,is empty" in Path(report.rejects or "").read_text()
    assert table.stats().rows == 2
    with pytest.raises(idmatch.BadInput, match=r"row 2.*batches before it stay"):
        table.upsert(rows, strict=True)


def test_one_observation(cli: Cli) -> None:
    one = ["--id", "a", "--partner-id", "x"]
    ran = cli("upsert", "store", "t", *one, "--create", "--json")
    assert ran.code == 0
    fields = {"rows", "rejected", "rejects", "seconds", "columns", "hex_columns", "created"}
    assert set(ran.json()) == fields | {"detected"}
    cli("upsert", "store", "t", "--id", "a", "--partner-id", "y", "--seen-at", "2026-03-01T12:00Z")
    matches = cli("lookup", "store", "t", "--id", "a", "--json").json()["matches"]
    assert [match["partner_id"] for match in matches] == ["x", "y"]
    assert matches[1]["seen_at"] == "2026-03-01T12:00:00.000Z"


def test_a_file(cli: Cli) -> None:
    pq.write_table(SMALL.rename_columns(["k1", "k2", "k3"]), cli.home / "a.parquet")
    ran = cli("upsert", "store", "t", "a.parquet", "--columns", "k1,k2,k3", "--create", "--json")
    assert (ran.code, ran.json()["rows"]) == (0, 5)
    assert cli("lookup", "store", "t", "--partner-id", "z").out.count("c ") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "FILE or one observation"),
        (["--id", "a"], "both --id and --partner-id"),
        (["a.csv", "--id", "a", "--partner-id", "x"], "FILE or one observation"),
        (["a.csv", "--seen-at", "2026-03-01"], "for one observation"),
        (["-", "--columns", "a,b,c,d"], "there are 3 columns"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], reason: str) -> None:
    ran = cli("upsert", "store", "t", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert reason in ran.err
    assert not (cli.home / "store").exists()


def piped(cli: Cli, data: bytes, *arguments: str) -> tuple[int, Any, str]:
    """Exit code, JSON and stderr of an upsert of standard input."""
    command = cli.command("upsert", "store", "t", "-", "--create", "--json", *arguments)
    ran = subprocess.run(command, input=data, capture_output=True, cwd=cli.home, timeout=120)
    return ran.returncode, json.loads(ran.stdout or b"null"), ran.stderr.decode()


def rejects(cli: Cli) -> list[list[str]]:
    """Row, column and reason of every rejected row."""
    lines = rejects_file(cli.home).read_text().splitlines()[1:]
    return [line.split(",")[1:3] for line in lines]


def test_json_lines(cli: Cli) -> None:
    rows = [
        {"cookie": "a", "uid": 12, "at": "2026-03-01"},
        {"cookie": "b", "uid": "x", "at": 1772323200000, "more": [1]},
        {"cookie": "c", "at": "2026-03-01"},
        {"cookie": "d", "uid": True, "at": "2026-03-01"},
        {"cookie": "e", "uid": "\ud800", "at": "2026-03-01"},
        {"cookie": "f", "uid": "y", "at": -(10**15)},
    ]
    lines = [json.dumps(row) for row in rows]
    data = "\n".join(["", lines[0], "{not json", *lines[1:], "[]", '{"cookie": "g"']).encode()
    code, report, err = piped(cli, data, "--columns", "cookie,uid,at")
    assert (code, report["rows"], report["rejected"]) == (3, 9, 7)
    assert str(report["rejects"]) in err
    assert sorted(rejects(cli)) == [
        ["2", ""],
        ["4", "partner_id"],
        ["5", ""],
        ["6", ""],
        ["7", "seen_at"],
        ["8", ""],
        ["9", ""],
    ]
    answers = cli("lookup", "store", "t", "--id", "b", "--json").json()["matches"]
    assert answers == [{"partner_id": "x", "seen_at": "2026-03-01T00:00:00.000Z"}]
    assert cli("lookup", "store", "t", "--partner-id", "12", "--json").json()["matches"]


def test_csv(cli: Cli) -> None:
    data = (
        b'id;partner_id;seen_at\r\n"a;1";"x\ny";2026-03-01\r\nb\r\n;z;2026-03-01\nc;\xff;2026-03-01'
    )
    code, report, _ = piped(cli, data)
    assert (code, report["rows"], report["rejected"]) == (3, 4, 3)
    assert sorted(rejects(cli)) == [["2", ""], ["3", "id"], ["4", "partner_id"]]
    answers = cli("lookup", "store", "t", "--id", "a;1", "--json").json()["matches"]
    assert answers[0]["partner_id"] == "x\ny"


def test_arrow(cli: Cli) -> None:
    data = io.BytesIO()
    with pa.ipc.new_stream(data, SMALL.schema) as writer:
        for batch in SMALL.to_batches(max_chunksize=2):
            writer.write_batch(batch)
    named = {column: [column] for column in ("id", "partner_id", "seen_at")}
    assert piped(cli, data.getvalue())[:2] == (
        0,
        {
            "rows": 5,
            "rejected": 0,
            "seconds": pytest.approx(0, abs=60),
            "columns": named,
            "hex_columns": [],
            "created": True,
            "rejects": None,
            "detected": [
                {
                    "format": "arrow",
                    "delimiter": None,
                    "encoding": None,
                    "dates": "timestamp[ms, tz=UTC]",
                }
            ],
        },
    )
    torn = piped(cli, data.getvalue()[:-200])
    assert torn[0] == 1
    assert "standard input" in torn[2]


def test_nothing_on_standard_input(cli: Cli) -> None:
    none: dict[str, list[str]] = {"id": [], "partner_id": [], "seen_at": []}
    assert piped(cli, b"")[:2] == (
        0,
        {
            "rows": 0,
            "rejected": 0,
            "seconds": pytest.approx(0, abs=60),
            "columns": none,
            "hex_columns": [],
            "created": True,
            "rejects": None,
            "detected": [],
        },
    )


def test_strict_stops_at_the_first_bad_row(cli: Cli) -> None:
    rows = b'{"id": "a", "partner_id": "x", "seen_at": "2026-03-01"}\n{\n'
    code, report, err = piped(cli, rows, "--strict")
    assert (code, report["error"]["row"]) == (1, 2)
    assert "standard input, row 2" in err
    assert "rows before it stay" in err


def test_rows_are_upserted_as_they_arrive(cli: Cli) -> None:
    command = cli.command("upsert", "store", "t", "-", "--create")
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=cli.home) as running:
        assert running.stdin
        running.stdin.write(b'{"id": "a", "partner_id": "x", "seen_at": "2026-03-01"}\n')
        running.stdin.flush()
        seen: list[Any] = []
        while not seen:
            assert running.poll() is None
            ran = cli("lookup", "store", "t", "--id", "a", "--json")
            seen = ran.json()["matches"] if ran.code == 0 else []
        running.stdin.close()
        assert running.wait(60) == 0


def test_compact(cli: Cli) -> None:
    for number in range(3):
        rows = observations(*((f"id-{number}-{n}", f"p-{n}", NOON) for n in range(10)))
        pq.write_table(rows, cli.home / "rows.parquet")
        assert cli("load", "store", "t", "rows.parquet").code == 0
    cli("upsert", "store", "t", "--id", "a", "--partner-id", "x")
    (done,) = cli("compact", "store", "--json").json()["tables"]
    assert (done["name"], done["segments_before"], done["segments"]) == ("t", 6, 2)
    (listed,) = cli("tables", "store", "--json").json()["tables"]
    assert (listed["rows"], listed["segments"], listed["memtable_rows"]) == (31, 2, 0)
    assert cli("compact", "store", "t").out.startswith("t: 2 segments became 2")
    assert cli("verify", "store").code == 0
    assert cli("compact", "store", "nothing").code == 1
    assert cli("compact", "nowhere").code == 1


def test_compaction_drops_what_is_too_old(store: idmatch.Store) -> None:
    table = store.create_table("t", keep="all", retention="30d")
    today = datetime.now(UTC)
    table.load(observations(("a", "new", today), ("a", "old", today - timedelta(days=31))))
    assert (table.stats().rows, table.partner_ids("a").num_rows) == (2, 1)
    table.compact()
    assert (table.stats().rows, table.partner_ids("a").num_rows) == (1, 1)
