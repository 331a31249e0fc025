"""Outputs and the disk: a name appears once what it names is on disk, and is then made durable."""

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, observations
from idmatch import _outputs

POPULATION = pa.table({"id": ["a", "b"], "campaign": ["x", "y"]})

Write = Callable[[idmatch.MatchResult, Path], object]
WAYS: dict[str, Write] = {
    "out.parquet": lambda result, path: result.write_parquet(path),
    "out.csv.gz": lambda result, path: result.write(path),
    "cut": lambda result, path: result.write(path, format="csv", max_rows_per_file=1),
    "parts": lambda result, path: result.write(path, format="parquet", partition_by="campaign"),
}


@pytest.fixture
def result(store: idmatch.Store) -> idmatch.MatchResult:
    table = store.create_table("crm")
    table.upsert(observations(("a", "p", NOON), ("b", "q", NOON)))
    return table.match(POPULATION, column="id", carry="all")


@pytest.mark.parametrize("name", WAYS)
def test_names_appear_after_a_sync(
    name: str, result: idmatch.MatchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / name
    synced: list[tuple[int, bool]] = []
    sync = os.fsync

    def log(file: int) -> None:
        sync(file)
        synced.append((os.fstat(file).st_ino, output.exists()))

    monkeypatch.setattr("os.fsync", log)
    WAYS[name](result, output)
    made = [output, *output.rglob("*")]
    assert {(path.stat().st_ino, False) for path in made} <= set(synced)
    assert synced[-1] == (tmp_path.stat().st_ino, True)


@pytest.mark.parametrize("name", WAYS)
def test_a_name_that_is_not_durable_is_told(
    name: str, result: idmatch.MatchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the file system has no durable names."""
    sync, output, code = os.fsync, tmp_path / name, errno.EINVAL

    def refuse(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode) and output.exists():
            raise OSError(code, "refused")
        sync(file)

    monkeypatch.setattr("os.fsync", refuse)
    WAYS[name](result, output)
    output.rename(tmp_path / "first")
    code = errno.EIO
    with pytest.raises(idmatch.IoError, match=f"{name} is complete, .* refused"):
        WAYS[name](result, output)
    assert output.exists()
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", WAYS)
def test_a_disk_that_refuses_to_sync_leaves_nothing(
    name: str, result: idmatch.MatchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    before = set(tmp_path.iterdir())
    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(idmatch.IoError, match=f"cannot write .*{name}.*Input/output error"):
        WAYS[name](result, tmp_path / name)
    assert set(tmp_path.iterdir()) == before


def test_a_disk_that_refuses_while_a_file_is_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells such an error once, to the first sync."""
    refused = threading.Event()

    def refuse(_: int) -> None:
        refused.set()
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.fdatasync", refuse)
    monkeypatch.setattr(_outputs, "_WRITE_BACK_SECONDS", 0)

    def write() -> None:
        with _outputs.new_file(tmp_path / "out") as file:
            Path(file).write_bytes(b"rows")
            assert refused.wait(60)

    with pytest.raises(idmatch.IoError, match=r"cannot write .*out.*Input/output error"):
        write()
    assert list(tmp_path.iterdir()) == []
