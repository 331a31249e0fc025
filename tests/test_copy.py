"""Copies between stores in directories: from Python and from the command line."""

import signal
import subprocess
import sys
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DAY, NOON, SMALL, Cli, observations


def everything(table: idmatch.Table) -> list[tuple[str, str, object]]:
    """Every row of a table that keeps the last date, found by its ids."""
    ids = pa.table({"id": SMALL.column("id").unique()})
    return sorted(zip(*table.match(ids).to_arrow().to_pydict().values(), strict=True))


def test_all_tables_with_rows_options_and_erasures(loaded: Cli) -> None:
    options = ["--keep", "all", "--retention", "999mo"]
    assert loaded("load", "store", "other", "small.parquet", *options).code == 0
    assert loaded("erase", "store", "small", "--id", "a", "--at", "2026-02-25").code == 0
    ran = loaded("copy", "store", "copied", "--json")
    assert (ran.code, ran.err) == (0, "")
    result = ran.json()
    assert set(result) == {"tables", "seconds"}
    other, small = result["tables"]
    assert small["checksum"] == small["checksum_there"]
    assert len(small["checksum"]) == 32
    shown = {
        key: small[key] for key in small if key not in ("seconds", "checksum", "checksum_there")
    }
    assert shown == {
        "table": "small",
        "name": "small",
        "rows": 3,
        "sent": 3,
        "rows_there": 3,
        "erasures": 1,
        "erasures_lost": 0,
    }
    assert (other["rows"], other["rows_there"]) == (5, 5)
    listed = {
        table["name"]: table for table in loaded("tables", "copied", "--json").json()["tables"]
    }
    assert (listed["other"]["keep"], listed["other"]["retention"]) == ("all", "999mo")
    with idmatch.open(loaded.home / "store") as store, idmatch.open(loaded.home / "copied") as copy:
        assert everything(copy.table("small")) == everything(store.table("small"))
        copy.table("small").upsert(observations(("a", "late", NOON - 20 * DAY), ("a", "new", NOON)))
        partner_ids = copy.table("small").partner_ids("a").column("partner_id").to_pylist()
        assert partner_ids == ["new", "x"]
        assert copy.table("small").verify() == []


def test_repeated_and_for_people(loaded: Cli) -> None:
    assert loaded("copy", "store", "copied", "small").code == 0
    assert loaded("upsert", "store", "small", "--id", "d", "--partner-id", "x").code == 0
    header, line, _ = loaded("copy", "store", "copied", "small").out.splitlines()
    assert header.split()[:4] == ["table", "as", "rows", "sent"]
    sent = line.split()[3]
    assert line.split()[:5] == ["small", "small", "5", sent, "5"]
    # The whole scan range of "d", which the seed of a store may let another id share.
    assert 1 <= int(sent) < 5
    again = loaded("copy", "store", "copied", "small", "--json").json()
    assert again["tables"][0]["sent"] == 0


def test_to_another_name_in_the_same_store(loaded: Cli) -> None:
    ran = loaded("copy", "store", "store", "small", "--as", "twin", "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["tables"][0]["rows_there"] == 4
    shown = loaded("lookup", "store", "twin", "--partner-id", "x", "--json").json()["matches"]
    assert [match["id"] for match in shown] == ["a", "b"]


def test_a_destination_with_rows_of_its_own(loaded: Cli) -> None:
    own = ["--id", "own", "--partner-id", "x"]
    assert loaded("upsert", "other", "small", *own, "--create").code == 0
    ran = loaded("copy", "store", "other", "small", "--json")
    assert (ran.code, ran.json()["error"]["type"]) == (1, "differs")
    assert "has 1 rows (checksum" in ran.err
    assert "the source has 4" in ran.err
    merged = loaded("copy", "store", "other", "small", "--merge", "--json")
    assert merged.code == 0
    (report,) = merged.json()["tables"]
    assert (report["rows"], report["rows_there"]) == (4, 5)
    assert report["checksum"] != report["checksum_there"]
    assert "(merged)" in loaded("copy", "store", "other", "small", "--merge").out


def test_what_cannot_be_a_copy(loaded: Cli) -> None:
    loaded("load", "other", "small", "small.parquet", "--keep", "all")
    options = loaded("copy", "store", "other", "small")
    assert options.code == 1
    assert "keep all and retention none" in options.err
    loaded("load", "other", "theirs", "small.parquet")
    loaded("erase", "other", "theirs", "--id", "a")
    loaded("erase", "store", "small", "--id", "b")
    erasures = loaded("copy", "store", "other", "small", "--as", "copied")
    assert erasures.code == 1
    assert "has 1 erasures" in erasures.err
    accepted = loaded(
        *("copy", "store", "other", "small", "--as", "copied", "--accept-lost-erasures", "--json")
    )
    assert accepted.code == 0
    assert accepted.json()["tables"][0]["erasures_lost"] == 1
    assert "1 erasures could not be taken over" in accepted.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["copy", "store"], 2),
        (["copy", "store", "copied", "--as", "twin"], 2),
        (["copy", "store", "./store", "small"], 2),
        (["copy", "store", "copied", "small", "--batch-rows", "0"], 2),
        (["copy", "store", "copied", "small", "--as", "bad/name"], 2),
        (["copy", "nowhere", "copied"], 1),
        (["copy", "store", "copied", "small", "missing"], 1),
    ],
)
def test_wrong_usage_and_failures(loaded: Cli, arguments: list[str], code: int) -> None:
    ran = loaded(*arguments, "--json")
    assert (ran.code, ran.has_no_result()) == (code, True)
    assert "error: " in ran.err
    assert not (loaded.home / "copied" / "MANIFEST").exists()


# Kills itself while it reads on after its first batch, which is there as segments.
COPY_AND_DIE = """
import glob, os, signal, idmatch
from idmatch import _core

def on_progress(stage, done, unit):
    if stage == "copy" and glob.glob("copied/segments/*.seg"):
        os.kill(os.getpid(), signal.SIGKILL)

with idmatch.open("store") as store, idmatch.open("copied") as copied:
    _core.report_to(on_progress)
    store.table("t").copy_to(copied, batch_rows=2_000)
"""


def test_killed_in_the_middle_and_repeated(cli: Cli) -> None:
    ids = pa.array([f"id{n}" for n in range(600_000)])
    dates = pa.array(["2026-01-01"] * len(ids))
    pq.write_table(
        pa.table({"id": ids, "partner_id": ids, "seen_at": dates}), cli.home / "a.parquet"
    )
    loaded = cli(
        "load",
        "store",
        "t",
        "a.parquet",
        "--columns",
        "id,partner_id,seen_at",
    )
    assert loaded.code == 0, loaded.err
    copying = subprocess.run([sys.executable, "-c", COPY_AND_DIE], cwd=cli.home)
    assert copying.returncode == -signal.SIGKILL
    with idmatch.open(cli.home / "copied") as store:
        there = store.table("t").stats().rows
    assert there < 600_000
    (report,) = cli("copy", "store", "copied", "--json").json()["tables"]
    assert (report["rows"], report["rows_there"]) == (600_000, 600_000)
    assert report["checksum"] == report["checksum_there"]
    assert 600_000 - there <= report["sent"] <= 600_000
    assert cli("verify", "copied").code == 0


def test_from_python(table: idmatch.Table, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "copied") as copied:
        report = table.copy_to(copied, name="twin")
        assert (report.table, report.name) == ("small", "twin")
        assert (report.rows, report.sent, report.rows_there) == (4, 4, 4)
        assert everything(copied.table("twin")) == everything(table)
        copied.table("twin").upsert_one("z", "z", NOON)
        with pytest.raises(idmatch.Differs, match="has 5 rows"):
            table.copy_to(copied, name="twin")
        assert table.copy_to(copied, name="twin", merge=True).rows_there == 5
        with pytest.raises(idmatch.InvalidArgument, match="batch_rows"):
            table.copy_to(copied, batch_rows=0)
    with pytest.raises(idmatch.InvalidArgument, match="closed"):
        table.copy_to(copied)
