"""Processes that decode ORC: what happens to a load when one ends, waits, or is left."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from conftest import SMALL
from idmatch._carry import Carry
from idmatch._sources import Wanted, _columnar, _orc
from idmatch._sources._declared import Declared
from idmatch._sources._files import files_of
from test_lying_sources import big


@pytest.fixture
def orc_file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.orc"
    orc.write_table(SMALL, path)
    return path


def decoders() -> list[int]:
    """The processes that wait for another file."""
    return [decoder._process.pid for decoder in _orc._waiting]


@pytest.mark.parametrize("signal_name", ["SEGV", "ABRT", "KILL"])
def test_a_decoder_of_orc_that_crashes(
    store: idmatch.Store,
    orc_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    signal_name: str,
) -> None:
    for process in decoders():
        os.kill(process, signal.SIGKILL)
    crash = tmp_path / "crash"
    crash.write_text(f"#!/bin/sh\nkill -{signal_name} $$\n")
    crash.chmod(0o700)
    table = store.create_table("t")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(crash))
        with pytest.raises(
            idmatch.SourceError, match=rf"rows\.orc: .*ORC has ended with SIG{signal_name}; check"
        ):
            table.load(orc_file)
        patch.setattr(sys, "executable", "")
        with pytest.raises(idmatch.SourceError, match=r"rows\.orc: this Python has no program"):
            table.load(orc_file)
    assert table.stats().rows == 0
    assert table.load(orc_file).rows == SMALL.num_rows


def test_a_decoder_of_orc_that_crashes_between_its_answers(
    store: idmatch.Store, orc_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = store.create_table("t")
    rows_of = _columnar._rows_of

    def kill(file: Any) -> int:
        rows = rows_of(file)
        os.kill(file._decoder._process.pid, signal.SIGSEGV)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(_columnar, "_rows_of", kill)
        for call in (table.load, table.match):
            with pytest.raises(idmatch.SourceError, match=r"rows\.orc: .*ended with SIGSEGV"):
                call(orc_file)
    assert table.stats().rows == 0
    assert table.load(orc_file).rows == SMALL.num_rows


def test_a_decoder_of_orc_that_is_killed_while_it_waits(
    store: idmatch.Store, orc_file: Path
) -> None:
    table = store.create_table("t")
    for _ in range(2):
        assert table.load([orc_file, orc_file]).rows == 2 * SMALL.num_rows
        assert decoders()
        for process in decoders():
            os.kill(process, signal.SIGKILL)


def test_orc_files_are_read_at_once(tmp_path: Path) -> None:
    """Each by a decoder of its own; at most two wait afterwards."""
    paths = [tmp_path / f"{number}.orc" for number in range(5)]
    for number, path in enumerate(paths):
        orc.write_table(pa.table({"id": [f"i{number}"], "pid": ["p"], "t": ["2026-03-01"]}), path)

    def load(number: int) -> list[str]:
        with idmatch.open(tmp_path / f"store{number}") as store:
            table = store.create_table("t")
            table.load(paths[number : number + 1] * 20, columns=("id", "pid", "t"))
            return [str(id) for id in table.scan().to_arrow().column("id")]

    with ThreadPoolExecutor(len(paths)) as pool:
        assert list(pool.map(load, range(5))) == [[f"i{number}"] for number in range(5)]
    assert len(decoders()) <= 2


@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_columns_are_those_that_a_table_declares(tmp_path: Path, kind: str) -> None:
    """Those of the partition too, where the file has others of their names."""
    rows = pa.table({"ID": ["a", "b"], "pid": ["x ", "y"], "day": ["other", "days"], "n": [1, 2]})
    (orc if kind == "orc" else pq).write_table(rows, tmp_path / "000000_0")
    columns = {"id": "string", "pid": "char(2)", "added": "string"}
    declared = Declared(kind, columns, {"day": "2026-01-01", "hour": None})
    (source,) = files_of(f"file:{tmp_path}", declared)
    asked = {"id": "id", "partner_id": "pid", "seen_at": "day"}
    opened = source.open(Wanted(asked, carry=Carry(["added", "hour"])), None)
    assert opened.reader.read_all().to_pydict() == {
        "id": ["a", "b"],
        "partner_id": ["x", "y"],
        "seen_at": ["2026-01-01"] * 2,
        "added": [None] * 2,
        "hour": [None] * 2,
    }
    opened.check()


ABANDONED = """
import sys
from idmatch._sources import Wanted, find

(source,) = find(sys.argv[1])
opened = source.open(Wanted({"id": "id"}), None)
opened.reader.read_next_batch()
raise ZeroDivisionError
"""


def test_a_reader_of_orc_may_be_left(tmp_path: Path) -> None:
    """While most of the file is to come; the process ends as it would without."""
    path = tmp_path / "rows.orc"
    orc.write_table(big(), path)
    ran = subprocess.run(
        [sys.executable, "-c", ABANDONED, str(path)], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr.endswith("ZeroDivisionError\n")


FORKED = """
import os, sys
import idmatch
from idmatch._sources import _orc

path = sys.argv[1]

def load(name):
    with idmatch.open(f"{path}.{name}") as store:
        assert store.create_table("t").load([path, path]).rows == 10
    (decoder,) = _orc._waiting
    return decoder._process.pid

before = load("before")
child = os.fork()
if child == 0:
    os._exit(0 if load("child") != before else 9)
assert os.waitpid(child, 0)[1] == 0
assert load("after") == before
"""


def test_a_fork_has_decoders_of_its_own(orc_file: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORKED, str(orc_file)], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
