"""What a caller notices when nodes fail: errors, counts and times on three real nodes.

    python bench/cql_faults.py                       2 M rows
    python bench/cql_faults.py --rows 50k --seconds 5    the same, small
    python bench/cql_faults.py --only killed,frozen  some, and the other results stay

Three Cassandra nodes with three copies of each row, and the client, share the processors of this
machine. Results are kept as JSON; `make bench-cql-faults-report` writes them into
docs/benchmarks/faults.md. Times are in seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import idmatch
import machine
import pyarrow as pa
from idmatch._lab import Lab
from progress import log
from units import parse_count, parse_names, show_count

Figures = dict[str, Any]

THEN = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = 20_000_000  # dates repeat after this many seconds, so none is in the future
PARTNERS = 1_000_000  # that many partner_ids
# p99 is to be back after so long.
BACK = 2.0
# Rows of one upsert and how many a second, while nodes are restarted.
RESTART_BATCH, RESTART_RATE = 50_000, 5_000
# Meanwhile a match of the whole table begins so many seconds after the last one, or when that is
# done.
MATCH_EVERY = 30.0
# Rows of one upsert with a rate limit.
UPSERT_ROWS = 100
# A node is away for so long, and the next one is restarted so long after it is back.
AWAY, BETWEEN = 3.0, 15.0
RATE_LIMIT = 2_000  # requests a second, where far more is asked
# What nodes have that the small ones of a lab have not: room for writes, which are merged later,
# and Cassandra's own way to sync the commit log.
SETTINGS = {
    "commitlog_sync": "periodic",
    "commitlog_sync_period": "10000ms",
    "memtable_heap_space": "512MiB",
    "memtable_offheap_space": "512MiB",
}
_JAVA_OPTIONS = ("-XX:MaxDirectMemorySize=1g",)
_THREADS = 4
# A node that was just started is slow until its code is compiled; before the first fault, so many
# times `--seconds` are given to it.
_WARM = 9
# Hints are on disk after so long.
_QUIET = 12.0


@dataclass
class Calls:
    """Calls of one kind: when each began, and how long it took."""

    began: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def where(self, wanted: Callable[[float, float], bool]) -> Figures:
        """Of those that began and ended at such times: how many, their median, 99th percentile and
        longest.
        """
        each = zip(self.began, self.took, strict=True)
        took = sorted(taken for began, taken in each if wanted(began, began + taken))
        if not took:
            return {"calls": 0}
        p99 = took[min(len(took) - 1, int(len(took) * 0.99))]
        return {"calls": len(took), "median": statistics.median(took), "p99": p99, "max": took[-1]}


class Repeated:
    """Repeats a call in a thread until the block ends, at least `every` seconds apart.

    What idmatch raises is noted, and the same call made again: rows that were not acknowledged are
    written until they are. Anything else ends the benchmark.
    """

    def __init__(self, call: Callable[[int], object], every: float = 0.0) -> None:
        self.calls = Calls()
        self._call, self._every = call, every
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Calls:
        self._thread.start()
        return self.calls

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        try:
            self._repeat()
        except BaseException as failure:
            self._failure = failure

    def _repeat(self) -> None:
        start, number = time.perf_counter(), 0
        while not self._stop.is_set():
            # One that is late is made up for.
            time.sleep(max(0.0, start + number * self._every - time.perf_counter()))
            began = time.perf_counter()
            try:
                self._call(number)
                number += 1
            except idmatch.Error as error:
                self.calls.errors.append(f"{type(error).__name__}: {error}")
            self.calls.began.append(began)
            self.calls.took.append(time.perf_counter() - began)


class Faults:
    """Three nodes, a table, and the faults."""

    def __init__(self, options: argparse.Namespace, lab: Lab) -> None:
        self._options, self._lab = options, lab
        points = ",".join(f"{options.network}.{n}" for n in (1, 2, 3))
        self._address = f"cql://{points}/faults?replication=3"
        self._store = idmatch.open(self._address)
        self._table = self._store.create_table(
            "t", keep="last", expected_rows=max(options.rows, 64_000)
        )
        self._rows = self._spare = 0
        log("loading")
        self._add(options.rows)
        log("warming up")
        with ExitStack() as stack:
            for name, call in self._doings().items():
                if name != "load":  # that was done
                    stack.enter_context(Repeated(call))
            time.sleep(_WARM * options.seconds)

    def close(self) -> None:
        self._store.close()

    def killed(self) -> Figures:
        """A node is killed while one thing is done over and over."""
        return {
            name: self._away(call, self._lab.kill, self._lab.resume)
            for name, call in self._doings().items()
        }

    def frozen(self) -> Figures:
        """A node stops responding meanwhile."""
        doings = self._doings()
        return {
            name: self._away(doings[name], self._lab.freeze, self._lab.resume)
            for name in ("lookup", "upsert", "match")
        }

    def rolling(self) -> Figures:
        """All nodes are restarted, one after the other, each after a match has begun, and rows are
        upserted all the time.
        """
        known, first = ids(0, self._rows), self._rows
        found: list[int] = []
        is_matching = threading.Event()

        def upsert(number: int) -> None:
            self._table.upsert(rows(first + number * RESTART_BATCH, RESTART_BATCH))

        def match(_: int) -> None:
            is_matching.set()
            try:
                found.append(self._table.match(known).rows)
            finally:
                is_matching.clear()

        every = RESTART_BATCH / RESTART_RATE
        began = time.perf_counter()
        with Repeated(upsert, every) as upserts, Repeated(match, MATCH_EVERY) as matches:
            time.sleep(self._options.seconds)
            for number in (1, 2, 3):
                if not is_matching.wait(timeout=600):
                    raise TimeoutError("no match has begun")
                time.sleep(1)
                self._lab.kill(number)
                time.sleep(AWAY)
                self._lab.resume(number)
                time.sleep(BETWEEN)
        took = time.perf_counter() - began
        acknowledged = len(upserts.took) - len(upserts.errors)
        self._rows = first + acknowledged * RESTART_BATCH
        everyone = self._table.match(ids(0, self._rows)).rows
        return {
            "population": first,
            "matches": len(found),
            "wrong_matches": sum(rows != first for rows in found),
            "match": matches.where(_always),
            "upserted": self._rows - first,
            "upserts_per_second": (self._rows - first) / took,
            "upsert": upserts.where(_always),
            "errors": upserts.errors + matches.errors,
            "lost": self._rows - everyone,
            "differences": len(self._table.verify()),
        }

    def overload(self) -> Figures:
        """Far more is asked than a rate limit allows."""
        with idmatch.open(f"{self._address}&max_requests_per_second={RATE_LIMIT}") as store:
            table, first = store.table("t"), self._rows
            memory: list[int] = []

            def upsert(thread: int) -> Callable[[int], object]:
                return lambda n: table.upsert(
                    rows(first + (n * _THREADS + thread) * UPSERT_ROWS, UPSERT_ROWS)
                )

            with ExitStack() as stack:
                calls = [stack.enter_context(Repeated(upsert(n))) for n in range(_THREADS)]
                began = time.perf_counter()
                while not memory or time.perf_counter() < began + 3 * self._options.seconds:
                    memory.append(resident())
                    time.sleep(0.25)
            took = time.perf_counter() - began
            settled = memory[len(memory) // 4 :]
            return {
                "rate_limit": RATE_LIMIT,
                "upserts_per_second": sum(UPSERT_ROWS * len(one.took) for one in calls) / took,
                "errors": [error for one in calls for error in one.errors],
                "memory": settled[0],
                "memory_growth": max(settled) - settled[0],
            }

    def _doings(self) -> dict[str, Callable[[int], object]]:
        asked = ids(0, self._options.rows // 50)

        def look_up(number: int) -> None:
            n = number * 7_919 % self._options.rows
            at = THEN + timedelta(seconds=n % SECONDS)
            if self._table.latest_partner_id(f"id{n}") != (f"p{n % PARTNERS}", at):
                raise WrongAnswer(f"id{n}")

        def match(_: int) -> None:
            if self._table.match(asked).rows != asked.num_rows:
                raise WrongAnswer("match")

        # Rows of their own are erased, so that the counts of others stay.
        first, count = self._spare, 2_000
        self._table.upsert(rows(first, count, name="spare"))
        self._spare += count
        spare = iter(f"spare{n}" for n in range(first, first + count))
        return {
            "lookup": look_up,
            "upsert": lambda _: self._add(1),
            "match": match,
            "load": lambda _: self._add(20_000),
            "erase": lambda _: self._table.erase(id=next(spare)),
        }

    def _away(
        self,
        call: Callable[[int], object],
        fail: Callable[[int], object],
        restore: Callable[[int], object],
    ) -> Figures:
        seconds = self._options.seconds
        self._wait_for_hints()
        with Repeated(call) as calls:
            time.sleep(2 * seconds)
            failed = time.perf_counter()
            fail(2)
            time.sleep(2 * seconds)
        restore(2)
        # Until the others see that it is back.
        time.sleep(BETWEEN)
        back = failed + BACK
        return {
            # The last calls before the fault: the first ones are not warm.
            "before": calls.where(lambda b, e: b >= failed - seconds and e < failed),
            # With the calls that were in flight when the node failed.
            "at_first": calls.where(lambda b, e: e >= failed and b < back),
            "after": calls.where(lambda b, _: b >= back),
            "errors": calls.errors,
        }

    def _wait_for_hints(self) -> None:
        """Returns when no node keeps writes for another: they would be handed over meanwhile."""
        folders = [node.folder / "hints" for node in self._lab.nodes()]
        quiet = time.monotonic()
        while time.monotonic() < quiet + _QUIET:
            if any(list(folder.glob("*.hints")) for folder in folders):
                quiet = time.monotonic()
            time.sleep(0.2)

    def _add(self, count: int) -> None:
        first = self._rows
        add = self._table.load if count > 1 else self._table.upsert
        add(rows(first, count))
        self._rows = first + count


class WrongAnswer(Exception):
    """An answer differs from the written rows."""


def _always(_began: float, _ended: float) -> bool:
    return True


def rows(first: int, count: int, name: str = "id") -> pa.Table:
    """Rows (id N, partner_id N mod a million), each a second after the one before."""
    numbers = range(first, first + count)
    start = int(THEN.timestamp() * 1_000)
    dates = pa.array([start + n % SECONDS * 1_000 for n in numbers], pa.timestamp("ms", "UTC"))
    return pa.table(
        {
            "id": [f"{name}{n}" for n in numbers],
            "partner_id": [f"p{n % PARTNERS}" for n in numbers],
            "seen_at": dates,
        }
    )


def ids(first: int, count: int) -> pa.Table:
    """A population."""
    return pa.table({"id": [f"id{n}" for n in range(first, first + count)]})


def resident() -> int:
    """The memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


STEPS: Sequence[str] = ("killed", "frozen", "rolling", "overload")


def main() -> int:
    """Runs what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(description="Measure what a caller notices of failing nodes.")
    add = parser.add_argument
    add("--rows", type=parse_count, default=2_000_000)
    add("--seconds", type=float, default=10, help="before each fault; twice as long with it")
    add("--only", type=parse_names(tuple(STEPS)), default=list(STEPS))
    add("--network", default="127.73.36", help="first three numbers of the nodes' addresses")
    add("--heap", type=parse_count, default=2 << 30, help="of each node, in bytes")
    add("--dir", type=Path, default=Path("/var/tmp/idmatch-bench"))
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    path: Path = options.dir / f"results-cql-faults-{show_count(options.rows)}.json"
    document: Figures = json.loads(path.read_text()) if path.exists() else {}
    folder = options.dir / "work" / "faults"
    lab = Lab(folder, log, _JAVA_OPTIONS, SETTINGS)
    lab.up(3, options.heap, options.network)
    try:
        with closing(Faults(options, lab)) as faults:
            for step in options.only:
                found: Figures = getattr(faults, step)()
                log(f"{step}: {json.dumps(found)[:2_000]}")
                document[step] = {
                    "found": found,
                    "machine": machine.describe(options.dir),
                    "date": datetime.now(UTC).date().isoformat(),
                    "command": shlex.join(["python", "bench/cql_faults.py", *sys.argv[1:]]),
                    "rows": options.rows,
                    "heap_bytes": options.heap,
                    "settings": SETTINGS,
                    "java_options": _JAVA_OPTIONS,
                }
                path.write_text(json.dumps(document, indent=2) + "\n")
    finally:
        lab.down(delete=True)
        shutil.rmtree(folder, ignore_errors=True)
    log(f"results: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
