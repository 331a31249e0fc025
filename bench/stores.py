"""What only a store has: loading, many loads, opening, single lookups."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any

from contestant import ContestantFailed
from data import DataSet
from heat import can_drop_page_cache, drop_page_cache
from joins import Bench, hot
from programs import CannotBuild, program
from progress import log
from results import timing
from sampling import DiskPeak, Sampler
from units import directory_bytes, show_bytes, show_count, show_seconds

NAME = "idmatch"


def load(bench: Bench, data: DataSet, loads: int = 1, place: str = "") -> dict[str, Any]:
    """Makes a store of the data in `loads` loads of as many files each; the store stays."""
    bench.remove(NAME, data, place)
    workspace = bench.workspace(NAME, data, place)
    workspace.mkdir(parents=True)
    os.sync()
    disk = DiskPeak(workspace)
    per_load = -(-len(data.files) // loads)
    seconds, private = [], 0
    with bench.start(NAME, data, place) as contestant, Sampler(disk.sample, 0.2):
        contestant.call("version")
        for first in range(0, len(data.files), per_load):
            call = contestant.call(
                "load", files=[str(file) for file in data.files[first : first + per_load]]
            )
            seconds.append(call.seconds)
            private = max(private, call.private_bytes)
    began = time.perf_counter()
    os.sync()
    sync_afterwards = time.perf_counter() - began
    store, parquet = directory_bytes(workspace), data.parquet_bytes()
    total = sum(seconds)
    if disk.filesystem_bytes > disk.directory_bytes * 1.1:
        log(
            f"the file system lost {show_bytes(disk.filesystem_bytes)}, the store's directory grew"
            f" to {show_bytes(disk.directory_bytes)}: something else is writing, or the load keeps"
            " files elsewhere"
        )
    log(
        f"load of {show_count(data.rows)} rows in {len(seconds)}: {show_seconds(total)},"
        f" {show_count(data.rows / total)} rows/s, store {show_bytes(store)} ({store / parquet:.2f}"
        f" of Parquet), peak memory {show_bytes(private)}"
    )
    return {
        "rows": data.rows,
        "loads": len(seconds),
        "seconds": total,
        "seconds_each": seconds,
        "rows_per_second": data.rows / total,
        "private_bytes": private,
        "store_bytes": store,
        "parquet_bytes": parquet,
        "peak_directory_bytes": disk.directory_bytes,
        "peak_filesystem_bytes": disk.filesystem_bytes,
        "extra_disk_bytes": max(0, disk.directory_bytes - store),
        "sync_afterwards_seconds": sync_afterwards,
    }


def ten_loads(bench: Bench, data: DataSet) -> dict[str, Any]:
    """The hot count over a store that was made in ten loads, before any compaction; the store is
    removed.
    """
    place = "ten-loads"
    try:
        loading = load(bench, data, loads=10, place=place)
        return {"load": loading, "hot": hot(bench, NAME, data, place)}
    finally:
        bench.remove(NAME, data, place)


def opening(bench: Bench, data: DataSet) -> dict[str, Any]:
    """Opening a store and its table and closing them, hot, and once with the page cache dropped."""
    with bench.start(NAME, data) as contestant:
        contestant.call("version")
        cold_seconds = None
        if can_drop_page_cache():
            drop_page_cache()
            cold_seconds = contestant.call("open_and_close").seconds
        calls = [contestant.call("open_and_close") for _ in range(max(5, bench.runs))]
    figures = timing([call.seconds for call in calls], max(call.private_bytes for call in calls))
    log(
        f"open: {show_seconds(figures['median'])} hot"
        + (f", {show_seconds(cold_seconds)} cold" if cold_seconds else "")
    )
    return figures | {"cold_seconds": cold_seconds}


def lookups(bench: Bench, data: DataSet) -> dict[str, Any]:
    """Single questions and one call of 1,000 ids, from Python."""
    with bench.start(NAME, data) as contestant:
        contestant.call("open")
        figures = contestant.call("lookups").value
    for question, figure in figures.items():
        log(
            f"{question}: median {show_seconds(figure['median'])}, 99th percentile"
            f" {show_seconds(figure['p99'])}"
        )
    return {"questions": figures}


def lookups_from_rust(bench: Bench, data: DataSet) -> dict[str, Any]:
    """The same ids asked from Rust, by the program in `lookups/`."""
    keys = bench.workspace(NAME, data) / "keys.txt"
    with bench.start(NAME, data) as contestant:
        contestant.call("write_lookup_keys", path=str(keys))
    try:
        figures = run_program(
            "lookups", [str(bench.workspace(NAME, data) / "store"), "matches", str(keys)]
        )
    finally:
        keys.unlink(missing_ok=True)
    log(
        "latest partner id from Rust: median"
        f" {show_seconds(figures['latest_partner_id']['median'])}"
    )
    return {"questions": figures}


def bare_cost(bench: Bench, data: DataSet) -> dict[str, Any]:
    """The lower bound of a hash join, as timed by the program in `bare/`."""
    figures = run_program(
        "bare",
        [
            "--population",
            str(data.population),
            "--rows",
            str(data.rows),
            "--threads",
            str(bench.threads),
            "--runs",
            str(bench.runs),
        ],
    )
    log(f"lower bound: {show_seconds(figures['total']['median'])}")
    return figures


def run_program(name: str, arguments: list[str]) -> dict[str, Any]:
    """Runs one of the bench's own Rust programs; it prints one JSON document."""
    try:
        command = [program(name), *arguments]
    except CannotBuild as error:
        raise ContestantFailed(str(error)) from error
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ContestantFailed(f"the program in bench/{name} ended with status {done.returncode}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
