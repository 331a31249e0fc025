"""Dask: frames loaded by threads, processes and a cluster's workers."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import dask
import dask.dataframe as dd
import idmatch
import idmatch.dask
import pandas as pd
import pyarrow as pa
import pytest
from dask_jobs import OBSERVED, die_once, rows
from distributed import Client

pytest_plugins = ["dask_fixtures"]


@pytest.mark.usefixtures("scheduler")
def test_a_load_is_seen_at_once_or_not_at_all(store: idmatch.Store, tmp_path: Path) -> None:
    table = store.create_table("t")
    frame = dd.from_pandas(OBSERVED.assign(other=1), npartitions=4)
    assert idmatch.dask.load(frame, store, "t") == idmatch.dask.Loaded(500, 0, [])
    first = OBSERVED.iloc[:100]
    done = idmatch.dask.load(
        dd.from_pandas(first, npartitions=2), store.path, "t", replace=True, key="today"
    )
    assert done.rows == 100
    stored = pa.table(table.scan()).to_pandas()
    assert rows(stored, "id", "partner_id") == rows(first, "id", "partner_id")
    repeated = idmatch.dask.load(frame, store, "t", replace=True, key="today")
    assert repeated.rows == 100
    assert pa.table(table.scan()).num_rows == 100
    # A task that fails leaves nothing.
    failing = frame.map_partitions(fail_on, "i150", meta=frame._meta)
    with pytest.raises(RuntimeError, match="on purpose"):
        idmatch.dask.load(failing, store, "t", replace=True)
    assert pa.table(table.scan()).num_rows == 100
    assert not any((Path(store.path) / "staging").glob("*"))


@pytest.mark.usefixtures("scheduler")
def test_rejected_rows_are_counted_and_bounded(store: idmatch.Store) -> None:
    table = store.create_table("t")
    bad = OBSERVED.assign(partner_id=OBSERVED["partner_id"].where(OBSERVED.index % 50 > 0))
    frame = dd.from_pandas(bad, npartitions=4)
    done = idmatch.dask.load(frame, store, "t")
    assert (done.rows, done.rejected) == (490, 10)
    assert len(done.rejects) == 4
    assert all("missing" in Path(file).read_text() for file in done.rejects)
    with pytest.raises(idmatch.BadInput, match="at most 1% may be"):
        idmatch.dask.load(frame, store, "t", replace=True, max_rejects="1%")
    with pytest.raises(idmatch.BadInput, match="missing"):
        idmatch.dask.load(frame, store, "t", strict=True)
    assert pa.table(table.scan()).num_rows == 490


def fail_on(partition: pd.DataFrame, id: str) -> pd.DataFrame:
    """The partition; fails on one with this id."""
    if id in list(partition["id"]):
        raise RuntimeError("failed on purpose")
    return partition


def fail_when_others_are_seen(partition: pd.DataFrame, address: str) -> pd.DataFrame:
    """The partition; fails on the third one when rows of the first are there."""
    if "p250" in list(partition["partner_id"]):
        until = time.monotonic() + 60
        with idmatch.open(address) as store:
            while not store.table("t").lookup("i0") and time.monotonic() < until:
                time.sleep(0.01)
        raise RuntimeError("failed on purpose")
    return partition


def test_on_servers_rows_are_seen_as_they_come(address: str) -> None:
    """A load that fails leaves what it wrote; to repeat it is safe."""
    with idmatch.open(address) as store:
        table = store.create_table("t", expected_rows=1_000)
        frame = dd.from_pandas(OBSERVED, npartitions=4)
        failing = frame.map_partitions(fail_when_others_are_seen, address, meta=frame._meta)
        with dask.config.set(scheduler="threads", num_workers=2):
            with pytest.raises(RuntimeError, match="on purpose"):
                idmatch.dask.load(failing, address, "t")
            left = rows(pa.table(table.scan()).to_pandas(), "id", "partner_id")
            every = rows(OBSERVED, "id", "partner_id")
            assert 0 < len(left) < len(every)
            assert set(left) < set(every)
            for key in ("once", "once", None):
                assert idmatch.dask.load(frame, address, "t", key=key).rows == 500
        assert rows(pa.table(table.scan()).to_pandas(), "id", "partner_id") == every


def test_workers_that_die_count_once(store: idmatch.Store, client: Client, tmp_path: Path) -> None:
    """What a worker had staged is lost with it, and staged again by another."""
    table = store.create_table("t", keep="all")
    frame = dd.from_pandas(OBSERVED, npartitions=8)
    frame = frame.map_partitions(die_once, str(tmp_path / "mark"), meta=frame._meta)
    with client.as_current():
        assert idmatch.dask.load(frame, store, "t").rows == 500
    assert (tmp_path / "mark").exists()
    assert pa.table(table.scan()).num_rows == 500


def held(partition: pd.DataFrame, begun: str, go: str) -> pd.DataFrame:
    """The partition, once there is the file `go`."""
    Path(begun).touch()
    while not os.path.exists(go):
        time.sleep(0.01)
    return partition


_WRITER = """
import os, sys, time, idmatch
path, begun, go = sys.argv[1:]
while not os.path.exists(begun):
    time.sleep(0.01)
with idmatch.open(path) as store:
    store.table("t").upsert_one("a", "b")
    open(go, "x").close()
    sys.stdin.read()
"""


def test_a_commit_waits_for_another_writer(store: idmatch.Store, tmp_path: Path) -> None:
    """It takes the lock while the tasks run: the error names the session, which stays staged."""
    path = store.path
    store.create_table("t", keep="all")
    store.close()
    begun, go = str(tmp_path / "begun"), str(tmp_path / "go")
    frame = dd.from_pandas(OBSERVED, npartitions=2)
    frame = frame.map_partitions(held, begun, go, meta=frame._meta)
    command = [sys.executable, "-c", _WRITER, path, begun, go]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as writer:
        try:
            with pytest.raises(idmatch.Busy) as raised, dask.config.set(scheduler="threads"):
                idmatch.dask.load(frame, path, "t", wait="200ms")
            writer.communicate("", timeout=60)
        finally:
            writer.kill()
    session = re.search(r"the rows of session (\S+) are staged", str(raised.value))
    assert session
    with idmatch.open(path) as later:
        table = later.table("t")
        assert table.scan().to_arrow().num_rows == 1
        assert later.resume(session[1]).commit().rows == 500
        assert table.scan().to_arrow().num_rows == 501
        assert table.stats().rows == 501
