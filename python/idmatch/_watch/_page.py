"""The dashboards as one HTML page, with the data of a Prometheus, for users without Grafana.

The page needs no network: uPlot, which draws, and all values are in it. Each graph has a table of
its values. Must not know what panels show.
"""

import json
import math
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from importlib import resources
from typing import TypedDict

from idmatch._errors import InvalidArgument, Unavailable

from ._panels import DASHBOARDS, Panel

_TIMEOUT_SECONDS = 60.0
_POINTS = 240
_SHORTEST_STEP_SECONDS = 15
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
# A graph with more lines cannot be read; the label `table` may have 1,000 values.
_MOST_SERIES = 20
_UNTRIED = " (Untried: no such server was there.)"


class Series(TypedDict):
    """A line of a graph."""

    legend: str
    values: list[float | None]


class Shown(TypedDict):
    """A panel with its lines."""

    title: str
    unit: str
    about: str
    series: list[Series]


class Prometheus:
    """A server, by the address of its page."""

    def __init__(self, url: str) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise InvalidArgument(
                f"{url!r} is no address of a Prometheus; name it as http://127.0.0.1:9090"
            )
        self._url = url.rstrip("/")

    def ask(self, query: str, times: range) -> list[tuple[dict[str, str], dict[int, float]]]:
        """Labels, and values by time, of each series. Raises Unavailable."""
        asked = urllib.parse.urlencode(
            {"query": query, "start": times[0], "end": times[-1], "step": times.step}
        )
        try:
            address = f"{self._url}/api/v1/query_range?{asked}"
            with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:
                found = json.load(answer)["data"]["result"]
        except (OSError, ValueError, KeyError) as error:
            raise Unavailable(f"the Prometheus at {self._url} does not answer: {error}") from error
        return [
            (one["metric"], {int(at): float(value) for at, value in one["values"]}) for one in found
        ]


def page(prometheus: Prometheus, seconds: int) -> str:
    """The page of all dashboards over the last seconds."""
    step = max(_SHORTEST_STEP_SECONDS, math.ceil(seconds / _POINTS))
    end = int(time.time()) // step * step
    times = range(end - seconds // step * step, end + 1, step)
    shown = [
        {"name": board.name, "panels": [_shown(prometheus, one, times) for one in board.panels]}
        for board in DASHBOARDS
    ]
    # Text of a label must not end the script.
    data = json.dumps({"times": list(times), "boards": shown}).replace("<", "\\u003c")
    parts = {
        "/*STYLE*/": _file("uPlot.min.css") + _file("page.css"),
        "/*SCRIPT*/": _file("uPlot.iife.min.js") + "\n" + _file("page.js"),
        "/*DATA*/": data,
    }
    return re.sub(r"/\*[A-Z]+\*/", lambda found: parts[found[0]], _file("page.html"))


def _shown(prometheus: Prometheus, panel: Panel, times: range) -> Shown:
    rate = f"{4 * max(_SHORTEST_STEP_SECONDS, times.step)}s"
    series = [
        Series(legend=_legend(legend, labels), values=[_finite(values.get(at)) for at in times])
        for legend, query in panel.queries.items()
        for labels, values in prometheus.ask(query.replace("$__rate_interval", rate), times)
    ]
    series = [one for one in series if any(value is not None for value in one["values"])]
    # Lines that are 0 all the time hide the others.
    series = [one for one in series if any(one["values"])] or series
    series.sort(key=lambda one: -max(value for value in one["values"] if value is not None))
    return Shown(
        title=panel.title,
        unit=panel.unit,
        about=panel.about + _UNTRIED * panel.is_untried,
        series=series[:_MOST_SERIES],
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _legend(legend: str, labels: dict[str, str]) -> str:
    return _LEGEND.sub(lambda found: labels.get(found[1], ""), legend).strip() or "all"


def _file(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text(encoding="utf-8")
