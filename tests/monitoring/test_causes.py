"""Each alert of the runbook that can be caused here: its expression is true once it is caused."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, SMALL, Cli, observations
from idmatch._lab import Lab
from idmatch._watch._cluster import ClusterFigures
from idmatch._watch._exporter import StoreFigures
from idmatch._watch._process import ProcessFigures
from idmatch._watch._server import Listen, serving
from prometheus_server import Prometheus
from with_lab import FOR_TESTS

_ANY = Listen("127.0.0.1", 0)
_NETWORK = "127.73.77"
_HEAP = 1 << 29


@contextmanager
def watched(home: Path, *collectors: object) -> Iterator[Prometheus]:
    """A Prometheus that scrapes these."""
    with ExitStack() as open_ones:
        places = [str(open_ones.enter_context(serving(one, _ANY))) for one in collectors]  # type: ignore[arg-type]
        running = Prometheus(home, {"idmatch": places})
        open_ones.callback(running.close)
        yield running


def fires(prometheus: Prometheus, alert: str) -> None:
    """Returns once the expression of an alert is true; how long it must be so is not waited for."""
    prometheus.wait(prometheus.expression(alert))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where Prometheus keeps its own."""
    folder = tmp_path / "prometheus"
    folder.mkdir()
    return folder


def test_a_stale_partner_rejects_and_a_failed_load(loaded: Cli, home: Path) -> None:
    (loaded.home / "bad.csv").write_text("id,partner_id,seen_at\na,x,2026-03-01\n,y,2026-03-01\n")
    with watched(home, StoreFigures(str(loaded.home / "store"))) as prometheus:
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


def gone(prometheus: Prometheus, alert: str) -> None:
    while prometheus.ask(prometheus.expression(alert)):
        time.sleep(0.5)


def test_a_match_rate_that_drops(loaded: Cli, home: Path) -> None:
    with watched(home, StoreFigures(str(loaded.home / "store"))) as prometheus:
        assert loaded("match", "store", "small", "people.parquet").code == 0
        prometheus.wait("count_over_time(idmatch:match_rate:ratio[1m]) > 5")
        with idmatch.open(loaded.home / "store", record=True) as store:
            store.table("small").match(pa.table({"id": [f"nobody{n}" for n in range(10)]}))
        fires(prometheus, "IdmatchMatchRateDropped")


def test_a_store_that_is_gone_and_an_exporter_that_is_down(loaded: Cli, home: Path) -> None:
    store = loaded.home / "store"
    with watched(home, StoreFigures(str(store))) as prometheus:
        prometheus.wait("idmatch_store_readable == 1")
        store.rename(loaded.home / "away")
        fires(prometheus, "IdmatchStoreUnreadable")
    with serving(StoreFigures(str(store)), _ANY) as place:
        running = Prometheus(home, {"idmatch": [str(place)]})
        running.wait("up == 1")
    try:
        fires(running, "IdmatchExporterDown")
    finally:
        running.close()


def test_a_snapshot_that_is_held_is_seen(store: idmatch.Store, home: Path) -> None:
    """An hour is not waited for."""
    table = store.create_table("crm")
    table.load(SMALL)
    with store.snapshot(), watched(home, ProcessFigures(store)) as prometheus:
        table.erase(id="b")
        table.compact()
        watched_by = prometheus.expression("IdmatchOldSnapshot").replace("3600", "1")
        prometheus.wait(watched_by)


def test_damage(store: idmatch.Store, home: Path) -> None:
    table = store.create_table("crm")
    table.load(observations(*((f"id{n}", f"p{n}", NOON) for n in range(1000))))
    with watched(home, ProcessFigures(store)) as prometheus:
        prometheus.wait("up == 1")
        for segment in (Path(store.path) / "segments").glob("*.seg"):
            with open(segment, "r+b") as file:
                file.seek(segment.stat().st_size // 2)
                file.write(b"\xff" * 64)
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


def until(is_so: Callable[[], bool], work: Callable[[], object]) -> None:
    """Works until something is so."""
    while not is_so():
        work()


def test_a_writer_that_stalls(tmp_path: Path, home: Path) -> None:
    rows = observations(*((f"id{n:08}", f"p{n:08}", NOON) for n in range(20_000)))
    with idmatch.open(tmp_path / "store", memtable="1M") as store:
        table = store.create_table("crm")
        with watched(home, ProcessFigures(store)) as prometheus:
            expression = prometheus.expression("IdmatchWritesStall")
            until(lambda: bool(prometheus.ask(expression)), lambda: table.upsert(rows))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_disk(tmp_path: Path, home: Path) -> None:
    disk = tmp_path / "store"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk])
    if mounted.returncode:
        pytest.skip("this system mounts nothing")
    try:
        rows = observations(*((f"id{n:08}", f"p{n:08}", NOON) for n in range(20_000)))
        with idmatch.open(disk, memtable="4M", record=True) as store:
            table = store.create_table("crm", keep="all")
            collectors = StoreFigures(str(disk)), ProcessFigures(store)
            with watched(home, *collectors) as prometheus:
                with suppress(idmatch.IoError):
                    for number in range(10_000):
                        table.upsert(rows, dated=f"2026-{number % 12 + 1:02}-01")
                fires(prometheus, "IdmatchDiskAlmostFull")
                fires(prometheus, "IdmatchBackgroundWorkFails")
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_node_that_is_killed(tmp_path: Path, home: Path) -> None:
    lab = Lab(tmp_path / "lab", jvm_options=FOR_TESTS)
    try:
        lab.up(1, _HEAP, _NETWORK)
        address = f"cql://{_NETWORK}.1/watched?replication=1"
        with idmatch.open(address) as store:
            store.create_table("crm", expected_rows=1000)
        with watched(home, ClusterFigures(address)) as prometheus:
            prometheus.wait("idmatch_cassandra_node_up == 1")
            lab.kill(1)
            fires(prometheus, "IdmatchNodeDown")
    finally:
        lab.down(delete=True)
