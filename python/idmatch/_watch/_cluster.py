"""Figures of Cassandra's nodes about themselves, for Prometheus: each request asks every node.

The metrics come from `system_views`, which are about one node. A node that does not answer within
0.8 s is down. ScyllaDB has no such views: Prometheus scrapes the port of ScyllaDB itself. The label
`node` is an address. Must not know who asks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from idmatch import _core
from idmatch._lazy import LazyModule

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client import core as prometheus
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
else:
    prometheus = LazyModule("prometheus_client.core")

Value: TypeAlias = float | str | None
Row: TypeAlias = Mapping[str, Value]

_MIB = 1 << 20
# The queues in which requests of clients wait, and the work that slows them down.
_POOLS = (
    "Native-Transport-Requests",
    "ReadStage",
    "MutationStage",
    "CompactionExecutor",
    "HintsDispatcher",
)
# A view of latencies, and the labels of its metrics.
_LATENCIES = {
    f"{where}_{operation}_latency": (where, operation)
    for where in ("coordinator", "local")
    for operation in ("read", "write", "scan")
}


class _Question(NamedTuple):
    view: str
    selects: str
    is_of_keyspace: bool = False

    def cql(self, keyspace: str) -> str:
        where = f" WHERE keyspace_name = '{keyspace}' ALLOW FILTERING" * self.is_of_keyspace
        return f"SELECT {self.selects} FROM system_views.{self.view}{where}"


_QUESTIONS = (
    _Question("clients", "count(*) AS connections"),
    _Question("caches", "name, hit_count, request_count, size_bytes"),
    _Question("thread_pools", "name, active_tasks, pending_tasks, blocked_tasks"),
    _Question("sstable_tasks", "count(*) AS tasks"),
    _Question("pending_hints", "files"),
    *(
        _Question(
            view,
            'sum("count") AS requests, max(p99th_ms) AS p99, max(p50th_ms) AS p50',
            is_of_keyspace=True,
        )
        for view in _LATENCIES
    ),
    _Question("max_partition_size", "max(mebibytes) AS mebibytes", is_of_keyspace=True),
    _Question("disk_usage", "sum(mebibytes) AS mebibytes", is_of_keyspace=True),
)


class ClusterFigures:
    """A collector of the metrics of the nodes of an address."""

    def __init__(self, address: str) -> None:
        self._nodes = _core.Nodes(address)
        _, self._keyspace = _core.address_parts(address)
        self._lock = Lock()

    def collect(self) -> "Iterable[Metric]":
        """The metrics as they are now. One request is answered at a time."""
        with self._lock:
            return list(self._figures())

    def _figures(self) -> "Iterator[Metric]":
        asked = self._nodes.ask([one.cql(self._keyspace) for one in _QUESTIONS])
        found = _Families()
        for node, datacenter, answers in asked:
            is_up = any(answer is not None for answer in answers)
            found.add("node_up", "Whether the node answers", is_up, node=node, dc=datacenter or "")
            for question, rows in zip(_QUESTIONS, answers, strict=True):
                if rows is not None:
                    _add(found, question.view, node, rows)
        yield from found.all()


class _Families:
    """Figures by name."""

    def __init__(self) -> None:
        self._families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}

    def add(self, name: str, about: str, value: Value, **labels: str) -> None:
        """Adds a value; one that the node does not know is left out."""
        if value is None or isinstance(value, str):
            return
        is_counter = name.endswith("_total")
        family = self._families.get(name)
        if family is None:
            kind = prometheus.CounterMetricFamily if is_counter else prometheus.GaugeMetricFamily
            family = kind(f"idmatch_cassandra_{name}", about, labels=list(labels))
            self._families[name] = family
        family.add_metric(list(labels.values()), float(value))

    def all(self) -> "Iterable[Metric]":
        return self._families.values()


def _add(found: _Families, view: str, node: str, rows: Sequence[Row]) -> None:
    # A view may answer no row: then no value is known.
    first: Row = rows[0] if rows else defaultdict(lambda: None)
    if view == "clients":
        about = "Open connections of clients"
        found.add("connections", about, first["connections"], node=node)
    elif view == "caches":
        for row in rows:
            labels = {"node": node, "cache": str(row["name"])}
            about = "Reads that a cache has answered"
            found.add("cache_hits_total", about, row["hit_count"], **labels)
            about = "Reads that asked a cache; what it has not answered is a miss"
            found.add("cache_requests_total", about, row["request_count"], **labels)
            found.add("cache_bytes", "Bytes in a cache", row["size_bytes"], **labels)
    elif view == "thread_pools":
        for row in rows:
            if row["name"] in _POOLS:
                labels = {"node": node, "pool": str(row["name"])}
                found.add("pool_active", "Tasks that run", row["active_tasks"], **labels)
                about = "Tasks that wait in a queue: queued reads, writes, compactions"
                found.add("pool_pending", about, row["pending_tasks"], **labels)
                about = "Tasks that cannot even be queued"
                found.add("pool_blocked", about, row["blocked_tasks"], **labels)
    elif view == "sstable_tasks":
        about = "Compactions and other work on SSTables that runs"
        found.add("sstable_tasks", about, first["tasks"], node=node)
    elif view == "pending_hints":
        files = sum(row["files"] for row in rows if isinstance(row["files"], float))
        about = "Files of hints for nodes that were away"
        found.add("pending_hint_files", about, files, node=node)
    elif view == "max_partition_size":
        about = "The largest partition of the keyspace"
        found.add("largest_partition_bytes", about, _bytes(first), node=node)
    elif view == "disk_usage":
        found.add("disk_bytes", "Disk that the keyspace takes", _bytes(first), node=node)
    else:
        where, operation = _LATENCIES[view]
        labels = {"node": node, "where": where, "operation": operation}
        about = "Requests to tables of the keyspace, as a coordinator or for its own rows"
        found.add("requests_total", about, first["requests"], **labels)
        for quantile in ("p50", "p99"):
            about = "The time of such a request: the highest quantile of any table"
            taken = _seconds(first[quantile])
            found.add("latency_seconds", about, taken, **labels, quantile=quantile)


def _bytes(row: Row) -> Value:
    size = row["mebibytes"]
    return size * _MIB if isinstance(size, float) else None


def _seconds(milliseconds: Value) -> Value:
    return milliseconds / 1000 if isinstance(milliseconds, float) else None
