"""Exposes metrics to Prometheus over HTTP, on a thread.

It listens on loopback unless it is told otherwise: it has no access control, and metrics name
tables. Must not know the metrics.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from idmatch._errors import InvalidArgument, IoError
from idmatch._lazy import LazyModule

if TYPE_CHECKING:
    import prometheus_client as prometheus
    from prometheus_client.registry import Collector
else:
    prometheus = LazyModule("prometheus_client")


class Listen(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Listen":
        """From "127.0.0.1:7301", "[::1]:7301" or "7301", which is on loopback.

        Raises InvalidArgument.
        """
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        if not port.isdecimal() or not port.isascii() or not 0 <= int(port) < 1 << 16:
            raise InvalidArgument(
                f"{text!r} is no place to listen; name HOST:PORT such as 127.0.0.1:7301"
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@contextmanager
def serving(collector: "Collector", listen: Listen) -> Iterator[Listen]:
    """Answers each request with the collector's current metrics; gives the place, with its port.

    Raises IoError if it cannot listen there.
    """
    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(collector)
    prometheus.ProcessCollector(registry=registry)
    try:
        server, thread = prometheus.start_http_server(listen.port, listen.host, registry)
    except OSError as error:
        raise IoError(
            f"cannot listen on {listen}: {error.strerror}; name another place, HOST:PORT"
        ) from error
    try:
        yield listen._replace(port=server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
