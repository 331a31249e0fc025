"""Runs the benchmark: ours and the peers side by side on the same data, and keeps the results as
JSON.

    python bench/run.py                        400 M rows, everything; hours, about 60 GB of disk
    python bench/run.py --rows 4M              everything, small; minutes
    python bench/run.py --only idmatch,bare    only these; other results stay

The order of the steps is chosen for the disk: what needs none comes first, and each store is
deleted before the next one is made. `report/` turns the results into a part of
`docs/benchmarks/README.md`.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import data as data_sets
import machine
import stores
from contestant import Limits
from data import DataSet
from heat import can_drop_page_cache
from joins import Bench, attempt, cold, hot, hot_write, typed, with_best_limit
from peers.rocksdb import BYTES_PER_ROW, RocksDb, RocksDbFailed
from progress import log
from results import Disagreement, Results
from units import parse_count, parse_names, show_bytes, show_count

ON_PARQUET = ("duckdb", "polars", "clickhouse")
CONTESTANTS = ("bare", *ON_PARQUET, "duckdb-native", "rocksdb", "idmatch")
MODES = (
    "hot",
    "write",
    "typed",
    "write-plain",
    "cold",
    "growth",
    "load",
    "open",
    "lookups",
    "ten-loads",
)
IN_ALL_MODES = ("duckdb", "idmatch")
TYPED = (*IN_ALL_MODES, "duckdb-native")
GROWTH_FILES = (4, 13, 40)
ROCKSDB_ROWS = 100_000_000

# Disk that a step may take, per byte of Parquet: a store and what it needs while it is made.
# Measured at 400 M rows: a store is 1.13 of its Parquet files, and a load takes 0.04 of it more.
_STORE_SPACE = 1.5
_NATIVE_SPACE = 1.3
_DATA_BYTES_PER_ROW = 58
_FREE_FLOOR = 10**9


def main() -> int:
    """Runs what the command line asks for; returns the exit code."""
    options = _options()
    options.dir.mkdir(parents=True, exist_ok=True)
    rows = options.rows or _rows_that_fit(options.dir, data_sets.DEFAULT_ROWS)
    data = data_sets.prepare(options.dir, rows, options.seed)
    log(
        f"data: {show_bytes(data.parquet_bytes())} of match files, population of"
        f" {show_count(data.population_rows)} rows"
    )
    results = Results(
        options.results or options.dir / f"results-{show_count(rows)}-seed{options.seed}.json"
    )
    memory = machine.memory_bytes()
    bench = Bench(
        data=data,
        directory=options.dir,
        results=results,
        threads=options.threads,
        runs=options.runs,
        seconds_per_mode=options.seconds_per_mode,
        memory_bytes=options.memory or memory * 2 // 3,
        duckdb_limits=tuple(one for one in options.duckdb_memory if one < memory * 85 // 100),
        limits=Limits(
            seconds=options.give_up_after, private_bytes=memory * 85 // 100, free_bytes=_FREE_FLOOR
        ),
    )
    results.document["about"] = {
        "machine": machine.describe(options.dir),
        "commands": _commands(results, whole=set(options.only) == set(CONTESTANTS)),
        "date": datetime.now(UTC).date().isoformat(),
        "rows": rows,
        "seed": options.seed,
        "threads": options.threads,
        "asked_rows": options.rows or data_sets.DEFAULT_ROWS,
        "memory_limit_bytes": bench.memory_bytes,
        "duckdb_limits": bench.duckdb_limits,
        "population_rows": data.population_rows,
        "parquet_bytes": data.parquet_bytes(),
        "population_bytes": data.population.stat().st_size,
        "growth_files": [files for files in GROWTH_FILES if files <= len(data.files)],
    }
    results.save()
    try:
        run(bench, options.only, options.modes, options.keep)
    except Disagreement as disagreement:
        log(f"WRONG ANSWER: {disagreement}")
        return 1
    log(f"results: {results.path}")
    failed = [step for step in results.document["skipped"] if "idmatch" in step.split()]
    for step in failed:
        log(f"no result for {step}: {results.document['skipped'][step]}")
    return 1 if failed else 0


def _commands(results: Results, whole: bool) -> list[str]:
    """The commands that the results come from: this one, and those before it unless this one
    measures everything.
    """
    this = shlex.join(["python", "bench/run.py", *sys.argv[1:]])
    earlier = [] if whole else results.document["about"].get("commands", [])
    return [command for command in earlier if command != this] + [this]


def run(bench: Bench, only: list[str], modes: list[str], keep: bool) -> None:
    """All steps that are wanted, in an order that needs little disk."""
    if "bare" in only:
        attempt(bench, lambda: stores.bare_cost(bench, bench.data), "bare")
    for name in ON_PARQUET:
        if name in only:
            _joins(bench, name, modes)
            bench.remove(name, bench.data)
    if "duckdb-native" in only:
        _duckdb_native(bench, modes)
    if "rocksdb" in only and "hot" in modes:
        _rocksdb(bench)
    if "idmatch" in only:
        _idmatch(bench, modes, keep)


def _joins(bench: Bench, name: str, modes: list[str]) -> None:
    """The modes that every system takes part in, over all rows, and the smaller sizes for those
    that read Parquet.
    """

    def measure(ask: Callable[[Bench], dict[str, Any]], *keys: str) -> None:
        """DuckDB is asked with several memory limits, and the best counts."""
        asked = (
            partial(with_best_limit, bench, ask)
            if name.startswith("duckdb")
            else partial(ask, bench)
        )
        attempt(bench, asked, "contestants", name, *keys)

    data = bench.data
    if "hot" in modes or "growth" in modes:
        measure(partial(hot, name=name, data=data), "hot")
    if "write" in modes:
        measure(partial(hot_write, name=name, data=data, compression="snappy"), "write")
    if "typed" in modes and name in TYPED:
        measure(partial(typed, name=name, data=data), "typed")
    if name not in IN_ALL_MODES:
        return
    if "write-plain" in modes:
        measure(partial(hot_write, name=name, data=data, compression="none"), "write-plain")
    if "cold" in modes and can_drop_page_cache():
        measure(partial(cold, name=name, data=data), "cold")
    elif "cold" in modes:
        reason = "only root may drop the page cache"
        bench.results.skip("contestants", name, "cold", reason=reason)
    if "growth" in modes and name in ON_PARQUET:
        for part in _smaller(data):
            measure(partial(hot, name=name, data=part), "growth", str(part.rows))
            bench.remove(name, part)


def _duckdb_native(bench: Bench, modes: list[str]) -> None:
    name, data = "duckdb-native", bench.data
    if not _fits(bench, _NATIVE_SPACE * data.parquet_bytes(), "contestants", name):
        return

    def build() -> dict[str, object]:
        with bench.start(name, data) as contestant:
            call = contestant.call("prepare")
        return {
            "seconds": call.seconds,
            "rows_per_second": data.rows / call.seconds,
            "private_bytes": call.private_bytes,
            "store_bytes": (bench.workspace(name, data) / "matches.duckdb").stat().st_size,
        }

    bench.remove(name, data)
    if attempt(bench, build, "contestants", name, "load"):
        _joins(bench, name, modes)
    bench.remove(name, data)


def _rocksdb(bench: Bench) -> None:
    rows = min(ROCKSDB_ROWS, bench.data.rows)
    if not _fits(bench, BYTES_PER_ROW * rows, "contestants", "rocksdb", "hot"):
        return
    log(f"rocksdb: filling {show_count(rows)} rows")
    peer = RocksDb(bench.directory / "work" / "rocksdb", rows, bench.threads)
    try:
        figures = peer.measure(keys=bench.data.population_rows, runs=min(3, bench.runs))
    except RocksDbFailed as failure:
        log(f"rocksdb: FAILED: {failure}")
        bench.results.skip("contestants", "rocksdb", "hot", reason=str(failure))
        return
    log(f"rocksdb: {figures['seconds']} s")
    bench.results.put("contestants", "rocksdb", "hot", value=figures)


def _idmatch(bench: Bench, modes: list[str], keep: bool) -> None:
    name, data = stores.NAME, bench.data
    if _idmatch_store(bench, modes, keep):
        _joins(bench, name, modes)
        if "open" in modes:
            attempt(bench, lambda: stores.opening(bench, data), "idmatch", "open")
        if "lookups" in modes:
            attempt(bench, lambda: stores.lookups(bench, data), "idmatch", "lookups")
            attempt(bench, lambda: stores.lookups_from_rust(bench, data), "idmatch", "lookups_rust")
    if not keep:
        bench.remove(name, data)
    if "growth" in modes:
        for part in _smaller(data):

            def measure(part: DataSet = part) -> dict[str, object]:
                loading = stores.load(bench, part)
                return hot(bench, name, part) | {"load": loading}

            if _fits(
                bench,
                _STORE_SPACE * part.parquet_bytes(),
                "contestants",
                name,
                "growth",
                str(part.rows),
            ):
                attempt(bench, measure, "contestants", name, "growth", str(part.rows))
            bench.remove(name, part)
    if "ten-loads" in modes and _fits(
        bench, _STORE_SPACE * data.parquet_bytes(), "idmatch", "ten_loads"
    ):
        attempt(bench, lambda: stores.ten_loads(bench, data), "idmatch", "ten_loads")


def _idmatch_store(bench: Bench, modes: list[str], keep: bool) -> bool:
    """Makes the store of all rows when a step needs it, or takes one that was kept. Returns whether
    it is there.
    """
    if not set(modes) & set(MODES) - {"ten-loads"}:
        return False
    whole = bench.workspace(stores.NAME, bench.data) / "whole"
    if keep and "load" not in modes and whole.exists():
        log("idmatch: using the store that was kept")
        return True
    bench.remove(stores.NAME, bench.data)
    if not _fits(bench, _STORE_SPACE * bench.data.parquet_bytes(), "idmatch", "load"):
        return False
    if not attempt(bench, lambda: stores.load(bench, bench.data), "idmatch", "load"):
        return False
    whole.touch()
    return True


def _smaller(data: DataSet) -> list[DataSet]:
    """The sizes of the growth curve below the whole."""
    return [data.first(files) for files in GROWTH_FILES if files < len(data.files)]


def _fits(bench: Bench, needed: float, part: str, *keys: str) -> bool:
    """Whether a step's files fit on the disk; if not, notes why it is skipped."""
    free = machine.free_bytes(bench.directory)
    if needed <= free:
        return True
    reason = f"needs about {show_bytes(needed)} of disk while it runs, {show_bytes(free)} are free"
    log(f"{' '.join((part, *keys))}: skipped: {reason}")
    bench.results.skip(part, *keys, reason=reason)
    return False


def _rows_that_fit(directory: Path, wanted: int) -> int:
    """The largest multiple of 40 M rows up to `wanted` whose data and one store fit on the disk."""
    here = sum(file.stat().st_size for file in directory.glob("data-*/*.parquet"))
    room = machine.free_bytes(directory) + here
    step = wanted // 10
    rows = wanted
    while rows > step and rows * _DATA_BYTES_PER_ROW * (1 + _STORE_SPACE) > room:
        rows -= step
    if rows < wanted:
        log(
            f"{show_bytes(room)} of disk are too few for {show_count(wanted)} rows: taking"
            f" {show_count(rows)}"
        )
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure idmatch and its peers side by side.")
    parser.add_argument(
        "--rows",
        type=parse_count,
        help="match rows, such as 4M (default: 400M, or what fits on the disk)",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=data_sets.DEFAULT_DIRECTORY,
        help="where data, stores and results go",
    )
    parser.add_argument("--seed", type=int, default=data_sets.DEFAULT_SEED)
    parser.add_argument(
        "--only",
        type=parse_names(CONTESTANTS),
        default=list(CONTESTANTS),
        help=f"of {','.join(CONTESTANTS)}",
    )
    parser.add_argument(
        "--modes", type=parse_names(MODES), default=list(MODES), help=f"of {','.join(MODES)}"
    )
    parser.add_argument(
        "--runs", type=int, default=7, help="measured runs of each figure, after one to warm up"
    )
    parser.add_argument(
        "--seconds-per-mode", type=float, default=100, help="take no further run after this long"
    )
    parser.add_argument(
        "--give-up-after",
        type=float,
        default=3600,
        help="end a system that takes longer for one call",
    )
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument(
        "--memory",
        type=lambda text: parse_count(text),
        help="memory limit for peers that take one (default: 2/3)",
    )
    parser.add_argument(
        "--duckdb-memory",
        type=lambda text: [parse_count(one) for one in text.split(",")],
        default=[5 * 10**9, 14 * 10**9, 17 * 10**9],
        help="memory limits of DuckDB, of which the best counts (default: 5G,14G,17G)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the idmatch store, and use one kept before unless it is to be loaded",
    )
    parser.add_argument("--results", type=Path, help="the results file (default: in --dir)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
