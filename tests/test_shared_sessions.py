"""Sessions that other processes stage: `begin(shared=True)`, `Store.resume`, parts and receipts."""

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, observations

WORKERS = ["spawn", "forkserver", "fork"]


def rows(first: int, count: int) -> pa.Table:
    return observations(*((f"i{n}", f"p{n}", NOON) for n in range(first, first + count)))


def stored(table: idmatch.Table) -> list[int]:
    """The numbers of the rows that a table has, alike in both directions."""
    by_id = pa.table(table.scan())
    numbers = sorted(int(id[1:]) for id in by_id.column("id").to_pylist() if id)
    partner_ids = [f"p{n}" for n in numbers]
    back = table.lookup_many(partner_ids, by="partner_id")
    assert [[id for id, _ in found] for found in back] == [[f"i{n}"] for n in numbers]
    return numbers


def stage(path: str, session_id: str, part: int) -> str | None:
    """What a worker does: a part of ten rows."""
    session = idmatch.open(path).resume(session_id)
    return session.add(rows(10 * part, 10), part=part).part


@pytest.mark.parametrize("method", WORKERS)
def test_workers_stage_and_the_caller_commits(store: idmatch.Store, method: str) -> None:
    table = store.create_table("t")
    table.load(rows(1000, 5))
    session = table.begin(replace=True, shared=True)
    context = multiprocessing.get_context(method)
    numbers = [0, 1, 2, 3, 1, 0]
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        made = [pool.submit(stage, store.path, session.id, number) for number in numbers]
        receipts = [one.result() for one in made]
    assert stored(table) == list(range(1000, 1005))
    # The last one is not committed; those that were staged twice count once.
    named = [receipt for number, receipt in zip(numbers, receipts, strict=True) if number != 3]
    assert session.commit([one for one in named if one]) == idmatch.Committed(30, 0)
    assert stored(table) == list(range(30))


def test_a_commit_without_receipts_takes_all_parts(store: idmatch.Store, tmp_path: Path) -> None:
    table = store.create_table("t")
    session = table.begin(shared=True)
    bad = tmp_path / "bad.csv"
    bad.write_text("id,partner_id,seen_at\ni500,p500,2026-03-01\n,m,2026-03-01\nq,m,2026,03\n")
    session.add(bad, part=7, rejects=tmp_path / "rejects.csv")
    program = (
        "import sys, idmatch, pyarrow as pa\n"
        "session = idmatch.open(sys.argv[1]).resume(sys.argv[2])\n"
        "rows = pa.table({'id': ['i600'], 'partner_id': ['p600'], 'seen_at': ['2026-03-01']})\n"
        "for part in (8, 8, 9):\n"
        "    session.add(rows, part=part)\n"
    )
    subprocess.run([sys.executable, "-c", program, store.path, session.id], check=True)
    assert session.commit() == idmatch.Committed(rows=3, rejected=2)
    assert session.commit() == idmatch.Committed(rows=3, rejected=2)
    assert stored(table) == [500, 600]
    assert store.resume(session.id).outcome == idmatch.Committed(rows=3, rejected=2)
    with pytest.raises(idmatch.Expired):
        session.add(rows(0, 1))


def test_what_is_no_session_is_refused(store: idmatch.Store) -> None:
    table = store.create_table("t")
    local = table.begin()
    with pytest.raises(idmatch.Expired, match="begun as shared"):
        store.resume(local.id)
    for text in ("", "x", local.id + "0" * 40):
        with pytest.raises(idmatch.InvalidArgument, match="no session"):
            store.resume(text)
    with pytest.raises(idmatch.InvalidArgument, match="part is -1"):
        local.add(rows(0, 1), part=-1)
    shared = table.begin(shared=True)
    with pytest.raises(idmatch.InvalidArgument, match="receipt"):
        shared.commit(["x"])
    shared.abort()
    with pytest.raises(idmatch.Expired):
        store.resume(shared.id)


def test_a_commit_waits_for_another_writer_and_else_leaves_the_session(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    store = idmatch.open(path)
    session = store.create_table("t").begin(shared=True)
    session.add(rows(0, 10), part=0)
    store.close()
    program = (
        "import sys, idmatch\n"
        "store = idmatch.open(sys.argv[1])\n"
        "store.table('t').upsert_one('i900', 'p900')\n"
        "print('writes', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, path]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "writes\n"
    with idmatch.open(path) as second:
        left = second.resume(session_id := session_of(tmp_path))
        with pytest.raises(idmatch.Busy, match=session_id) as busy:
            left.commit()
        assert busy.value.pid == writer.pid
        with pytest.raises(idmatch.Expired):
            left.add(rows(10, 1), part=1)
    with idmatch.open(path, wait=timedelta(minutes=2)) as third:
        assert writer.stdin is not None
        waiting = third.resume(session_id)
        writer.stdin.close()
        assert waiting.commit() == idmatch.Committed(10, 0)
        assert stored(third.table("t")) == [*range(10), 900]
    assert writer.wait() == 0


def session_of(folder: Path) -> str:
    """The id of the only session of the store in a folder, by its files."""
    store = idmatch.open(folder / "store", read_only=True)
    [session] = (folder / "store" / "staging").iterdir()
    [table] = store.snapshot().table("t").scan_ranges(1)
    return f"{table.split(':')[0]}.{session.name}"


def test_a_killed_stager_leaves_whole_parts_or_none(store: idmatch.Store) -> None:
    """While it sends rows; the tests of the engine have every step."""
    table = store.create_table("t")
    session = table.begin(shared=True)
    program = (
        "import sys, idmatch, pyarrow as pa\n"
        "session = idmatch.open(sys.argv[1]).resume(sys.argv[2])\n"
        "def batches():\n"
        "    for n in range(1000):\n"
        "        texts = [f'{n}-{row}' for row in range(10_000)]\n"
        "        yield pa.record_batch({'id': texts, 'partner_id': texts, 'seen_at': "
        "['2026-03-01'] * len(texts)})\n"
        "        print(n, flush=True)\n"
        "rows = pa.RecordBatchReader.from_batches(pa.schema([('id', 'string'), "
        "('partner_id', 'string'), ('seen_at', 'string')]), batches())\n"
        "session.add(rows, part=0)\n"
    )
    for stop in (0, 20, 100):
        command = [sys.executable, "-c", program, store.path, session.id]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        for line in worker.stdout:
            if int(line) == stop:
                worker.kill()
        assert worker.wait() == -signal.SIGKILL
    session.add(rows(0, 10), part=0)
    assert session.commit() == idmatch.Committed(10, 0)
    assert stored(table) == list(range(10))
    assert os.listdir(f"{store.path}/staging") == []
