"""What a caller sees when nodes fail: three real nodes, three copies of each row."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from idmatch import _core
from idmatch._lab import Lab
from kept_log import Kept
from twins import Twins

NETWORK = "127.73.23"
HEAP = 400 << 20
ROWS = 20_000
THEN = datetime(2026, 1, 1, tzinfo=UTC)
# Longer than nodes keep hints in memory, and than they take to see that a node is back.
HINTS_ARE_WRITTEN = 12.0
TIMEOUT_SECONDS = 180.0

# Those of `rows`.
IDENTIFIER = re.compile(r"\b(id|p)\d+\b")

# Who waits for a node that hangs has no time left to ask another.
IMPATIENT = "request_timeout=5s&timeout=5s"

OPTIONS = "replication=3&metadata_ttl=100ms&request_timeout=2s"


class Cluster:
    """Three nodes, and stores in keyspaces of them."""

    def __init__(self, folder: Path) -> None:
        self.lab = Lab(folder)

    def address(self, keyspace: str, options: str = "") -> str:
        points = ",".join(f"{NETWORK}.{n}" for n in (1, 2, 3))
        return f"cql://{points}/{keyspace}?{OPTIONS}{options}"

    def whole(self) -> None:
        """Returns when all nodes run."""
        for number in (1, 2, 3):
            self.lab.resume(number)

    def wait_for_hints(self) -> None:
        """Returns when no node keeps writes for another: each hands them over in its own time."""
        until = time.monotonic() + TIMEOUT_SECONDS
        quiet_since = time.monotonic()
        while time.monotonic() < quiet_since + HINTS_ARE_WRITTEN:
            assert time.monotonic() < until, "there are still hints"
            if any(list((node.folder / "hints").glob("*.hints")) for node in self.lab.nodes()):
                quiet_since = time.monotonic()
            time.sleep(0.2)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three running nodes."""
    cluster = Cluster(tmp_path_factory.mktemp("lab"))
    try:
        cluster.lab.up(3, HEAP, NETWORK)
        yield cluster
    finally:
        cluster.lab.down(delete=True)


@pytest.fixture
def cluster(nodes: Cluster) -> Iterator[Cluster]:
    """The same, whole again before each test and after it."""
    nodes.whole()
    yield nodes
    nodes.whole()


@pytest.fixture(autouse=True)
def no_identifier_is_logged(kept: Kept) -> Iterator[None]:
    """What is logged of failures, and of attempts after them, has no identifier of `rows`."""
    yield
    _core.flush_logs()
    events = [str(vars(record)) for record in kept.records]
    assert events != []
    assert [event for event in events if IDENTIFIER.search(event)] == []


def rows(first: int, count: int) -> pa.Table:
    """Rows (id N, partner_id N mod 1,000), each a second after the one before."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"id{n}" for n in numbers],
            "partner_id": [f"p{n % 1000}" for n in numbers],
            "seen_at": pa.array([THEN + timedelta(seconds=n) for n in numbers]),
        }
    )


@contextmanager
def going_on(work: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Repeats work in a thread meanwhile; gives what it raises."""
    stop, raised = threading.Event(), list[BaseException]()

    def repeat() -> None:
        while not stop.is_set() and not raised:
            try:
                work()
            except BaseException as error:  # noqa: BLE001
                raised.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield raised
    finally:
        stop.set()
        thread.join()


def test_clients_that_make_a_store_at_once_have_the_same(cluster: Cluster) -> None:
    clients, each = 4, 50
    everyone = pa.table({"id": [f"id{n}" for n in range(clients * each)]})
    for keyspace in ("at_once_1", "at_once_2", "at_once_3"):
        with ExitStack() as open_ones, ThreadPoolExecutor(clients) as threads:
            stores = [
                open_ones.enter_context(idmatch.open(cluster.address(keyspace)))
                for _ in range(clients)
            ]
            tables = list(
                threads.map(lambda store: store.create_table("t", expected_rows=64_000), stores)
            )
            for client, table in enumerate(tables):
                table.upsert(rows(client * each, each))
            # They have one key for what is erased, too.
            tables[0].erase(id="id7")
            for table in tables:
                assert table.match(everyone).rows == clients * each - 1
                assert table.verify() == []


def test_a_table_is_made_without_a_node(cluster: Cluster) -> None:
    for number in (1, 2, 3):
        with idmatch.open(cluster.address(f"without_{number}")) as store:
            cluster.lab.kill(number)
            table = store.create_table("t", expected_rows=64_000)
            table.upsert(rows(0, 10))
            cluster.lab.resume(number)
            assert table.match(pa.table({"id": ["id7", "id10"]})).rows == 1


def test_a_node_that_is_killed_is_not_noticed(cluster: Cluster) -> None:
    with idmatch.open(cluster.address("killed")) as store:
        table = store.create_table("t", expected_rows=64_000)
        table.load(rows(0, ROWS))
        population = pa.table({"id": [f"id{n}" for n in range(2 * ROWS)]})
        upserted = list[int]()

        def upsert() -> None:
            first = ROWS + 100 * len(upserted)
            table.upsert(rows(first, 100))
            upserted.append(first)

        def look_up() -> None:
            assert table.latest_partner_id("id7") == ("p7", THEN + timedelta(seconds=7))

        def match() -> None:
            assert table.match(population).rows >= ROWS

        with going_on(upsert) as a, going_on(look_up) as b, going_on(match) as c:
            time.sleep(1)
            cluster.lab.kill(2)
            time.sleep(5)
            erased = table.erase(partner_id="p999")
            cluster.lab.resume(2)
            time.sleep(5)
        assert [*a, *b, *c] == []
        assert erased.by_id == erased.by_partner_id > 0
        assert table.match(population.slice(0, ROWS)).rows == ROWS - ROWS // 1000
        assert table.verify() == []


def test_names_change_while_a_node_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    with (
        idmatch.open(cluster.address("names")) as ours,
        idmatch.open(tmp_path / "store") as reference,
    ):
        groups = [Twins((ours, reference), f"g{n}-", n) for n in range(3)]

        def work(twins: Twins) -> None:
            for _ in range(12):
                twins.step()

        with ThreadPoolExecutor(len(groups)) as threads:
            list(threads.map(work, groups))
            cluster.lab.kill(2)
            list(threads.map(work, groups))
            cluster.lab.resume(2)
            list(threads.map(work, groups))
        for twins in groups:
            twins.compare()
        for name in ours.tables():
            assert ours.table(name).verify() == []


def test_two_of_three_nodes_are_not_enough(cluster: Cluster) -> None:
    with idmatch.open(cluster.address("two", "&timeout=4s")) as store:
        table = store.create_table("t", expected_rows=64_000)
        table.load(rows(0, 1_000))
        cluster.lab.kill(2)
        cluster.lab.kill(3)
        with pytest.raises(idmatch.Error) as reading:
            table.latest_partner_id("id7")
        with pytest.raises(idmatch.Error) as writing:
            table.upsert(rows(1_000, 10))
        with pytest.raises(idmatch.Error) as matching:
            table.match(pa.table({"id": ["id7", "id8"]}))
        assert isinstance(reading.value, idmatch.Unavailable)
        # The nodes may have died with a request in their hands.
        assert isinstance(writing.value, idmatch.Unavailable | idmatch.UnknownOutcome)
        assert isinstance(matching.value, idmatch.Unavailable)
        required = "local_quorum (2 of 3 replicas) was required"
        alive = f"1 of 3 nodes is connected; not {NETWORK}.2:9042, {NETWORK}.3:9042"
        for raised in (reading, writing, matching):
            assert f"{required}; {alive}" in str(raised.value)
        cluster.whole()
        table.upsert(rows(1_000, 10))
        assert table.match(pa.table({"id": [f"id{n}" for n in range(1_010)]})).rows == 1_010
        assert table.verify() == []


def test_what_times_out_is_unknown_and_may_be_repeated(cluster: Cluster) -> None:
    # What the table is, is not read again while two nodes hang.
    address = cluster.address("late", "&timeout=5s").replace(
        "metadata_ttl=100ms", "metadata_ttl=1h"
    )
    population = pa.table({"id": [f"id{n}" for n in range(200)]})
    with idmatch.open(address) as store:
        table = store.create_table("t", expected_rows=64_000)
        table.upsert(rows(0, 100))
        # One of three takes a write, and waits in vain for another.
        cluster.lab.freeze(2)
        cluster.lab.freeze(3)
        with pytest.raises(idmatch.UnknownOutcome, match="100 of 100 rows for table t") as raised:
            table.upsert(rows(50, 100))
        assert "local_quorum (2 of 3 replicas) was required" in str(raised.value)
        unknown = [(first, end) for _, first, end in raised.value.rows or []]
        assert unknown == [(1, 101)]
    cluster.whole()
    with idmatch.open(cluster.address("late")) as store:
        table = store.table("t")
        for _ in range(2):
            table.upsert(rows(50, 100))
            assert table.match(population).rows == 150
            assert table.stats().rows == 150
            assert table.verify() == []


def test_a_node_that_hangs_is_passed_over(cluster: Cluster) -> None:
    address = cluster.address("hung").replace("request_timeout=2s", IMPATIENT)
    with idmatch.open(address) as store:
        store.create_table("t", expected_rows=64_000).load(rows(0, 1_000))
    with idmatch.open(address) as store:
        table = store.table("t")
        cluster.lab.freeze(3)
        for n in range(1_000):
            assert table.latest_partner_id(f"id{n}") == (f"p{n}", THEN + timedelta(seconds=n))
        table.upsert(rows(1_000, 50))
        table.load(rows(1_050, 50))
        population = pa.table({"id": [f"id{n}" for n in range(1_100)]})
        assert table.match(population).rows == 1_100
        table.erase(id="id1")
        assert table.match(population).rows == 1_099
        cluster.lab.resume(3)
        assert table.match(population).rows == 1_099


def test_a_store_is_opened_while_a_node_hangs(cluster: Cluster) -> None:
    every = cluster.address("hung_before").replace("request_timeout=2s", IMPATIENT)
    one = every.replace(f",{NETWORK}.2,{NETWORK}.3", "")
    with idmatch.open(every) as store:
        store.create_table("t", expected_rows=64_000).load(rows(0, 1_000))
    cluster.lab.freeze(3)
    # Which contact point is asked first is left to chance.
    for address in [every] * 5 + [one]:
        with idmatch.open(address) as store:
            table = store.table("t")
            assert table.latest_partner_id("id7") == ("p7", THEN + timedelta(seconds=7))
            table.upsert(rows(0, 1))
            assert table.match(pa.table({"id": ["id1", "id2", "nobody"]})).rows == 2
    with idmatch.open(cluster.address("hung_before")) as store:
        table = store.create_table("u", expected_rows=64_000)
        assert table.load(rows(0, 10)).rows == 10
        assert table.match(pa.table({"id": ["id1"]})).rows == 1


def test_nodes_that_were_passed_over_are_used_later(cluster: Cluster, kept: Kept) -> None:
    address = cluster.address("hung_for_a_time").replace(f",{NETWORK}.2,{NETWORK}.3", "")
    with idmatch.open(address) as store:
        store.create_table("t", expected_rows=64_000).load(rows(0, 100))
    cluster.lab.freeze(3)
    # One contact point has nobody who listens, and nobody waits in vain for the node that hangs.
    address = address.replace(f"{NETWORK}.1/", f"{NETWORK}.1:1,{NETWORK}.1/")
    with idmatch.open(address.replace("request_timeout=2s", "request_timeout=30s")) as store:
        (failed,) = kept.values("contact point failed", "idmatch.cql")
        assert failed["node"] == f"{NETWORK}.1:1"
        single = "a single node is connected to: not all nodes answered in time"
        assert len(kept.values(single, "idmatch.cql")) == 1
        table = store.table("t")
        cluster.lab.resume(3)
        # The only contact point.
        cluster.lab.kill(1)
        assert table.match(pa.table({"id": ["id1", "id2", "nobody"]})).rows == 2
    assert len(kept.values("all nodes are connected to", "idmatch.cql")) == 1


def test_a_rolling_restart_is_not_noticed(cluster: Cluster) -> None:
    # With timeouts as they come: nodes that have just started are slow.
    address = cluster.address("rolling").replace("&request_timeout=2s", "")
    with idmatch.open(address) as store:
        table = store.create_table("t", expected_rows=64_000)
        table.load(rows(0, ROWS))
        population = pa.table({"id": [f"id{n}" for n in range(ROWS)]})
        upserted = list[int]()

        def upsert() -> None:
            first = ROWS + 100 * len(upserted)
            table.upsert(rows(first, 100))
            upserted.append(first)

        def match() -> None:
            assert table.match(population).rows == ROWS

        with going_on(upsert) as a, going_on(match) as b:
            for number in (1, 2, 3):
                cluster.lab.kill(number)
                time.sleep(2)
                cluster.lab.resume(number)
                # Until the others see that it is back; a quorum does not need its hints.
                time.sleep(5)
        assert [*a, *b] == []
        written = ROWS + 100 * len(upserted)
        everyone = pa.table({"id": [f"id{n}" for n in range(written)]})
        assert table.match(everyone).rows == written
        assert table.verify() == []


def test_a_node_that_was_away_has_all_rows(cluster: Cluster) -> None:
    # The catalog is not read again while there is one node.
    address = cluster.address("away", "&read_consistency=one").replace(
        "metadata_ttl=100ms", "metadata_ttl=1h"
    )
    with idmatch.open(address) as store:
        table = store.create_table("t", expected_rows=64_000)
        population = pa.table({"id": [f"id{n}" for n in range(ROWS)]})
        assert table.match(population).rows == 0
        cluster.lab.kill(2)
        table.load(rows(0, ROWS))
        cluster.lab.resume(2)
        cluster.wait_for_hints()
        for number in (1, 3):
            cluster.lab.kill(number)
        assert table.match(population).rows == ROWS
        partner_ids = pa.table({"partner_id": [f"p{n}" for n in range(1_000)]})
        assert table.match(partner_ids, by="partner_id").rows == ROWS
