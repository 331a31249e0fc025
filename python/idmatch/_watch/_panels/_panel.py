"""The type of a panel of a dashboard, and forms of queries that many panels have.

Queries are Prometheus's, with Grafana's `$__rate_interval`.
"""

from typing import Literal, NamedTuple, TypeAlias

Unit: TypeAlias = Literal["short", "ops", "s", "bytes", "Bps", "percentunit", "rowsps"]
"""A unit, as Grafana names it."""


class Panel(NamedTuple):
    """A graph."""

    title: str
    unit: Unit
    about: str
    """Which values are good, and what to do about others."""
    queries: dict[str, str]
    """Queries by their legend, in which {{label}} stands for a label's value."""
    is_untried: bool = False
    """Whether it is untried, because there was no server of its kind."""


class Dashboard(NamedTuple):
    """A page of panels."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def rate(counter: str, by: str) -> str:
    """The rate of a counter, summed by labels."""
    return f"sum by ({by}) (rate({counter}[$__rate_interval]))"


def quantile(share: float, histogram: str, by: str, labels: str = "") -> str:
    """A quantile of a histogram, by labels."""
    buckets = f"rate({histogram}_bucket{labels}[$__rate_interval])"
    return f"histogram_quantile({share}, sum by (le, {by}) ({buckets}))"
