"""Each alert of a cluster in the runbook: its expression is true once three real nodes cause it."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from causes import fires, flush_soon, gone, until, watched
from conftest import NOON, observations
from idmatch._lab import Lab
from idmatch._watch._cluster import ClusterFigures
from idmatch._watch._process import ProcessFigures
from with_lab import FOR_TESTS

_NETWORK = "127.73.77"
_HEAP = 1 << 29
# Who waits for nodes that hang learns so soon. Compactions are soon behind.
_SETTINGS = {
    "read_request_timeout": "500ms",
    "concurrent_compactors": "1",
    "compaction_throughput": "1MiB/s",
}
_THREADS = 64


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three running nodes."""
    lab = Lab(tmp_path_factory.mktemp("lab"), jvm_options=FOR_TESTS, settings=_SETTINGS)
    try:
        lab.up(3, _HEAP, _NETWORK)
        yield lab
    finally:
        lab.down(delete=True)


@pytest.fixture
def lab(nodes: Lab) -> Iterator[Lab]:
    """The same, whole again after the test."""
    yield nodes
    for number in (1, 2, 3):
        nodes.resume(number)


def address(keyspace: str, options: str = "") -> str:
    """A store with three copies of each row."""
    points = ",".join(f"{_NETWORK}.{number}" for number in (1, 2, 3))
    return f"cql://{points}/{keyspace}?replication=3{options}"


def small(store: idmatch.Store) -> idmatch.Table:
    """A table with 1,000 rows."""
    table = store.create_table("crm", expected_rows=1000)
    table.load(ROWS)
    return table


ROWS = observations(*((f"id{n}", f"p{n}", NOON) for n in range(1000)))


def test_a_node_that_is_killed_and_its_hints(lab: Lab, tmp_path: Path) -> None:
    place = address("killed")
    with (
        idmatch.open(place) as store,
        watched(tmp_path, ClusterFigures(place)) as prometheus,
    ):
        table = small(store)
        prometheus.wait("count(idmatch_cassandra_node_up == 1) == 3")
        hints = prometheus.expression("IdmatchHintsPending")
        assert not prometheus.ask(hints)
        lab.kill(3)
        fires(prometheus, "IdmatchNodeDown")
        until(lambda: bool(prometheus.ask(hints)), lambda: table.upsert(ROWS))
        lab.resume(3)
        gone(prometheus, "IdmatchNodeDown")
        gone(prometheus, "IdmatchHintsPending")


def look_up(table: idmatch.Table, count: int = 200) -> None:
    """Lookups, many at once; some may find too few nodes."""

    def one(n: int) -> None:
        with suppress(idmatch.Unavailable):
            table.lookup(f"id{n}")

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(one, range(count)))


def test_a_node_that_hangs(lab: Lab, tmp_path: Path) -> None:
    # Else a slow machine asks other nodes, too.
    place = address("hangs", "&speculate_after=2s")
    with (
        idmatch.open(place) as store,
        watched(tmp_path, ProcessFigures(store), ClusterFigures(place)) as prometheus,
    ):
        table = small(store)
        asked = "count(idmatch:cql_unanswered:ratio) == 3"
        until(lambda: bool(prometheus.ask(asked)), lambda: look_up(table, 3))
        prometheus.wait("count(idmatch_cassandra_node_up == 1) == 3")
        expression = prometheus.expression("IdmatchNodeHangs")
        assert not prometheus.ask(expression)
        lab.freeze(3)
        look_up(table)
        (found,) = prometheus.wait(expression)
        assert found["metric"]["node"] == f"{_NETWORK}.3"
        # After some seconds the client leaves it alone.
        fires(prometheus, "IdmatchNodeDown")


def test_nodes_that_are_late(lab: Lab, tmp_path: Path) -> None:
    """With two nodes that hang, the third one answers that they are late, until it knows better. A
    few such answers are enough here.
    """
    with (
        idmatch.open(address("late", "&timeout=2s&request_timeout=2s")) as store,
        watched(tmp_path, ProcessFigures(store)) as prometheus,
    ):
        table = small(store)
        expression = prometheus.expression("IdmatchNodesOverloaded")
        fewer = expression.replace("> 1", "> 0")
        assert fewer != expression
        assert not prometheus.ask(fewer)
        lab.freeze(2)
        lab.freeze(3)
        until(lambda: bool(prometheus.ask(fewer)), lambda: look_up(table))


def test_a_large_partition(lab: Lab, tmp_path: Path) -> None:
    """Of a table with more rows than it was made for. A hundredth of the size is enough."""
    place = address("large")
    with (
        idmatch.open(place) as store,
        watched(tmp_path, ClusterFigures(place)) as prometheus,
    ):
        table = small(store)
        flush_soon(place)
        prometheus.wait("idmatch_cassandra_largest_partition_bytes >= 0")
        expression = prometheus.expression("IdmatchPartitionLarge")
        smaller = expression.replace("100 * 1024 * 1024", "1024 * 1024")
        assert smaller != expression
        assert not prometheus.ask(smaller)
        until(lambda: bool(prometheus.ask(smaller)), growing(table))


def growing(table: idmatch.Table) -> Callable[[], None]:
    """Adds 2,000 rows, other ones each time."""
    counter = itertools.count()

    def grow() -> None:
        numbers = list(itertools.islice(counter, 2_000))
        ids = pa.array([f"id{n:060}" for n in numbers])
        partners = pa.array([f"partner{n:060}" for n in numbers])
        table.upsert(pa.table({"id": ids, "partner_id": partners}), dated=NOON)

    return grow


def test_compactions_that_are_behind(lab: Lab, tmp_path: Path) -> None:
    """Of nodes with one slow compactor, whose tables are written to files every 2 s. Seconds are
    looked at instead of half an hour.
    """
    place = address("behind")
    with (
        idmatch.open(place) as store,
        watched(tmp_path, ClusterFigures(place)) as prometheus,
    ):
        table = small(store)
        prometheus.wait("count(idmatch_cassandra_node_up == 1) == 3")
        expression = prometheus.expression("IdmatchNodeCompactionsBehind")
        sooner = expression.replace("[30m]", "[10s]")
        assert sooner != expression
        flush_soon(place)
        until(lambda: bool(prometheus.ask(sooner)), growing(table))
