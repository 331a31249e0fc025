"""Files that commands write: what exists stays, and nothing of a store is touched."""

import os
import stat
import subprocess
import threading
from pathlib import Path

import idmatch
import pyarrow.parquet as pq
import pytest
from conftest import SMALL, Cli
from hidden import needs_numpy

ROWS = 3


def match(cli: Cli, output: object, *arguments: str) -> tuple[int, str]:
    """Exit code and stderr of a match that is written."""
    words = ("match", "store", "small", "people.parquet", "-o", output, "--format", "parquet")
    ran = cli(*words, *arguments)
    return ran.code, ran.err


def test_what_exists_stays(loaded: Cli) -> None:
    output = loaded.home / "out.parquet"
    assert match(loaded, output)[0] == 0
    before = output.read_bytes()
    code, err = match(loaded, output)
    assert (code, "exists" in err, "--overwrite" in err) == (2, True, True)
    assert output.read_bytes() == before
    output.write_text("something else")
    assert match(loaded, output, "--overwrite")[0] == 0
    assert pq.read_table(output).num_rows == ROWS
    assert sorted(path.name for path in loaded.home.iterdir() if path.name.startswith(".")) == []


def test_links_and_devices_and_directories_stay(loaded: Cli) -> None:
    target = loaded.home / "target"
    target.write_text("mine")
    (loaded.home / "link").symlink_to(target)
    (loaded.home / "dangling").symlink_to(loaded.home / "nowhere")
    (loaded.home / "folder").mkdir()
    for output in ("link", "dangling", "folder", "/dev/null"):
        for more in ([], ["--overwrite"]):
            code, err = match(loaded, output, *more)
            assert (code, output in err) == (2, True), err
    assert target.read_text() == "mine"
    assert (loaded.home / "link").is_symlink()
    assert not (loaded.home / "nowhere").exists()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_an_input_is_no_output(loaded: Cli) -> None:
    people = loaded.home / "people.parquet"
    before = people.read_bytes()
    os.link(people, loaded.home / "same.parquet")
    for output in ("people.parquet", "same.parquet", loaded.home / "people.parquet"):
        code, err = match(loaded, output, "--overwrite")
        assert (code, "input" in err) == (2, True), err
    bad = loaded.home / "in.csv"
    bad.write_text("id,partner_id,seen_at\na,,2026-03-01\n")
    text = bad.read_text()
    for more in ([], ["--overwrite"]):
        for command in ("load", "upsert"):
            ran = loaded(command, "store", "small", "in.csv", "--rejects", "in.csv", *more)
            assert ran.code == 2, ran.err
    assert (people.read_bytes(), bad.read_text()) == (before, text)


def test_nothing_is_written_into_a_store(loaded: Cli) -> None:
    assert loaded("backup", "store", "backup").code == 0
    (loaded.home / "link").symlink_to(loaded.home / "store" / "segments")
    for place in ("store/out", "store/segments/out", "link/out", "backup/out"):
        code, err = match(loaded, place)
        assert (code, "inside the store" in err) == (2, True), err


def test_a_fifo_and_standard_output_are_streams(loaded: Cli) -> None:
    fifo = loaded.home / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    assert match(loaded, "fifo")[0] == 0
    reader.join()
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    command = loaded.command(
        "match", "store", "small", "people.parquet", "-o", "-", "--format", "parquet"
    )
    piped = subprocess.run(command, cwd=loaded.home, capture_output=True, check=True)
    assert b"population" in piped.stderr
    for data in (*read, piped.stdout):
        (loaded.home / "got.parquet").write_bytes(data)
        assert pq.read_table(loaded.home / "got.parquet").num_rows == ROWS
    ran = loaded("match", "store", "small", "people.parquet", "-o", "-", "--json")
    assert ran.code == 2


def test_rejects_to_standard_output(loaded: Cli) -> None:
    (loaded.home / "in.csv").write_text("id,partner_id,seen_at\na,,2026-03-01\n")
    ran = loaded("load", "store", "small", "in.csv", "--rejects", "-")
    assert ran.code == 3
    assert ran.out.startswith("file,row,column,reason\nin.csv,1,partner_id,is missing\n")


def test_rejects_do_not_follow_links(loaded: Cli) -> None:
    (loaded.home / "in.csv").write_text("id,partner_id,seen_at\na,,2026-03-01\n")
    (loaded.home / "link").symlink_to(loaded.home / "target")
    assert loaded("load", "store", "small", "in.csv", "--rejects", "link").code == 2
    assert not (loaded.home / "target").exists()
    assert loaded("load", "store", "small", "in.csv", "--rejects", "new").code == 3
    assert stat.S_IMODE((loaded.home / "new").stat().st_mode) == 0o600
    assert loaded("load", "store", "small", "in.csv", "--rejects", "new").code == 2
    assert loaded("load", "store", "small", "in.csv", "--rejects", "new", "--overwrite").code == 3


@needs_numpy
def test_a_sample_replaces_nothing(cli: Cli) -> None:
    sample = ["sample", "people", "--people", "100"]
    assert cli(*sample).code == 0
    before = {path.name: path.read_bytes() for path in (cli.home / "people").iterdir()}
    ran = cli(*sample, "--seed", "8")
    assert (ran.code, "exists" in ran.err) == (2, True)
    assert {path.name: path.read_bytes() for path in (cli.home / "people").iterdir()} == before
    assert cli(*sample, "--seed", "8", "--overwrite").code == 0
    after = {path.name: path.read_bytes() for path in (cli.home / "people").iterdir()}
    assert (after.keys(), after != before) == (before.keys(), True)


def test_a_match_that_fails_leaves_nothing(
    table: idmatch.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = table.match(SMALL, column="id")
    with pytest.raises(idmatch.InvalidArgument):
        result.write_parquet(tmp_path / "out.parquet", compression="none-such")  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(idmatch.IoError, match="nowhere"):
        result.write_parquet("nowhere/out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    result.write_parquet("out.parquet")
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        result.write_parquet("out.parquet")
    result.write_parquet("out.parquet", overwrite=True)


def test_what_is_wrong_makes_no_table(cli: Cli) -> None:
    (cli.home / "in.csv").write_text("id,partner_id,seen_at\na,,2026-03-01\n")
    (cli.home / "there.csv").write_text("mine")
    load, upsert = ["load", "store", "t"], ["upsert", "store", "t", "--create"]
    for words in (
        [*load, "in.csv", "--max-rejects", "many"],
        [*load, "in.csv", "--rejects", "there.csv"],
        [*load, "in.csv", "--rejects", "-", "--json"],
        [*upsert, "in.csv", "--rejects", "there.csv"],
        [*upsert, "-", "--rejects", "-", "--ack"],
    ):
        assert cli(*words).code == 2, words
    assert not (cli.home / "store").exists()
