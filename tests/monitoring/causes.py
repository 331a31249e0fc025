"""What tests of alerts share: a Prometheus that watches what is caused."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from idmatch import _core
from idmatch._watch._server import Listen, serving
from prometheus_client.registry import Collector
from prometheus_server import Prometheus

ANY = Listen("127.0.0.1", 0)
_TIMEOUT_SECONDS = 300.0


@contextmanager
def watched(home: Path, *collectors: Collector) -> Iterator[Prometheus]:
    """A Prometheus that scrapes these, with its own files in a new folder of `home`."""
    folder = home / "prometheus"
    folder.mkdir()
    with ExitStack() as open_ones:
        places = [str(open_ones.enter_context(serving(one, ANY))) for one in collectors]
        running = Prometheus(folder, {"idmatch": places})
        open_ones.callback(running.close)
        yield running


def fires(prometheus: Prometheus, alert: str) -> None:
    """Returns once the expression of an alert is true; how long it must be so is not waited for."""
    prometheus.wait(prometheus.expression(alert))


def gone(prometheus: Prometheus, alert: str) -> None:
    """Returns once the expression of an alert is no longer true."""
    expression = prometheus.expression(alert)
    until(lambda: not prometheus.ask(expression), lambda: time.sleep(0.5))


def until(
    is_so: Callable[[], bool],
    work: Callable[[], object],
    missing: Callable[[], object] = lambda: None,
) -> None:
    """Works until something is so. Fails where it is not for long, with what is missing."""
    end = time.monotonic() + _TIMEOUT_SECONDS
    while not is_so():
        assert time.monotonic() < end, missing()
        work()


def flush_soon(address: str) -> None:
    """Has nodes write what they have in memory for a keyspace into SSTables, from now on."""
    nodes, (_, keyspace) = _core.Nodes(address), _core.address_parts(address)
    tables = f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'"

    names = {row["table_name"] for _, _, (rows,) in nodes.ask([tables]) for row in rows or []}
    for name in names:
        nodes.ask([f"ALTER TABLE {keyspace}.{name} WITH memtable_flush_period_in_ms = 2000"])
