"""Forks, daemon threads at the end of Python, and sources that write to the store they go to."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, observations

FORKS = 20


def use_in_a_fork(path: str) -> str:
    """Looks up in a store that the worker opens itself."""
    [(partner_id, _)] = idmatch.open(path).table("t").lookup("a")
    return partner_id


INHERITED = r"""
import os, select, signal, sys, threading

begins = None
# Before idmatch is imported: hooks run in this order.
os.register_at_fork(after_in_child=lambda: begins and os.write(begins, b"x"))

import idmatch, pyarrow as pa

store = idmatch.open(sys.argv[1])
table = store.create_table("t")
table.upsert_one("a", "x", "2026-03-01")
snapshot = store.snapshot()
frozen = snapshot.table("t")
match = table.match(pa.table({"id": ["a"]}))
rows = table.scan()
stream = pa.RecordBatchReader.from_stream(table.scan())
session = table.begin(shared=True)
ends = threading.Event()

def write():
    number = 0
    while not ends.is_set():
        number += 1
        table.upsert_one(f"i{number}", "y", "2026-03-01")

def load():
    while not ends.is_set():
        table.load(pa.table({"id": ["l"], "partner_id": ["m"], "seen_at": ["2026-03-01"]}))
        table.match(pa.table({"id": ["a", "l"]})).to_arrow()
        with store.snapshot() as other:
            other.table("t").lookup("a")

threads = [threading.Thread(target=work) for work in (*[write] * 8, load)]
for thread in threads:
    thread.start()

uses = [
    lambda: store.tables(),
    lambda: store.table("t"),
    lambda: store.snapshot(),
    lambda: store.refresh(),
    lambda: table.lookup("a"),
    lambda: table.keep,
    lambda: table.upsert_one("b", "x"),
    lambda: table.match(pa.table({"id": ["a"]})),
    lambda: frozen.lookup("a"),
    lambda: snapshot.tables(),
    lambda: match.rows,
    lambda: match.to_arrow(),
    lambda: pa.table(rows),
    lambda: stream.read_all(),
    lambda: session.add(pa.table({"id": ["l"], "partner_id": ["m"], "seen_at": ["2026-03-01"]})),
    lambda: session.commit(),
]

def child():
    for number, use in enumerate(uses):
        try:
            use()
            return 100 + number
        except (idmatch.Error, OSError, pa.ArrowInvalid) as error:
            if "is a fork" not in str(error):
                print(number, error, file=sys.stderr)
                return 50 + number
    # What the child opens itself works, beside the parent's writer.
    here = idmatch.open(sys.argv[1])
    if here is store or [found[0] for found in here.table("t").lookup("a")] != ["x"]:
        return 2
    # So does a store of its own, with threads that wait for each other.
    with idmatch.open(f"{sys.argv[1]}-{os.getpid()}") as own:
        made = own.create_table("t")

        def fill(key):
            for number in range(20):
                made.upsert_one(f"{key}-{number}", "x", "2026-03-01")

        fills = [threading.Thread(target=fill, args=(f"i{number}",)) for number in range(24)]
        for each in fills:
            each.start()
        for each in fills:
            each.join()
        keys = [f"i{number}-{each}" for number in range(24) for each in range(20)]
        if not all(made.lookup_many(keys)):
            return 3
    return 0

answered = 0
for _ in range(int(sys.argv[2])):
    begun, begins = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        code = 1
        try:
            code = child()
        finally:
            # Drops all that was inherited.
            names = ("match", "rows", "stream", "frozen", "snapshot", "session", "table", "store")
            for name in names:
                globals()[name] = None
            uses.clear()
            os._exit(code)
    # Python 3.11 waits in os.fork for a lock that a thread of the parent had, if one was about to
    # take the GIL for the first time: no code of the child has run, not even what idmatch has
    # registered to run after a fork.
    is_python = not select.select([begun], [], [], 5)[0]
    if is_python:
        os.kill(pid, signal.SIGKILL)
    os.close(begun)
    os.close(begins)
    _, status = os.waitpid(pid, 0)
    if status and not is_python:
        ends.set()
        sys.exit(f"a child ended with {os.waitstatus_to_exitcode(status)}")
    answered += not is_python
ends.set()
for thread in threads:
    thread.join()
assert len(table.lookup("a")) == 1
assert table.verify() == []
store.close()
assert answered > int(sys.argv[2]) // 2, answered
"""


def test_a_fork_of_a_writing_process_gets_an_error_at_once(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(INHERITED)
    command = [sys.executable, "-W", "ignore", str(program), str(tmp_path / "store"), str(FORKS)]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_open_a_store_that_their_parent_writes(tmp_path: Path, method: str) -> None:
    path = str(tmp_path / "store")
    with idmatch.open(path) as store:
        table = store.create_table("t")
        table.upsert(observations(("a", "x", NOON)))
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(use_in_a_fork, [path] * 8) == ["x"] * 8
            assert pool.map(lookup_pickled, [table] * 8) == ["x"] * 8
        table.upsert(observations(("b", "y", NOON)))
        assert table.lookup("b")[0][0] == "y"


def lookup_pickled(table: idmatch.Table) -> str:
    """Looks up in a table that came as a pickle."""
    [(partner_id, _)] = table.lookup("a")
    return partner_id


DAEMONS = r"""
import sys, threading, time
import idmatch, pyarrow as pa

store = idmatch.open(sys.argv[1])
table = store.create_table("t")
table.upsert_one("a", "x", "2026-03-01")
began = threading.Barrier(7)

# pyarrow itself aborts where Python ends while it makes these without our calls.
row = pa.record_batch({"id": ["l"], "partner_id": ["m"], "seen_at": ["2026-03-01"]})
population = pa.table({"id": ["a"]})

def rows():
    while True:
        yield row

def stream():
    table.load(pa.RecordBatchReader.from_batches(row.schema, rows()))

def repeat(work):
    began.wait()
    while True:
        work()

works = [
    lambda: table.lookup("a"),
    lambda: table.lookup_many(["a"] * 1000),
    lambda: table.upsert_one("b", "y"),
    lambda: table.match(population).to_arrow(),
    lambda: table.scan(),
    stream,
]
for work in works:
    threading.Thread(target=repeat, args=(work,), daemon=True).start()
began.wait()
time.sleep(float(sys.argv[2]))
print("ends", flush=True)
"""


def test_daemon_threads_do_not_harm_the_exit(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(DAEMONS)
    for attempt in range(8):
        command = [
            sys.executable,
            str(program),
            str(tmp_path / f"store{attempt}"),
            str(attempt / 20),
        ]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ends\n", "")


WAITS = r"""
import os, sys, threading
import idmatch, pyarrow as pa

table = idmatch.open(sys.argv[1]).create_table("t")
began = threading.Event()
schema = pa.schema({"id": pa.string(), "partner_id": pa.string(), "seen_at": pa.string()})

def rows():
    began.set()
    threading.Event().wait()
    yield

def stream():
    table.load(pa.RecordBatchReader.from_batches(schema, rows()))

threading.Thread(target=stream, daemon=True).start()
began.wait()
if "fork" in sys.argv:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
print("ends", flush=True)
"""


@pytest.mark.parametrize("forks", [(), ("fork",)])
def test_the_exit_does_not_wait_for_a_source_that_never_comes(
    tmp_path: Path, forks: tuple[str, ...]
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", WAITS, str(tmp_path / "store"), *forks]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ends\n", "")


class Writes:
    """A source whose rows come after it has done something else with the store."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            self._work()
            yield from observations(("n", "new", NOON)).to_batches()

        schema = observations(("n", "new", NOON)).schema
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        stream: Any = reader
        return stream.__arrow_c_stream__(requested_schema)


def test_a_source_may_write_to_the_store_that_it_goes_to(store: idmatch.Store) -> None:
    one, other = store.create_table("one"), store.create_table("other")
    rows = observations(("a", "x", NOON))
    works = {
        "load": lambda: other.load(rows),
        "upsert": lambda: other.upsert(rows),
        "replace": lambda: other.load(rows, replace=True),
        "erase": lambda: other.erase(id="b"),
        "compact": lambda: other.compact(),
        "same": lambda: one.load(rows),
        "match": lambda: other.match(rows).to_arrow(),
        "create": lambda: store.create_table("third"),
    }
    into = {
        "load": lambda source: one.load(source),
        "upsert": lambda source: one.upsert(source),
        "match": lambda source: one.match(source, column="id"),
        "erase": lambda source: one.erase_from(source, columns=["id"]),
    }
    for outer, take in into.items():
        for inner, work in works.items():
            done = threading.Event()

            def run(take=take, work=work, done=done) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
                take(Writes(work))
                done.set()

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            assert done.wait(60), f"{inner} within {outer}"
            thread.join()
    assert other.lookup("a")[0][0] == "x"
    assert one.verify() == []
    assert other.verify() == []


def test_a_killed_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    store = idmatch.open(path)
    table = store.create_table("t")
    table.upsert(observations(("a", "x", NOON)))
    pid = os.fork()
    if pid == 0:
        signal.pause()
    store.close()
    # The child still has the file of the lock open.
    program = "import idmatch, sys; idmatch.open(sys.argv[1]).table('t').upsert_one('b', 'y')"
    done = subprocess.run([sys.executable, "-c", program, path])
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert done.returncode == 0
