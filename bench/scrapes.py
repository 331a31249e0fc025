"""What an exporter costs: how long a scrape takes, and how much slower lookups are beside it.

    python bench/scrapes.py                    5,000 tables; minutes
    python bench/scrapes.py --tables 100       the same, small
    python bench/scrapes.py --servers --tables 20    on a Cassandra node of its own

In a directory each table has a segment and rows in memory. A program looks up in one of them while
`idmatch exporter` answers a scrape every 2 s, and while nobody asks, in turn. The ratio of both is
printed beside the range of the program to itself. On servers it is `idmatch cql-exporter`, which
asks the node.
The exit code is 1 where a scrape took a second. The store is made anew and removed at the end.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import idmatch
import pyarrow as pa
from progress import log
from units import show_seconds

_PERIOD_SECONDS = 2.0
_LONGEST_SECONDS = 1.0
_FIRST_ROWS = 10_000
_NETWORK, _JMX_PORT = "127.73.66", 7266
_ALONE, _AGAIN, _SCRAPED = "alone", "alone again", "scraped"


def main() -> int:
    """Measures and prints; 1 where a scrape took too long."""
    options = _options()
    scrapes: list[float] = []
    rates: dict[str, list[float]] = {way: [] for way in (_ALONE, _AGAIN, _SCRAPED)}
    with tempfile.TemporaryDirectory(dir=options.dir) as home:
        measured = _on_servers if options.servers else _in_a_directory
        with measured(Path(home)) as (store, command):
            _fill(store, options.tables)
            # What the servers compile meanwhile is not counted.
            _lookups(store, options.warm_up)
            with _exporter(command) as url:
                for number in range(options.rounds):
                    ways = [_ALONE, _AGAIN, _SCRAPED]
                    for way in ways if number % 2 == 0 else reversed(ways):
                        with _scraping(url, scrapes) if way == _SCRAPED else _nothing():
                            rates[way].append(_lookups(store, options.seconds))
    pairs = zip(rates[_SCRAPED], rates[_AGAIN], rates[_ALONE], strict=True)
    ratios = [(scraped / alone, again / alone) for scraped, again, alone in pairs]
    itself = [again for _, again in ratios]
    print(
        f"{options.tables:,} tables; a scrape takes {show_seconds(statistics.median(scrapes))}, at"
        f" most {show_seconds(max(scrapes))} ({len(scrapes)} scrapes)"
    )
    print(
        f"lookups beside them: {statistics.median(ratio for ratio, _ in ratios):.3f} of those alone"
        f" (themselves: {min(itself):.3f} to {max(itself):.3f})"
    )
    return int(max(scrapes) >= _LONGEST_SECONDS)


@contextmanager
def _in_a_directory(home: Path) -> Iterator[tuple[idmatch.Store, list[str]]]:
    """A store, and the command that shows its figures."""
    path = home / "store"
    with idmatch.open(path, record=True) as store:
        yield store, ["exporter", str(path)]
        log(f"segments: {len(list((path / 'segments').iterdir())):,}")


@contextmanager
def _on_servers(home: Path) -> Iterator[tuple[idmatch.Store, list[str]]]:
    """The same, on a node of its own."""
    from cql_node import Node

    with Node(home / "node", _NETWORK, 2 << 30, _JMX_PORT, False) as node:
        address = f"cql://{node.address}/scrapes?replication=1"
        with idmatch.open(address) as store:
            yield store, ["cql-exporter", address]


def _fill(store: idmatch.Store, tables: int) -> None:
    started = time.perf_counter()
    for number in range(tables):
        rows = _FIRST_ROWS if number == 0 else 1
        ids = [f"id{row}" for row in range(rows)]
        table = store.create_table(f"t{number:05}")
        table.load(pa.table({"id": ids, "partner_id": ids}), dated="2026-03-01")
        table.upsert_one("id", f"partner{number}")
    log(f"{tables:,} tables were made in {show_seconds(time.perf_counter() - started)}")


def _lookups(store: idmatch.Store, seconds: float) -> float:
    """Lookups a second."""
    table, end, count = store.table("t00000"), time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        for number in range(100):
            table.lookup(f"id{number * 97}")
        count += 100
    return count / seconds


@contextmanager
def _exporter(command: list[str]) -> Iterator[str]:
    program = [sys.executable, "-c", "from idmatch._cli import run; run()"]
    listening = [*program, *command, "--listen", "127.0.0.1:0"]
    running = subprocess.Popen(listening, stdout=subprocess.PIPE, text=True)
    assert running.stdout
    try:
        url = running.stdout.readline().removeprefix("listens on ").strip()
        if not url:
            sys.exit("the exporter has not started; its error is above")
        yield url
    finally:
        running.terminate()
        running.communicate()


@contextmanager
def _scraping(url: str, times: list[float]) -> Iterator[None]:
    """Asks every 2 s, as Prometheus does."""
    ended = threading.Event()

    def scrape() -> None:
        while True:
            started = time.perf_counter()
            with urllib.request.urlopen(url) as answer:
                answer.read()
            times.append(time.perf_counter() - started)
            if ended.wait(_PERIOD_SECONDS):
                return

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what scrapes cost.")
    parser.add_argument("--tables", type=int, default=5_000)
    parser.add_argument("--servers", action="store_true", help="on a Cassandra node of its own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=float, default=0.0, help="seconds of lookups before")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"), help="where the store is")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
