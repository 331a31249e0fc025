"""Records of runs, and the note of a writer, beside a store."""

import json
import os
import stat
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, SMALL, Cli, observations


def runs(home: Path) -> list[dict[str, Any]]:
    """The records of the store "store" in a directory, oldest first."""
    files = sorted((home / "store.runs").glob("runs-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    times = {"time", "seconds"}
    return [{key: value for key, value in one.items() if key not in times} for one in records]


def test_commands_are_recorded(loaded: Cli) -> None:
    assert loaded("match", "store", "small", "people.parquet").code == 0
    assert loaded("erase", "store", "small", "--id", "b").code == 0
    rows = '{"id": "e", "partner_id": "x", "seen_at": "2026-03-02"}\n{"id": "f"}\n'
    assert loaded("upsert", "store", "small", "-", stdin=rows).code == 3
    assert loaded("tables", "store", "--count").code == 0
    # These are none.
    assert loaded("lookup", "store", "small", "--id", "a").code == 0
    assert loaded("tables", "store").code == 0
    assert loaded("upsert", "store", "small", "--id", "a", "--partner-id", "x").code == 0
    assert without_times(runs(loaded.home)) == [
        {
            "kind": "load",
            "table": "small",
            "outcome": "done",
            "rows": 5,
            "rejected": 0,
            "newest": "2026-03-01T12:00:00.000Z",
        },
        {"kind": "match", "table": "small", "outcome": "done", "population": 3, "matched": 2},
        {"kind": "erase", "table": "small", "outcome": "done", "rows": 1, "rejected": 0},
        {
            "kind": "upsert",
            "table": "small",
            "outcome": "done",
            "rows": 2,
            "rejected": 1,
            "newest": "2026-03-02T00:00:00.000Z",
        },
        {
            "kind": "count",
            "table": "small",
            "outcome": "done",
            "rows": 5,
            "largest_key_rows": 2,
            "newest": "2026-03-02T00:00:00.000Z",
        },
    ]
    record = runs(loaded.home)[0]
    assert datetime.now(UTC) - datetime.fromisoformat(record["time"]) < timedelta(minutes=10)
    assert record["seconds"] >= 0


def test_failures_are_recorded_with_their_code(loaded: Cli) -> None:
    assert loaded("load", "store", "small", "missing.parquet").code != 0
    assert loaded("load", "store", "small", "small.parquet", "--keep", "all").code != 0
    assert loaded("match", "store", "small", "people.parquet", "-o", "/proc/out.parquet").code != 0
    outcomes = [(one["kind"], one["table"], one["outcome"]) for one in runs(loaded.home)]
    assert outcomes[1:] == [
        ("load", "small", "source"),
        ("load", "small", "table-exists"),
        ("match", "small", "io"),
    ]


def test_a_run_of_no_table_is_not_recorded(loaded: Cli) -> None:
    """A name that was mistyped, or an identifier in the place of one, becomes no line."""
    before = runs(loaded.home)
    (loaded.home / "ids.csv").write_text("id\na\n")
    wrong = "ada@example.com"
    commands = [
        ("match", "store", "smal", "people.parquet"),
        ("match", "store", wrong, "people.parquet"),
        ("erase", "store", "smal", "ids.csv", "--columns", "id"),
        ("upsert", "store", "smal", "small.parquet"),
        ("upsert", "store", wrong, "small.parquet", "--create"),
        ("load", "store", wrong, "small.parquet"),
    ]
    for command in commands:
        assert loaded(*command).code != 0
        assert runs(loaded.home) == before


def test_a_match_whose_output_fails_has_failed(loaded: Cli) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        loaded.command("match", "store", "small", "people.parquet", "-o", "-", "--format", "csv"),
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=loaded.home,
        timeout=60,
    )
    os.close(writer)
    assert done.returncode != 0
    assert runs(loaded.home)[-1]["outcome"] != "done"


def test_tables_show_the_last_runs(loaded: Cli) -> None:
    assert loaded("match", "store", "small", "people.parquet").code == 0
    assert loaded("match", "store", "small", "people.parquet").code == 0
    first, _, last = runs(loaded.home)
    assert loaded("tables", "store", "--json").json()["runs"] == [first, last]
    text = [line.split() for line in loaded("tables", "store").out.splitlines()]
    header, *shown = text[text.index([]) + 1 :]
    assert header[:3] == ["last", "run", "table"]
    assert [line[:2] for line in shown] == [["load", "small"], ["match", "small"]]
    # Rows, rejected and matched.
    assert [line[-4:] for line in shown] == [["5", "0", "-", "done"], ["-", "-", "2", "done"]]


def test_python_records_where_it_is_told_to(tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("crm").load(SMALL)
    assert not (tmp_path / "store.runs").exists()
    with idmatch.open(tmp_path / "store", record=True) as store:
        table = store.table("crm")
        table.load(SMALL)
        table.match(pa.table({"id": ["a", "nobody"]}))
        with store.snapshot() as snapshot:
            snapshot.table("crm").match(pa.table({"id": ["a"]}))
        table.erase(id="a")
        table.erase_from(pa.table({"id": ["b", "c"]}), columns=["id"])
        table.stats(count=True)
        table.upsert(SMALL)
        table.upsert_one("a", "x")
        table.lookup("a")
    kinds = [(one["kind"], one.get("rows"), one.get("population")) for one in runs(tmp_path)]
    assert kinds == [
        ("load", 5, None),
        ("match", None, 2),
        ("match", None, 1),
        ("erase", 1, None),
        ("erase", 2, None),
        ("count", 8, None),
    ]


def test_records_have_no_identifier_and_no_path(cli: Cli) -> None:
    (cli.home / "zqfile.csv").write_text("id,partner_id,seen_at\nzqid,zqother,2026-03-01\n,,\n")
    assert cli("load", "store", "crm", "zqfile.csv").code == 3
    assert cli("erase", "store", "crm", "--id", "zqid").code == 0
    assert cli("load", "store", "crm", "zqmissing.csv").code == 1
    text = "".join(file.read_text() for file in (cli.home / "store.runs").iterdir())
    assert len(text.splitlines()) == 3
    assert "zq" not in text
    assert str(cli.home) not in text


@pytest.mark.parametrize("options", [("-vv",), ("-vv", "--log-format", "json")])
def test_the_log_of_commands_has_no_identifier(cli: Cli, options: tuple[str, ...]) -> None:
    (cli.home / "seen.csv").write_text("id,partner_id,seen_at\nzqid,zqother,2026-03-01\nzqbad,,\n")
    (cli.home / "people.csv").write_text("id,note\nzqid,zqnote\nzqnone,zqnote\n,zqnote\n")
    stream = "id,partner_id,seen_at\nzqid2,zqother,2026-03-01\n,zqbad,2026-03-01\n"
    ran = [
        cli("load", "store", "crm", "seen.csv", *options),
        cli("upsert", "store", "crm", "-", *options, stdin=stream),
        cli("match", "store", "crm", "people.csv", "--column", "id", "--carry", "note", *options),
        cli("lookup", "store", "crm", "--id", "zqid", *options),
        cli("erase", "store", "crm", "--id", "zqid", *options),
        cli("erase", "store", "crm", "people.csv", "--columns", "id", *options),
        cli("compact", "store", "crm", *options),
        cli("verify", "store", *options),
        cli("export", "store", "crm", "-o", "out.csv", *options),
    ]
    assert [one.code for one in ran] == [3, 3, 0, 0, 0, 3, 0, 0, 0], [one.err for one in ran]
    assert "zqother" in ran[3].out
    assert all("zq" not in one.err for one in ran)
    assert sum(one.err.count("\n") for one in ran) > 20


def test_the_folder_is_for_its_owner_only(loaded: Cli) -> None:
    folder = loaded.home / "store.runs"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_old_records_are_removed_by_the_next_file(loaded: Cli) -> None:
    folder = loaded.home / "store.runs"
    (today,) = folder.iterdir()
    old, other = folder / "runs-20260101.jsonl", folder / "mine.txt"
    for file in (old, other):
        file.write_text("{}\n")
        long_ago = time.time() - 91 * 86_400
        os.utime(file, (long_ago, long_ago))
    assert loaded("match", "store", "small", "people.parquet").code == 0
    assert old.exists()
    today.unlink()
    assert loaded("match", "store", "small", "people.parquet").code == 0
    assert sorted(folder.iterdir()) == sorted([today, other])


def test_what_cannot_be_recorded_fails_nothing(loaded: Cli) -> None:
    folder = loaded.home / "store.runs"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    assert "recorded" not in loaded("match", "store", "small", "people.parquet").err
    assert "a run was not recorded" in loaded("match", "store", "small", "people.parquet", "-v").err


def test_a_link_is_not_followed(loaded: Cli) -> None:
    folder = loaded.home / "store.runs"
    (today,) = folder.iterdir()
    today.unlink()
    today.symlink_to(loaded.home / "elsewhere")
    assert loaded("match", "store", "small", "people.parquet").code == 0
    assert not (loaded.home / "elsewhere").exists()


def test_the_commit_of_a_session_is_recorded_once(tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store", record=True) as store:
        table = store.create_table("crm")
        with table.begin(key="k") as session:
            session.add(observations(("a", "x", NOON), ("b", "y", NOON)))
            session.add(pa.table({"id": ["c", ""], "partner_id": ["z", "z"]}), dated="2026-01-01")
        session.commit()
        table.begin(key="k").commit()
        lost = table.begin()
        store.drop_table("crm")
        with pytest.raises(idmatch.TableNotFound):
            lost.commit()
    figures = {"rows": 4, "rejected": 1, "newest": "2026-03-01T12:00:00.000Z"}
    assert without_times(runs(tmp_path)) == [
        {"kind": "load", "table": "crm", "outcome": "done", **figures},
        {"kind": "load", "table": "crm", "outcome": "table-not-found"},
    ]


def test_processes_record_at_once(loaded: Cli) -> None:
    program = (
        "import idmatch, pyarrow as pa\n"
        "with idmatch.open('store', record=True) as store:\n"
        "    for _ in range(50): store.table('small').match(pa.table({'id': ['a']}))\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", program], cwd=loaded.home) for _ in range(4)]
    assert [one.wait(timeout=120) for one in started] == [0] * 4
    assert len(runs(loaded.home)) == 1 + 4 * 50


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)


def wait_for_text(note: Path) -> None:
    """Waits until a note is whole: it may be written in place."""
    while True:
        with suppress(ValueError):
            assert json.loads(note.read_text())["pid"] == os.getpid()
            return


def test_a_writer_has_a_note(tmp_path: Path) -> None:
    note = tmp_path / "store.runs" / "writer.json"
    with idmatch.open(tmp_path / "store", record=True) as store:
        table = store.create_table("crm")
        table.upsert(observations(("a", "x", NOON)))
        wait_for(note)
        said = json.loads(note.read_text())
        assert said["pid"] == os.getpid()
        assert said["last_background_error"] is None
        assert "\nidmatch_is_writer 1\n" in said["metrics"]
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert not list(note.parent.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_note_is_renewed_on_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]).returncode:
        pytest.skip("this system mounts nothing")
    try:
        note = disk / "store.runs" / "writer.json"
        with idmatch.open(disk / "store", record=True) as store:
            store.create_table("crm").upsert_one("a", "x")
            wait_for(note)
            place = note.stat().st_ino
            with open(disk / "full", "wb", buffering=0) as full:
                # A note that is replaced leaves a little room: only one that is overwritten stays.
                renewed: set[float] = set()
                while len(renewed) < 2:
                    with suppress(OSError):
                        while True:
                            full.write(bytes(4096))
                    time.sleep(0.05)
                    now = note.stat()
                    if now.st_ino != place:
                        place, renewed = now.st_ino, set()
                    renewed.add(now.st_mtime)
            wait_for_text(note)
            assert [one.name for one in note.parent.iterdir()] == ["writer.json"]
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_store_that_is_dropped_has_no_note(tmp_path: Path) -> None:
    note = tmp_path / "store.runs" / "writer.json"
    store: idmatch.Store | None = idmatch.open(tmp_path / "store", record=True)
    assert store is not None
    store.create_table("crm").upsert_one("a", "x")
    wait_for(note)
    store = None
    while note.exists():
        time.sleep(0.05)


def test_pickles_record_too(tmp_path: Path) -> None:
    import pickle

    with idmatch.open(tmp_path / "store", record=True) as store:
        store.create_table("crm").load(SMALL)
        table = pickle.loads(pickle.dumps(store.table("crm")))
        table.match(pa.table({"id": ["a"]}))
    assert [one["kind"] for one in runs(tmp_path)] == ["load", "match"]


def test_tables_show_what_fails_in_the_writer(loaded: Cli) -> None:
    note = loaded.home / "store.runs" / "writer.json"
    failing = {
        "work": "compaction",
        "error": "no space left",
        "since": "2026-03-01T12:00:00+00:00",
        "last": "2026-03-01T12:05:00+00:00",
        "failures": 3,
    }
    told = {"time": "2026-03-01T12:05:01.000Z", "pid": 1234, "host": "here"}
    note.write_text(json.dumps({**told, "last_background_error": failing, "metrics": "# EOF\n"}))
    shown = loaded("tables", "store")
    assert shown.code == 0
    assert (
        "the compaction of the process that writes (pid 1234) fails since "
        "2026-03-01T12:00:00+00:00: no space left" in shown.err
    )
    assert loaded("tables", "store", "--json").json()["writer"] == {
        **told,
        "last_background_error": failing,
    }
    # A process that was killed leaves it.
    long_ago = time.time() - 60
    os.utime(note, (long_ago, long_ago))
    assert loaded("tables", "store", "--json").json()["writer"] is None
    note.write_text("{")
    assert loaded("tables", "store").err == ""
