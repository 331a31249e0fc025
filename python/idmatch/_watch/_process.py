"""The figures of this process about its store, for Prometheus: those of `Store.metrics`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from idmatch._lazy import LazyModule

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.openmetrics import parser
else:
    parser = LazyModule("prometheus_client.openmetrics.parser")


class _Store(Protocol):
    def metrics(self) -> str: ...


class ProcessFigures:
    """A collector of the figures of this process."""

    def __init__(self, store: _Store) -> None:
        self._store = store

    def collect(self) -> "Iterable[Metric]":
        """The figures as they are now."""
        return parsed(self._store.metrics())


def parsed(text: str) -> "Iterable[Metric]":
    """The figures of an OpenMetrics text."""
    found: Iterable[Metric] = parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return found
