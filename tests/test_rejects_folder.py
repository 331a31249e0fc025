"""Where rejected rows go by default, and how many of them a load takes."""

import os
import re
import stat
import time
from pathlib import Path

import idmatch
import pytest
from conftest import NOON, Cli, rejects_file

BAD = "id,partner_id,seen_at\n" + "a,x,2026-03-01\n" * 8 + ",x,2026-03-01\na,,2026-03-01\n"
BAD_ROWS, ALL_ROWS = 2, 10


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of ten rows, of which two are rejected."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text(BAD)
    return "bad.csv"


def test_a_file_for_each_load(store: idmatch.Store, bad: str, tmp_path: Path) -> None:
    table = store.create_table("t.of-mine")
    reports = [table.load(bad), table.upsert(bad), table.load(bad)]
    files = {str(report.rejects) for report in reports}
    assert len(files) == len(reports)
    for path in map(Path, files):
        assert path.parent == tmp_path / "store.rejects"
        assert re.fullmatch(rf"t\.of-mine-\d{{8}}T\d{{6}}Z-{os.getpid()}(-\d)?\.csv", path.name)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert len(path.read_text().splitlines()) == 1 + BAD_ROWS
    assert stat.S_IMODE((tmp_path / "store.rejects").stat().st_mode) == 0o700
    assert not list(tmp_path.glob("*.rejects.csv"))


def test_old_files_are_removed(store: idmatch.Store, bad: str, tmp_path: Path) -> None:
    table = store.create_table("t")
    table.load(bad)
    old, younger = tmp_path / "store.rejects" / "t-20200101T000000Z-1.csv", rejects_file(tmp_path)
    old.write_text("old")
    other = tmp_path / "store.rejects" / "notes.csv"
    other.write_text("mine")
    now = time.time()
    for path, days in ((old, 31), (other, 31), (younger, 29)):
        os.utime(path, (now, now - days * 86_400))
    table.load(bad)
    assert (old.exists(), younger.exists(), other.exists()) == (False, True, True)


def test_a_folder_of_others_is_not_used(store: idmatch.Store, bad: str, tmp_path: Path) -> None:
    table = store.create_table("t")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "store.rejects").symlink_to(elsewhere)
    with pytest.raises(idmatch.IoError, match="rejects="):
        table.load(bad)
    assert list(elsewhere.iterdir()) == []
    assert table.ids("x").num_rows == 0


@pytest.mark.parametrize("most", [2, "2", "20%", "100%"])
def test_as_many_as_may_be(store: idmatch.Store, bad: str, most: int | str) -> None:
    table = store.create_table("t")
    report = table.load(bad, max_rejects=most)
    assert (report.rows, report.rejected) == (ALL_ROWS, BAD_ROWS)
    assert table.latest_id("x") == ("a", NOON.replace(hour=0))


@pytest.mark.parametrize("most", [1, 0, "0", "19.9%", "0%"])
def test_more_load_nothing(store: idmatch.Store, bad: str, most: int | str, tmp_path: Path) -> None:
    table = store.create_table("t")
    with pytest.raises(idmatch.BadInput, match="nothing was loaded"):
        table.load(bad, max_rejects=most)
    assert table.latest_id("x") is None
    assert len(rejects_file(tmp_path).read_text().splitlines()) == 1 + BAD_ROWS


@pytest.mark.parametrize("most", [-1, "-1", "some", "101%", "%", True, "nan%"])
def test_no_number_of_rejects(store: idmatch.Store, bad: str, most: int | str) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="1%"):
        store.create_table("t").load(bad, max_rejects=most)


def test_malformed_lines_count(cli: Cli) -> None:
    (cli.home / "in.csv").write_text("id,partner_id,seen_at\na,x,2026-03-01\nbroken\nb\n")
    ran = cli("load", "store", "t", "in.csv", "--max-rejects", "1", "--json")
    assert (ran.code, ran.json()["error"]["type"]) == (1, "bad-input")
    assert "says which rows" in ran.err
    assert cli("lookup", "store", "t", "--id", "a", "--json").json() == {"matches": []}
    assert cli("load", "store", "t", "in.csv", "--max-rejects", "67%", "--json").code == 3


def test_a_dry_run(cli: Cli) -> None:
    lines = [f"id{n},p{n},2026-03-01" for n in range(20)]
    (cli.home / "in.csv").write_text(
        "\n".join(["cookie;uid;date", *lines, "x,,"]).replace(",", ";")
    )
    ran = cli("load", "store", "t", "in.csv", "--dry-run", "--columns", ",uid")
    assert ran.code == 3
    for shown in ("id9", "p9", "2026-03-01T00:00:00.000Z", "in.csv", "partner_id", "21 rows"):
        assert shown in ran.out, ran.out
    assert "id10" not in ran.out
    assert 'id from "cookie" (guessed)' in ran.err
    assert 'partner_id from "uid",' in ran.err
    document = cli("load", "store", "t", "in.csv", "--dry-run", "--json").json()
    assert (document["rows"], document["rejected"], len(document["first"])) == (21, 1, 10)
    assert document["first"][0] == {
        "id": "id0",
        "partner_id": "p0",
        "seen_at": "2026-03-01T00:00:00.000Z",
    }
    (rejected,) = document["first_rejected"]
    assert (rejected["file"], rejected["row"]) == ("in.csv", 21)
    assert document["detected"] == [
        {"format": "csv", "delimiter": ";", "encoding": "utf-8", "dates": "ISO 8601"}
    ]
    assert document["store_bytes_at_most"] > 0
    assert sorted(path.name for path in cli.home.iterdir()) == ["in.csv"]
    over = cli("load", "store", "t", "in.csv", "--dry-run", "--max-rejects", "0")
    assert over.code == 1


def test_a_dry_run_says_enough_disk(cli: Cli) -> None:
    rows = "".join(f"{n:032x},{n:016x},2026-03-01\n" for n in range(50_000))
    (cli.home / "in.csv").write_text("id,partner_id,seen_at\n" + rows)
    said = cli("load", "store", "t", "in.csv", "--dry-run", "--json").json()["store_bytes_at_most"]
    assert cli("load", "store", "t", "in.csv").code == 0
    files = sum(path.stat().st_size for path in (cli.home / "store" / "segments").iterdir())
    assert files <= said <= 4 * files
