"""Outputs of a command that are one place, no place, or standard output by another name."""

import json
import subprocess
from pathlib import Path

import pytest
from conftest import Cli

MATCH = ("match", "store", "small", "people.parquet", "--column", "id")


@pytest.mark.parametrize("other", ["./out.csv", "nowhere/../out.csv", "link.csv"])
@pytest.mark.parametrize("is_there", [False, True])
def test_one_file_for_two_outputs_is_refused(loaded: Cli, other: str, is_there: bool) -> None:
    (loaded.home / "nowhere").mkdir()
    out = loaded.home / "out.csv"
    (loaded.home / "link.csv").symlink_to(out)
    if is_there:
        out.write_text("before")
    ran = loaded(*MATCH, "-o", "out.csv", "--unmatched", other, "--overwrite")
    assert (ran.code, ran.out) == (2, "")
    assert "two outputs have one name" in ran.err
    assert out.exists() == is_there


@pytest.mark.parametrize("option", ["-o", "--unmatched"])
def test_an_empty_name_is_refused(loaded: Cli, option: str) -> None:
    ran = loaded(*MATCH, option, "")
    assert (ran.code, ran.out) == (2, "")
    assert "the name of an output is empty" in ran.err


def test_a_folder_that_is_missing_is_told_before_the_work(loaded: Cli) -> None:
    for options in (["-o", "nowhere/out.csv"], ["-o", "nowhere/cut", "--max-rows-per-file", "2"]):
        ran = loaded(*MATCH, *options, "-v")
        assert ran.code == 1
        assert "there is no folder nowhere" in ran.err
        assert "outcome" not in ran.err


def test_a_folder_that_exists_is_told_so(loaded: Cli) -> None:
    (loaded.home / "cut").mkdir()
    ran = loaded(*MATCH, "-o", "cut", "--max-rows-per-file", "2")
    assert ran.code == 2
    assert "no folder is overwritten; name one that does not exist" in ran.err


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_other_names_of_standard_output(loaded: Cli, name: str) -> None:
    """Only rows are there; what else is printed goes to stderr."""
    ran = loaded(*MATCH, "-o", name, "--format", "csv")
    assert ran.code == 0
    assert ran.out == loaded(*MATCH, "-o", "-", "--format", "csv").out
    assert "population" in ran.err
    assert loaded(*MATCH, "-o", name, "--format", "csv", "--json").code == 2


def closed(cli: Cli, streams: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with some standard streams closed."""
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh"]
    return subprocess.run(
        [*shell, *cli.command(*arguments)], cwd=cli.home, capture_output=True, text=True
    )


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_lose_no_output(loaded: Cli, streams: str) -> None:
    ran = closed(loaded, streams, *MATCH, "-o", "out.csv")
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    found = (loaded.home / "out.csv").read_text().splitlines()
    assert (loaded(*MATCH, "-o", "again.csv").code, ran.returncode) == (0, 0)
    assert sorted(found) == sorted((loaded.home / "again.csv").read_text().splitlines())


def test_left_rows_are_always_counted(loaded: Cli) -> None:
    (loaded.home / "one.csv").write_text("id\na\n")
    ran = loaded("match", "store", "small", "one.csv", "--how", "left", "--json")
    document = json.loads(ran.out)
    assert document["written"] == document["rows"] > 0


def test_a_place_is_the_same_by_any_name(tmp_path: Path) -> None:
    from idmatch._outputs import is_same

    (tmp_path / "link").symlink_to(tmp_path)
    assert is_same(tmp_path / "a.csv", f"{tmp_path}/link/./a.csv")
    assert is_same(f"file://{tmp_path}/a.csv", tmp_path / "a.csv")
    assert not is_same(tmp_path / "a.csv", tmp_path / "b.csv")
