"""Write sessions, replaces and keys; the command `load --replace`."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, Cli, observations

OTHERS = observations(("n", "new", NOON), ("b", "new", NOON))


def pairs(table: idmatch.Table | idmatch.TableSnapshot) -> set[tuple[str, str]]:
    """The pairs of the ids and partner IDs that these tests use, alike in both directions."""
    ids, partner_ids = ["a", "b", "c", "n", "q", *map(str, range(20))], ["x", "y", "z", "new", "m"]
    by_id = {(id, found) for id in ids for found, _ in table.lookup(id)}
    by_partner_id = {
        (found, key) for key in partner_ids for found, _ in table.lookup(key, by="partner_id")
    }
    assert by_id == by_partner_id
    return by_id


OLD = {("a", "x"), ("a", "y"), ("b", "x"), ("c", "z")}
NEW = {("n", "new"), ("b", "new")}


def test_nothing_is_seen_before_the_commit(table: idmatch.Table) -> None:
    with table.begin() as session:
        report = session.add(OTHERS)
        assert (report.rows, report.rejected, report.repeated) == (2, 0, False)
        assert pairs(table) == OLD
        assert session.outcome is None
    assert session.outcome == idmatch.Committed(rows=2, rejected=0)
    assert session.commit() == session.outcome
    assert pairs(table) == OLD | NEW
    with pytest.raises(idmatch.Expired):
        session.add(OTHERS)
    with pytest.raises(idmatch.InvalidArgument, match="is committed"):
        session.abort()


def test_an_exception_aborts(table: idmatch.Table) -> None:
    session = table.begin(replace=True)

    def fail() -> None:
        with session:
            session.add(OTHERS)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert pairs(table) == OLD
    with pytest.raises(idmatch.Expired):
        session.commit()


def test_a_source_that_fails_leaves_the_session(table: idmatch.Table, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("id,partner_id,seen_at\nq,m,2026-03-01\n,m,2026-03-01\nq,m,2026,03\n")
    with table.begin() as session:
        with pytest.raises(idmatch.BadInput, match="nothing of it was staged"):
            session.add(bad, strict=True)
        with pytest.raises(idmatch.SourceError):
            session.add(tmp_path / "missing.csv")
        report = session.add(bad, rejects=tmp_path / "rejects.csv")
        assert (report.rows, report.rejected) == (3, 2)
        session.add(OTHERS)
    assert session.outcome == idmatch.Committed(rows=3, rejected=2)
    assert pairs(table) == OLD | NEW | {("q", "m")}


def test_threads_add_at_once(table: idmatch.Table) -> None:
    with table.begin(replace=True) as session:

        def add(number: int) -> None:
            session.add(observations((str(number), "m", NOON)))

        threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert session.outcome == idmatch.Committed(rows=20, rejected=0)
    assert pairs(table) == {(str(number), "m") for number in range(20)}


def test_a_replace_keeps_what_comes_meanwhile(store: idmatch.Store, table: idmatch.Table) -> None:
    before = store.snapshot()
    table.erase(id="n")
    with table.begin(replace=True) as session:
        table.upsert_one("q", "m", NOON)
        table.load(observations(("7", "m", NOON)))
        session.add(OTHERS)
        with pytest.raises(idmatch.Busy, match="another session replaces table"):
            table.begin(replace=True)
        assert pairs(table) == OLD | {("q", "m"), ("7", "m")}
    assert pairs(table) == {("b", "new"), ("q", "m"), ("7", "m")}
    assert pairs(before.table(table.name)) == OLD
    assert table.verify() == []


def test_a_key_is_done_once(store: idmatch.Store, table: idmatch.Table) -> None:
    first = table.load(OTHERS, key="monday")
    again = table.load(observations(("q", "m", NOON)), key="monday")
    assert (again.rows, again.rejected, again.repeated) == (first.rows, 0, True)
    with table.begin(key="monday") as session:
        assert session.outcome == idmatch.Committed(rows=2, rejected=0)
        assert session.add(observations(("q", "m", NOON))).repeated
    assert pairs(table) == OLD | NEW
    with pytest.raises(idmatch.InvalidArgument, match="another kind of write"):
        table.load(OTHERS, key="monday", replace=True)
    with pytest.raises(idmatch.InvalidArgument, match="1 to 128 bytes"):
        table.begin(key="")
    # A key belongs to its table.
    assert not store.create_table("other").load(OTHERS, key="monday").repeated


def test_a_session_follows_its_table(store: idmatch.Store, table: idmatch.Table) -> None:
    with table.begin(replace=True) as session:
        session.add(OTHERS)
        store.rename_table(table.name, "renamed")
    assert pairs(store.table("renamed")) == NEW
    dropped = store.create_table("dropped").begin()
    dropped.add(OTHERS)
    store.drop_table("dropped")
    with pytest.raises(idmatch.TableNotFound):
        dropped.commit()


def test_another_process_may_write_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with idmatch.open(path) as ours:
        table = ours.create_table("t")
        table.load(OTHERS)
        session = table.begin(replace=True)
        session.add(observations(("q", "m", NOON)))
        program = (
            "import idmatch, sys\n"
            f"store = idmatch.open({str(path)!r})\n"
            "store.table('t').upsert_one('7', 'm', '2026-03-01')\n"
            "print('written', flush=True)\n"
            "sys.stdin.read()\n"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert other.stdout is not None
        assert other.stdout.readline() == "written\n"
        with pytest.raises(idmatch.Busy):
            session.commit()
        other.communicate("")
        assert session.commit().rows == 1
        assert pairs(table) == {("q", "m"), ("7", "m")}


def test_load_replace(loaded: Cli) -> None:
    rows = [f"{number},m,2026-03-01" for number in range(5)]
    (loaded.home / "new.csv").write_text("\n".join(["id,partner_id,seen_at", *rows]))
    (loaded.home / "cut.csv").write_text("id,partner_id,seen_at\nq,m,2026-03-01\n")
    replace = ("load", "store", "small")
    refused = loaded(*replace, "cut.csv", "--replace")
    assert (refused.code, refused.out) == (2, "")
    assert "the new rows are 1, and table small has about" in refused.err
    assert "--force" in refused.err
    with idmatch.open(loaded.home / "store") as store:
        assert pairs(store.table("small")) == OLD
    done = loaded(*replace, "new.csv", "--replace", "--json")
    assert (done.code, json.loads(done.out)["rows"]) == (0, 5)
    with idmatch.open(loaded.home / "store") as store:
        assert pairs(store.table("small")) == {(str(number), "m") for number in range(5)}
    assert loaded(*replace, "cut.csv", "--replace", "--force").code == 0
    with idmatch.open(loaded.home / "store") as store:
        assert pairs(store.table("small")) == {("q", "m")}
    alone = loaded(*replace, "cut.csv", "--force")
    assert (alone.code, alone.err.count("--replace")) == (2, 1)


KILLED = """
import os, signal, sys
import idmatch, pyarrow as pa
store = idmatch.open(sys.argv[1])
table = store.table("t")
session = table.begin(replace=True)
session.add(pa.table({"id": ["q"], "partner_id": ["m"], "seen_at": ["2026-03-01"]}))
table.upsert_one("7", "m", "2026-03-01")
if sys.argv[2] == "committed":
    session.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["staged", "committed"])
def test_a_killed_replace(tmp_path: Path, when: str) -> None:
    path = tmp_path / "store"
    with idmatch.open(path) as store:
        store.create_table("t").load(OTHERS)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), when])
    assert killed.returncode == -signal.SIGKILL
    with idmatch.open(path) as store:
        table = store.table("t")
        old = {("q", "m")} if when == "committed" else NEW
        assert pairs(table) == old | {("7", "m")}
        # The next writer ends what the killed one has begun.
        table.load(pa.table(OTHERS), replace=True)
        assert pairs(table) == NEW
        assert table.verify() == []
    assert list((path / "scratch").iterdir()) == []
