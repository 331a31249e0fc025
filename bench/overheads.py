"""What positions, open snapshots, other tables and events of the log cost.

    python bench/overheads.py              100 M rows; minutes, and about 20 GB of disk
    python bench/overheads.py --rows 1M    the same, small: minutes

All are measured in rounds: without, without again, and with, as `rounds.py` says.

- *Positions*: a match is written to Parquet with the numbers of population rows in place of their
  identifiers, from Rust: the program in `positions/`. Python has no such match by itself.
- *Match*: the result of a population is written to Parquet. `unmatched=True` takes positions and
  adds no column. It also keeps the identifiers and their matches, and reads them back: beyond 128
  MiB from temporary files.
- *Upserts*: single rows and batches of 1,000, with no snapshot and with 1,000 open ones, each of
  which is of another version. The store is opened with `durability="interval"`, and its memtable
  takes all rows, so that no measurement has a flush that another has not.
- *Loads*: loads of one row, each of which is published, in a store of one table and in one of
  1,000.
- *Lookups*: of single ids, from Rust: the program in `lookups/`, built without any event of the
  log, and as it is, while nobody takes them.

The stores and the written results are removed at the end; the data and the figures stay.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import data as data_sets
import idmatch
import machine
import pyarrow as pa
import pyarrow.parquet as pq
import rounds
from data import DataSet
from programs import program
from progress import log
from rounds import BASE, OTHER, Figures, compare
from units import parse_count, show_count, show_seconds

DEFAULT_ROWS = 100_000_000
_SNAPSHOTS = 1_000
_TABLES = 1_000
_LOADS = 100
_KEYS = 5_000
_SINGLES = 40_000
_BATCHES, _BATCH_ROWS = 200, 1_000
# For the rows of five rounds.
_MEMTABLE = "2G"
# The data, a store, and what a load needs meanwhile.
_DISK_BYTES_PER_ROW = 190


def main() -> int:
    """Measures, prints and keeps the figures."""
    options = _options()
    work: Path = options.dir / "work" / "overheads"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if not machine.has_disk(work, options.rows * _DISK_BYTES_PER_ROW):
        return 2
    population_rows = min(data_sets.POPULATION_ROWS, options.rows // 10)
    data = data_sets.prepare(options.dir, options.rows, population_rows=population_rows)
    try:
        found = _measure(work, data, options.rounds)
    finally:
        shutil.rmtree(work)
    about = {
        "machine": machine.describe(options.dir),
        "command": shlex.join(["python", "bench/overheads.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "rows": data.rows,
        "population_rows": data.population_rows,
        "snapshots": _SNAPSHOTS,
        "tables": _TABLES,
    }
    path = options.dir / f"results-overheads-{show_count(data.rows)}.json"
    path.write_text(json.dumps({"about": about} | found, indent=2) + "\n")
    print(f"{show_count(data.rows)} rows, population of {show_count(population_rows)}\n")
    head = ["figure", "without", "with", "with / without", "without again / without"]
    print(rounds.page(head, found["figures"]))
    log(f"results: {path}")
    return 0


def _measure(work: Path, data: DataSet, count: int) -> Figures:
    with idmatch.open(work / "store", durability="interval", memtable=_MEMTABLE) as store:
        table = store.create_table("matches")
        began = time.perf_counter()
        table.load(data.files)
        log(f"loaded in {show_seconds(time.perf_counter() - began)}")
        rows, result = table.match(data.population).rows, work / "result.parquet"
        positions = rounds.run(
            lambda way: _positions(work, data.population, rows, way == OTHER), count, (BASE, OTHER)
        )
        keys = _matching(table, data.population)
        lookups = rounds.run(lambda way: _lookups(work, keys, way == OTHER), count, (BASE, OTHER))
        # Before the upserts: a match would read the memtable, too.
        matches = rounds.run(
            lambda way: _match(table, data.population, result, rows, way == OTHER),
            count,
            (BASE, OTHER),
        )
        numbers = itertools.count()
        upserts = rounds.run(
            lambda way: _upsert(store, table, numbers, way == OTHER), count, (BASE, OTHER)
        )
    measured = {"positions": positions, "matches": matches, "upserts": upserts}
    measured |= {"loads": _loads(work, count), "lookups": lookups}
    compared = {name: figure for one in measured.values() for name, figure in compare(one).items()}
    return {"figures": compared, "rounds": measured}


def _positions(work: Path, population: Path, rows: int, positions: bool) -> Figures:
    """Seconds of the Rust program; another number of rows than `rows` ends the run."""
    written = work / "written"
    written.mkdir()
    what = "positions" if positions else "identifiers"
    store, out = str(work / "store"), str(written)
    command = [program("positions"), store, "matches", str(population), out, what]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    shutil.rmtree(written)
    seconds, count = done.stdout.split()
    if int(count) != rows:
        raise SystemExit(f"WRONG ANSWER: {int(count):,} rows, others gave {rows:,}")
    return {"match, positions alone": float(seconds)}


def _match(
    table: idmatch.Table, population: Path, result: Path, rows: int, unmatched: bool
) -> Figures:
    """Seconds to match and to write; another number of rows than `rows` ends the run."""
    began = time.perf_counter()
    matched = table.match(population, unmatched=unmatched)
    matched.write_parquet(result, compression="snappy")
    seconds = time.perf_counter() - began
    result.unlink()
    if matched.rows != rows:
        raise SystemExit(f"WRONG ANSWER: {matched.rows:,} rows, others gave {rows:,}")
    return {"match, unmatched rows": seconds}


def _upsert(
    store: idmatch.Store, table: idmatch.Table, numbers: Iterator[int], snapshots: bool
) -> Figures:
    """Seconds of all single upserts, and of all batches; every row is a new one."""
    with ExitStack() as opened:
        for number in itertools.islice(numbers, _SNAPSHOTS):
            table.upsert_one(f"{number:032x}", str(number))
            if snapshots:
                opened.enter_context(store.snapshot())
        rows = [(f"{one:032x}", str(one)) for one in itertools.islice(numbers, _SINGLES)]
        batches = [_batch(list(itertools.islice(numbers, _BATCH_ROWS))) for _ in range(_BATCHES)]
        began = time.perf_counter()
        for id, partner_id in rows:
            table.upsert_one(id, partner_id)
        single = time.perf_counter()
        for batch in batches:
            table.upsert(batch)
        ended = time.perf_counter()
    return {"upsert, single rows": single - began, "upsert, batches": ended - single}


def _matching(table: idmatch.Table, population: Path) -> list[str]:
    """Some ids of the population that are in the table."""
    batches = pq.ParquetFile(population).iter_batches(10 * _KEYS)
    asked: list[str] = [id for id in next(batches).column(0).to_pylist() if id]
    return [id for id, found in zip(asked, table.lookup_many(asked), strict=True) if found][:_KEYS]


def _lookups(work: Path, keys: list[str], events: bool) -> Figures:
    """The median of single lookups by the Rust program, with events or without."""
    file = work / "keys.txt"
    file.write_text("\n".join(keys))
    features = [] if events else ["without-events"]
    command = [program("lookups", *features), str(work / "store"), "matches", str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {"lookup, events in the program": json.loads(done.stdout)["partner_ids"]["median"]}


def _loads(work: Path, count: int) -> list[rounds.Round]:
    """Seconds of a load of one row, the median of many, in stores of one and of many tables."""
    tables = {}
    with ExitStack() as opened:
        for way, number in ((BASE, 1), (OTHER, _TABLES)):
            store = opened.enter_context(idmatch.open(work / f"of-{number}-tables"))
            for one in range(number):
                tables[way] = store.create_table(f"t{one}")

        def measure(way: str) -> Figures:
            table = tables[OTHER if way == OTHER else BASE]
            seconds = []
            for _ in range(_LOADS):
                began = time.perf_counter()
                table.load(_batch([0]))
                seconds.append(time.perf_counter() - began)
            return {"load of one row": statistics.median(seconds)}

        return rounds.run(measure, count, (BASE, OTHER))


def _batch(numbers: list[int]) -> pa.Table:
    now = datetime.now(UTC)
    return pa.table(
        {
            "id": [f"{number:032x}" for number in numbers],
            "partner_id": [str(number) for number in numbers],
            "seen_at": pa.array([now] * len(numbers), pa.timestamp("ms", "UTC")),
        }
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what positions and snapshots cost.")
    add = parser.add_argument
    add("--rows", type=parse_count, default=DEFAULT_ROWS, help="match rows (default: 100M)")
    add("--rounds", type=int, default=5)
    add("--dir", type=Path, default=data_sets.DEFAULT_DIRECTORY, help="data, store and results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
