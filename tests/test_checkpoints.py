"""Checkpoints: what other processes read while the store goes on."""

import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, SMALL, Cli, observations


def test_another_process_reads_one_version(store: idmatch.Store, table: idmatch.Table) -> None:
    """Its answers stay, whatever the store does; it is opened by its path."""
    made = store.checkpoint()
    assert Path(made.path).parent == Path(store.path) / "checkpoints"
    assert made.at < datetime.now(UTC) < made.until <= made.at + timedelta(hours=25)
    table.load(observations(("new", "n", NOON)))
    table.erase(id="a")
    read = (
        "import idmatch, sys; t = idmatch.open(sys.argv[1]).table('small'); "
        "print(len(t.lookup('a')), len(t.lookup('new')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", read, made.path], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["2", "0"]
    frozen = idmatch.open(made.path)
    with pytest.raises(idmatch.Unsupported, match="is a checkpoint"):
        frozen.table("small").load(SMALL)
    again = pickle.loads(pickle.dumps(frozen.table("small")))
    assert again.match(pa.table({"id": ["a", "new"]})).matched == 1


def test_a_version_is_linked_once(store: idmatch.Store, table: idmatch.Table) -> None:
    """The same version gives the same checkpoint; a write gives another."""
    first = store.checkpoint()
    assert store.checkpoint(keep=timedelta(hours=20)) == first
    table.upsert(observations(("new", "n", NOON)))
    second = store.checkpoint()
    assert second.path != first.path
    assert [one.path for one in store.checkpoints()] == [first.path, second.path]
    store.remove_checkpoint(first)
    store.remove_checkpoint(second.path)
    assert store.checkpoints() == []
    with pytest.raises(idmatch.InvalidArgument, match="no checkpoint"):
        store.remove_checkpoint(store.path)


def test_a_place_of_its_own(store: idmatch.Store, table: idmatch.Table, tmp_path: Path) -> None:
    """One elsewhere is not listed, and no longer than 7 days are promised."""
    made = store.checkpoint(tmp_path / "mine", keep="7d")
    assert made.path == str(tmp_path / "mine")
    assert store.checkpoints() == []
    assert idmatch.open(made.path).table("small").lookup("a") == table.lookup("a")
    for keep in ("8d", "10s", "x"):
        with pytest.raises(idmatch.InvalidArgument):
            store.checkpoint(keep=keep)
    with pytest.raises(idmatch.InvalidArgument):
        store.checkpoint(tmp_path / "mine")


def test_an_erasure_names_checkpoints(store: idmatch.Store, table: idmatch.Table) -> None:
    """Those that still show the rows, also when the table no longer does."""
    made = store.checkpoint()
    assert table.erase(id="nobody").checkpoints == []
    (named,) = table.erase(id="a").checkpoints
    assert (named.path, named.until) == (made.path, made.until)
    later = store.checkpoint()
    assert [one.path for one in table.erase(id="a").checkpoints] == [made.path]
    table.load(observations(("new", "n", NOON)), replace=True)
    assert table.erase(id="new").checkpoints == []
    report = table.erase_from(pa.table({"id": ["nobody", "b"]}), columns=["id"])
    assert report.by_id == 0
    assert [one.path for one in report.checkpoints] == [made.path, later.path]


def test_what_another_process_erased_is_in_no_checkpoint(
    store: idmatch.Store, table: idmatch.Table
) -> None:
    """A reader that was open before makes one of what is there now."""
    read = (
        "import idmatch, sys; s = idmatch.open(sys.argv[1]); t = s.table('small'); "
        "print(len(t.lookup('a')), flush=True); input(); "
        "print(len(idmatch.open(s.checkpoint().path).table('small').lookup('a')))"
    )
    command = [sys.executable, "-c", read, store.path]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout
        assert reader.stdout.readline() == "2\n"
        assert table.erase(id="a").checkpoints == []
        assert reader.communicate("\n")[0] == "0\n"


def test_the_command_line(loaded: Cli) -> None:
    """`checkpoint` prints the path; other commands name it, and `erase` can remove it."""
    path = loaded("checkpoint", "store", "--keep", "6h").out.strip()
    assert loaded("checkpoint", "store", "--json").json()["path"] != path, "for 24 h"
    loaded("checkpoint", "store", "--remove", path)
    (left,) = loaded("tables", "store", "--json").json()["checkpoints"]
    assert left["held_bytes"] == 0
    assert left["path"] in loaded("tables", "store").err
    assert left["path"] in loaded("verify", "store").err
    (told,) = loaded("erase", "store", "small", "--id", "a", "--json").json()["checkpoints"]
    assert told["path"] == left["path"]
    assert "still shows the rows" in loaded("erase", "store", "small", "--id", "b").err
    # As the warning says, after the erasure.
    dropped = loaded("erase", "store", "small", "--id", "b", "--drop-checkpoints")
    assert "removed checkpoint" in dropped.err
    assert loaded("tables", "store", "--json").json()["checkpoints"] == []
    refused = loaded("checkpoint", "store", "--keep", "10s")
    assert (refused.code, refused.has_no_result()) == (2, True)
    assert "7 days" in refused.err


def test_a_checkpoint_has_none(tmp_path: Path) -> None:
    """Making one would write to its folder."""
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("t")
        frozen = idmatch.open(store.checkpoint().path)
        with pytest.raises(idmatch.Unsupported):
            frozen.checkpoint()
