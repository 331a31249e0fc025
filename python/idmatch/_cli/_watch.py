"""`idmatch exporter`, `idmatch cql-exporter`, and the option --metrics of streams."""

import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from idmatch import _store
from idmatch._errors import InvalidArgument
from idmatch._lazy import LazyModule
from idmatch._runs import WriterTold, read_note, runs_folder
from idmatch._store import Store
from idmatch._watch._process import ProcessFigures
from idmatch._watch._server import Listen, serving

from ._output import print_json, warn
from ._stores import open_existing

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from idmatch._watch import _cluster, _exporter
else:
    # They bring prometheus_client.
    _cluster = LazyModule("idmatch._watch._cluster")
    _exporter = LazyModule("idmatch._watch._exporter")

_DONE = 0
_DEFAULT = "127.0.0.1:7301"


def exporter(options: Namespace) -> int:
    """`idmatch exporter`"""
    listen = Listen.parse(options.listen)
    if not _store.is_address(options.store):
        # Says at once what is wrong with it.
        open_existing(options.store).close()
    return _answer(_exporter.StoreFigures(options.store), listen, options)


def cql_exporter(options: Namespace) -> int:
    """`idmatch cql-exporter`"""
    listen = Listen.parse(options.listen)
    if not _store.is_address(options.store):
        raise InvalidArgument("cql-exporter is for cql:// addresses; for a directory, use exporter")
    return _answer(_cluster.ClusterFigures(options.store), listen, options)


def _answer(figures: "Collector", listen: Listen, options: Namespace) -> int:
    """Answers Prometheus until the process is told to end."""
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


def add_exporter(exporter: ArgumentParser) -> None:
    """The options of exporters after the store."""
    exporter.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=_DEFAULT,
        help=f"where Prometheus asks (default: {_DEFAULT}); there is no access control",
    )


def add_metrics(upsert: ArgumentParser) -> None:
    """The option of streams."""
    upsert.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="with -, answer Prometheus there with the figures of this process, while the stream "
        "lasts",
    )


def writer_of(store: Store) -> WriterTold | None:
    """What the process that writes a directory says of itself, if it records."""
    is_remote = _store.is_address(store.path)
    note = None if is_remote else read_note(runs_folder(store.path, is_remote))
    return note and {
        "time": note["time"],
        "pid": note["pid"],
        "host": note["host"],
        "last_background_error": note["last_background_error"],
    }


@contextmanager
def metrics_of(store: Store, place: str | None) -> Iterator[None]:
    """Answers Prometheus with the figures of this process, where that is asked for."""
    if place is None:
        yield
        return
    with serving(ProcessFigures(store), Listen.parse(place)) as listens:
        warn(f"listens on http://{listens}/metrics")
        yield
