"""`idmatch exporter`, `cql-exporter` and `dashboard`, and the option --metrics of streams."""

import signal
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from idmatch import _outputs, _store
from idmatch._errors import InvalidArgument
from idmatch._lazy import LazyModule
from idmatch._runs import Record, WriterTold, read_note, runs_folder
from idmatch._store import Store
from idmatch._times import to_milliseconds
from idmatch._watch._process import ProcessFigures
from idmatch._watch._recent import RecentRuns
from idmatch._watch._server import Listen, serving

from ._output import grouped, note, print_columns, print_json
from ._stores import open_existing

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from idmatch._watch import _cluster, _exporter, _page
else:
    # They bring prometheus_client and urllib.
    _cluster = LazyModule("idmatch._watch._cluster")
    _page = LazyModule("idmatch._watch._page")
    _exporter = LazyModule("idmatch._watch._exporter")

_DONE = 0
_SHORTEST_SECONDS = 60


def exporter(options: Namespace) -> int:
    """`idmatch exporter`"""
    listen = Listen.parse(options.listen)
    if not _store.is_address(options.store):
        # A store that cannot be opened is an error at once.
        open_existing(options.store).close()
    return _answer(_exporter.StoreFigures(options.store), listen, options)


def cql_exporter(options: Namespace) -> int:
    """`idmatch cql-exporter`"""
    listen = Listen.parse(options.listen)
    if not _store.is_address(options.store):
        raise InvalidArgument("cql-exporter is for cql:// addresses; for a directory, use exporter")
    return _answer(_cluster.ClusterFigures(options.store), listen, options)


def _answer(figures: "Collector", listen: Listen, options: Namespace) -> int:
    """Exposes metrics until the process is told to end."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with serving(figures, listen) as place:
        if options.json:
            print_json({"listens": f"http://{place}/metrics"})
        else:
            print(f"listens on http://{place}/metrics")
        sys.stdout.flush()
        ended.wait()
    return _DONE


def add_exporter(exporter: ArgumentParser, default: str) -> None:
    """The options of exporters after the store; `default` is where they listen."""
    exporter.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=default,
        help=f"where Prometheus scrapes (default: {default}); there is no access control",
    )


def add_metrics(upsert: ArgumentParser) -> None:
    """The option of `idmatch upsert` for streams."""
    upsert.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="with -, expose the metrics of this process there for Prometheus, while the stream "
        "lasts",
    )


def writer_of(store: Store) -> WriterTold | None:
    """The note of the process that writes a directory, without its figures, if it records runs."""
    is_remote = _store.is_address(store.path)
    note = None if is_remote else read_note(runs_folder(store.path, is_remote))
    return note and {
        "time": note["time"],
        "pid": note["pid"],
        "host": note["host"],
        "last_background_error": note["last_background_error"],
    }


def last_runs(store: Store) -> list[Record]:
    """The last recorded run of each kind and table."""
    recent = RecentRuns(runs_folder(store.path, _store.is_address(store.path)))
    recent.read(time.time())
    return list(recent.latest.values())


def print_runs(runs: Sequence[Record]) -> None:
    """Prints recorded runs as aligned columns, below the earlier output."""
    if runs:
        print()
        print_columns(_RUN_COLUMNS, [_run_as_text(run) for run in runs])


_RUN_COLUMNS = ("last run", "table", "ended", "seconds", "rows", "rejected", "matched", "outcome")


def _run_as_text(run: Record) -> list[str]:
    counts = (run.get("rows"), run.get("rejected"), run.get("matched"))
    return [
        run["kind"],
        run["table"],
        f"{run['time'][:16].replace('T', ' ')} UTC",
        f"{run['seconds']:,}",
        *("-" if count is None else grouped(count) for count in counts),
        run["outcome"],
    ]


@contextmanager
def metrics_of(store: Store, place: str | None) -> Iterator[None]:
    """Answers Prometheus with the figures of this process, if `place` is set."""
    if place is None:
        yield
        return
    with serving(ProcessFigures(store), Listen.parse(place)) as listens:
        note(f"listens on http://{listens}/metrics")
        yield


def dashboard(options: Namespace) -> int:
    """`idmatch dashboard`"""
    _outputs.check(options.output, overwrite=options.overwrite)
    seconds = to_milliseconds(options.since, most=timedelta(days=400)) // 1000
    if seconds < _SHORTEST_SECONDS:
        raise InvalidArgument(f"--since is {options.since}; show at least a minute")
    shown = _page.page(_page.Prometheus(options.prometheus), seconds)
    with (
        _outputs.new_file(options.output, overwrite=options.overwrite) as place,
        open(place, "w", encoding="utf-8") as file,
    ):
        file.write(shown)
    if options.json:
        print_json({"page": options.output})
    else:
        print(f"wrote {options.output}; open it in a browser")
    return _DONE


def add_dashboard(dashboard: ArgumentParser) -> None:
    """The options of `idmatch dashboard`."""
    dashboard.add_argument(
        "prometheus", metavar="URL", help="of a Prometheus, such as http://127.0.0.1:9090"
    )
    dashboard.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the HTML file to write"
    )
    dashboard.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    dashboard.add_argument(
        "--since", metavar="TIME", default="6h", help="how far back it goes (default: 6h)"
    )
