"""Figures of stores on servers: those of the client, and those of the nodes."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, SMALL, Cli, observations
from idmatch._watch._cluster import ClusterFigures
from idmatch._watch._exporter import StoreFigures
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector
from scraped import Samples, exporting, scrape

_PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"


def figures(collector: Collector) -> Samples:
    registry = CollectorRegistry()
    registry.register(collector)
    return Samples(generate_latest(registry).decode())  # type: ignore[no-untyped-call]


def whole(ask: Callable[[], Samples]) -> Samples:
    """The first scrape with each view of each node: while one is busy, some may come too late."""
    views = {"connections", "cache_requests_total", "pool_pending", "sstable_tasks", "disk_bytes"}
    for _ in range(100):
        found = ask()
        names = Counter(name.removeprefix("idmatch_cassandra_") for name, _, _ in found)
        if views <= set(names) and names["requests_total"] == 6 * names["node_up"]:
            return found
        time.sleep(0.1)
    raise AssertionError("no scrape is whole")


@pytest.fixture
def store(address: str) -> Iterator[idmatch.Store]:
    with idmatch.open(address) as opened:
        yield opened


def test_the_client_counts_requests_by_node(store: idmatch.Store, node: str) -> None:
    before = Samples(store.metrics())
    table = store.create_table("crm", expected_rows=1000)
    table.upsert(SMALL)
    table.lookup("a")
    table.match(pa.table({"id": ["a", "nobody"]}))
    found = Samples(store.metrics())
    host = node.partition(":")[0].split(",")[0]
    answered = found.by("idmatch_cql_attempt_duration_seconds_count", "node")
    assert answered[host] > before.by("idmatch_cql_attempt_duration_seconds_count", "node").get(
        host, 0
    )
    assert found.of("idmatch_cql_connections") >= 1
    assert found.of("idmatch_cql_requests_in_flight") == 0
    assert found.of("idmatch_cql_requests_limit") > 0
    assert found.of("idmatch_cql_client_busy_seconds_total") > 0
    calls = found.by("idmatch_call_duration_seconds_count", "call")
    assert (calls["upsert"], calls["lookup"], calls["match"]) == (1, 1, 1)


def test_no_figure_of_the_client_has_an_identifier(store: idmatch.Store) -> None:
    table = store.create_table("zqtable", expected_rows=1000)
    table.upsert(observations(("zqid", "zqpartner", NOON)))
    assert table.lookup("zqid") == [("zqpartner", NOON)]
    assert "zq" not in store.metrics()


def test_nodes_tell_of_themselves(store: idmatch.Store, address: str, node: str) -> None:
    table = store.create_table("crm", expected_rows=1000)
    collector = ClusterFigures(address)
    before = whole(lambda: figures(collector))
    for _ in range(20):
        table.upsert(SMALL)
        table.lookup("a")
    found = whole(lambda: figures(collector))
    host = node.partition(":")[0].split(",")[0]
    assert found.of("idmatch_cassandra_node_up", node=host) == 1
    assert found.of("idmatch_cassandra_connections", node=host) >= 1
    labels = {"node": host, "where": "coordinator", "operation": "write"}
    written = found.of("idmatch_cassandra_requests_total", **labels)
    assert written > before.of("idmatch_cassandra_requests_total", **labels)
    assert found.of("idmatch_cassandra_latency_seconds", **labels, quantile="p99") > 0
    pools = {
        labels["pool"] for name, labels, _ in found if name == "idmatch_cassandra_pool_pending"
    }
    assert {"ReadStage", "MutationStage", "CompactionExecutor"} <= pools
    assert found.by("idmatch_cassandra_cache_requests_total", "cache")
    assert {"idmatch_cassandra_sstable_tasks", "idmatch_cassandra_disk_bytes"} <= found.names()


def test_a_node_that_does_not_answer_is_down(store: idmatch.Store, address: str) -> None:
    collector = ClusterFigures(address)

    class Down:
        """As the core tells a node without an answer to any question."""

        def ask(self, questions: list[str]) -> list[tuple[str, str | None, list[None]]]:
            return [("10.0.0.9", "dc1", [None] * len(questions))]

    collector._nodes = Down()  # type: ignore[assignment]
    found = figures(collector)
    assert found.of("idmatch_cassandra_node_up", node="10.0.0.9", dc="dc1") == 0
    assert found.names() == {"idmatch_cassandra_node_up"}


def test_an_exporter_of_a_cluster(store: idmatch.Store, address: str, cli: Cli) -> None:
    store.create_table("crm", expected_rows=1000)
    with exporting(cli, "cql-exporter", address) as url:
        up = whole(lambda: scrape(url)).by("idmatch_cassandra_node_up", "node")
    assert set(up.values()) == {1}


def test_a_count_tells_rows_and_skew(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with idmatch.open(f"{address}&hot_key_rows=100", record=True) as store:
        # All rows of `x` are in one partition; those of `hot` are in several.
        store.create_table("even", expected_rows=1000, keep="all").load(
            observations(*((f"id{n}", "x", NOON) for n in range(70)), ("id7", "y", NOON))
        )
        store.create_table("skewed", expected_rows=64_000).load(
            observations(*(("hot", f"p{n}", NOON) for n in range(5000)))
        )
        for name in store.tables():
            store.table(name).stats(count=True)
    found = figures(StoreFigures(address))
    assert found.by("idmatch_table_rows", "table")["even"] == 71
    largest = found.by("idmatch_table_largest_key_rows", "table")
    assert largest["even"] == 70
    # Of a hot key, a share of its rows is read.
    assert 2500 < largest["skewed"] < 10_000


def test_it_is_for_servers(loaded: Cli) -> None:
    refused = loaded("cql-exporter", "store")
    assert refused.code == 2
    assert "use exporter" in refused.err


def test_the_reference_names_each_figure(
    store: idmatch.Store, address: str, tmp_path: Path
) -> None:
    """And no other one: those of both backends, of files, runs and nodes."""
    collector = ClusterFigures(address)
    table = store.create_table("crm", expected_rows=1000)
    table.upsert(SMALL)
    with idmatch.open(tmp_path / "store", record=True) as directory:
        local = directory.create_table("crm")
        local.load(SMALL)
        local.match(pa.table({"id": ["a"]}))
        with pytest.raises(idmatch.InvalidArgument):
            local.lookup("")
        texts = [Samples(store.metrics()), Samples(directory.metrics())]
    scrapes = [
        *texts,
        figures(StoreFigures(str(tmp_path / "store"))),
        whole(lambda: figures(collector)),
    ]
    suffixes = re.compile(r"_(bucket|sum|count|created)$")
    told = {suffixes.sub("", name) for found in scrapes for name in found.names()}
    explained = set(re.findall(r"`(idmatch_[a-z_0-9]+)`", _PAGE.read_text()))
    # They are told once there is one.
    rare = {
        "idmatch_cassandra_largest_partition_bytes",
    }
    assert told - explained == set()
    assert explained - told - rare - {"idmatch_"} == set()
