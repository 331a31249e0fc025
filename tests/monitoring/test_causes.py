"""Each alert of stores and partners in the runbook: its expression is true once it is caused."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from causes import ANY, fires, gone, until, watched
from conftest import NOON, SMALL, Cli, observations
from damage import overwrite_segments
from idmatch._watch._exporter import StoreFigures
from idmatch._watch._process import ProcessFigures
from idmatch._watch._server import serving
from prometheus_server import Prometheus


def test_a_stale_partner_rejects_and_a_failed_load(loaded: Cli, tmp_path: Path) -> None:
    (loaded.home / "bad.csv").write_text("id,partner_id,seen_at\na,x,2026-03-01\n,y,2026-03-01\n")
    with watched(tmp_path, StoreFigures(str(loaded.home / "store"))) as prometheus:
        # The newest row is of March.
        fires(prometheus, "IdmatchPartnerStale")
        assert not prometheus.ask(prometheus.expression("IdmatchRowsRejected"))
        assert loaded("load", "store", "small", "bad.csv").code == 3
        fires(prometheus, "IdmatchRowsRejected")
        assert not prometheus.ask(prometheus.expression("IdmatchRunFailed"))
        assert loaded("load", "store", "small", "missing.csv").code == 1
        fires(prometheus, "IdmatchRunFailed")
        # The next one ends it.
        assert loaded("load", "store", "small", "small.parquet").code == 0
        gone(prometheus, "IdmatchRunFailed")


def test_a_match_rate_that_drops(loaded: Cli, tmp_path: Path) -> None:
    with watched(tmp_path, StoreFigures(str(loaded.home / "store"))) as prometheus:
        assert loaded("match", "store", "small", "people.parquet").code == 0
        prometheus.wait("count_over_time(idmatch:match_rate:ratio[1m]) > 5")
        with idmatch.open(loaded.home / "store", record=True) as store:
            store.table("small").match(pa.table({"id": [f"nobody{n}" for n in range(10)]}))
        fires(prometheus, "IdmatchMatchRateDropped")


def test_a_store_that_is_gone_and_an_exporter_that_is_down(loaded: Cli, tmp_path: Path) -> None:
    store = loaded.home / "store"
    with watched(tmp_path, StoreFigures(str(store))) as prometheus:
        prometheus.wait("idmatch_store_readable == 1")
        store.rename(loaded.home / "away")
        fires(prometheus, "IdmatchStoreUnreadable")
    with serving(StoreFigures(str(store)), ANY) as place:
        second = tmp_path / "second"
        second.mkdir()
        running = Prometheus(second, {"idmatch": [str(place)]})
        running.wait("up == 1")
    try:
        fires(running, "IdmatchExporterDown")
    finally:
        running.close()


def test_a_snapshot_that_is_held_is_seen(store: idmatch.Store, tmp_path: Path) -> None:
    """An hour is not waited for."""
    table = store.create_table("crm")
    table.load(SMALL)
    with store.snapshot(), watched(tmp_path, ProcessFigures(store)) as prometheus:
        table.erase(id="b")
        table.compact()
        watched_by = prometheus.expression("IdmatchOldSnapshot").replace("3600", "1")
        prometheus.wait(watched_by)


def test_damage(store: idmatch.Store, tmp_path: Path) -> None:
    table = store.create_table("crm")
    table.load(observations(*((f"id{n}", f"p{n}", NOON) for n in range(1000))))
    with watched(tmp_path, ProcessFigures(store)) as prometheus:
        prometheus.wait("up == 1")
        overwrite_segments(Path(store.path), 64)
        assert meets_damage(table)
        fires(prometheus, "IdmatchErrors")


def meets_damage(table: idmatch.Table) -> bool:
    """Whether a lookup of one of its ids raises Corrupt."""
    try:
        for n in range(1000):
            table.lookup(f"id{n}")
    except idmatch.Corrupt:
        return True
    return False


def test_a_writer_that_stalls(tmp_path: Path) -> None:
    rows = observations(*((f"id{n:08}", f"p{n:08}", NOON) for n in range(20_000)))
    with idmatch.open(tmp_path / "store", memtable="1M") as store:
        table = store.create_table("crm")
        with watched(tmp_path, ProcessFigures(store)) as prometheus:
            expression = prometheus.expression("IdmatchWritesStall")
            until(lambda: bool(prometheus.ask(expression)), lambda: table.upsert(rows))


def test_a_compaction_that_fails(tmp_path: Path) -> None:
    rows = observations(*((f"id{n:08}", f"p{n:08}", NOON) for n in range(20_000)))
    with idmatch.open(tmp_path / "store", memtable="1M") as store:
        table = store.create_table("crm")
        table.load(rows)
        overwrite_segments(tmp_path / "store", 4096)
        with watched(tmp_path, ProcessFigures(store)) as prometheus:
            expression = prometheus.expression("IdmatchBackgroundWorkFails")
            until(lambda: bool(prometheus.ask(expression)), lambda: table.upsert(rows))
        failing = store.status().last_background_error
        assert failing is not None
        assert failing.work == "compaction"


@contextmanager
def kept_full(disk: Path) -> Iterator[None]:
    """Another program fills whatever becomes free."""
    ended = threading.Event()

    def fill() -> None:
        with open(disk / "fill", "wb", buffering=0) as file:
            while not ended.wait(0.05):
                with suppress(OSError):
                    while True:
                        file.write(bytes(4096))

    filling = threading.Thread(target=fill)
    filling.start()
    try:
        yield
    finally:
        ended.set()
        filling.join()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk])
    if mounted.returncode:
        pytest.skip("this system mounts nothing")
    try:
        rows = observations(*((f"id{n:08}", f"p{n:08}", NOON) for n in range(20_000)))
        with idmatch.open(disk / "store", memtable="4M", record=True) as store:
            table = store.create_table("crm", keep="all")
            # From the first row on the process is the writer.
            table.upsert(rows)
            # What the writer says of itself lies on the full disk, too.
            with watched(tmp_path, StoreFigures(str(disk / "store"))) as prometheus:
                prometheus.wait("idmatch_store_has_writer == 1")
                with suppress(idmatch.IoError):
                    for number in range(10_000):
                        table.upsert(rows, dated=f"2026-{number % 12 + 1:02}-01")
                with kept_full(disk):
                    fires(prometheus, "IdmatchDiskAlmostFull")
                    fires(prometheus, "IdmatchBackgroundWorkFails")
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
