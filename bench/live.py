"""Writes to an idmatch store while it is read, and keeps the figures as JSON.

    python bench/live.py                           100 M rows; an hour, and about 40 GB of disk
    python bench/live.py --rows 2M --seconds 10    everything, small; minutes
    python bench/live.py --only mixed              only this; other results of the same data stay

The store is loaded once; each step works on a copy of its own, which shares the files that do not
change. The steps themselves are the program in `live/`. In the results, times are in seconds,
memory and files in bytes:

    about     machine, commands, date, seed, rows, seconds
    base      the store as it was loaded
    disk      what one fdatasync takes
    batches   upserts of 1,000 rows from 4 threads, as fast as possible; segments over time
    singles   upserts of one row from 32 threads, as fast as possible
    mixed     the join quiet, under upserts, and under upserts and lookups; lookups to a schedule
    growth    the join after half as many rows again were upserted, against a fresh load
    reopen    opening a store whose writer was killed with its journal full
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import data as data_sets
import idmatch
import machine
from data import DataSet
from programs import program
from progress import log
from units import directory_bytes, parse_count, parse_names, show_bytes, show_count, show_seconds

DEFAULT_ROWS = 100_000_000
DEFAULT_SECONDS = 300
MOST_PAIRS = 25_000_000
TABLE = "matches"
_CHUNK_BYTES = 16 << 20
STEPS = ("disk", "batches", "singles", "mixed", "growth", "reopen")

Figures = dict[str, Any]


class Live:
    """The data, the loaded store, and the steps."""

    def __init__(self, options: argparse.Namespace, data: DataSet) -> None:
        self.data = data
        self.seconds: float = options.seconds
        self.seed: int = options.seed
        self.work = options.dir / "work" / f"live-{show_count(data.rows)}-seed{options.seed}"
        self.work.mkdir(parents=True, exist_ok=True)
        self.base = self.work / "base"
        self.pairs = self.work / "pairs"

    def prepare(self) -> Figures:
        """Loads the store, and writes the pairs that upserts repeat; returns what the store is
        like.
        """
        if not self.pairs.exists():
            files = [str(file) for file in self.data.files]
            partial = self.pairs.with_suffix(".partial")
            made = run("pairs", "--out", str(partial), "--at-most", str(MOST_PAIRS), *files)
            log(f"pairs: {made['pairs']}")
            partial.rename(self.pairs)
        figures = (
            load(self.base, [str(file) for file in self.data.files])
            if not self.base.exists()
            else {}
        )
        return figures | {"bytes": directory_bytes(self.base)}

    def disk(self) -> Figures:
        """What one fdatasync takes: no durable upsert can be faster."""
        return run("disk", "--dir", str(self.work))

    def batches(self) -> Figures:
        """Batches of 1,000 rows from 4 threads, as fast as possible."""
        return self._on_a_copy("batches", seconds=self.seconds)

    def singles(self) -> Figures:
        """Single rows from 32 threads, as fast as possible."""
        return self._on_a_copy("singles", seconds=self.seconds / 2)

    def mixed(self) -> Figures:
        """The join and lookups while rows are upserted at a fixed rate."""
        return self._on_a_copy(
            "mixed", "--population", str(self.data.population), seconds=self.seconds
        )

    def growth(self) -> Figures:
        """Half as many rows again, upserted; and the same rows, freshly loaded."""
        upserted, fresh = self.work / "upserted.parquet", self.work / "fresh"
        try:
            with self._copy() as grown:
                figures = run(
                    "growth",
                    *self._given(grown),
                    "--rows",
                    str(self.data.rows // 2),
                    "--upserted",
                    str(upserted),
                )
                loading = load(fresh, [*(str(file) for file in self.data.files), str(upserted)])
                joins = run(
                    "compare",
                    "--store",
                    str(grown),
                    "--fresh",
                    str(fresh),
                    "--population",
                    str(self.data.population),
                )
        finally:
            upserted.unlink(missing_ok=True)
            shutil.rmtree(fresh, ignore_errors=True)
        counts = [
            [joins[join][name] for name in ("matched", "rows")] for join in ("join", "fresh_join")
        ]
        if counts[0] != counts[1]:
            raise SystemExit(
                "WRONG ANSWER: a store that was upserted to and one freshly loaded disagree:"
                f" {counts}"
            )
        return (
            figures
            | joins
            | {"fresh": loading, "bytes_ratio": figures["store_bytes"] / loading["bytes"]}
        )

    def reopen(self) -> Figures:
        """Kills a writer whose journal is full, then opens the store."""
        with self._copy() as store:
            writer = subprocess.Popen(
                command("fill", *self._given(store)), stdout=subprocess.PIPE, text=True
            )
            try:
                full = read_document(writer)
            finally:
                writer.kill()
                writer.wait()
            again = run("reopen", *self._given(store), "--rows", str(full["acknowledged"]))
        return again | {"full": full}

    def remove(self) -> None:
        """Deletes all but the data."""
        shutil.rmtree(self.work)

    def _on_a_copy(self, step: str, *more: str, seconds: float | None = None) -> Figures:
        timed = ["--seconds", str(seconds)] if seconds else []
        with self._copy() as store:
            return run(step, *self._given(store), *timed, *more)

    def _given(self, store: Path) -> list[str]:
        return ["--store", str(store), "--pairs", str(self.pairs), "--seed", str(self.seed)]

    def _copy(self) -> Copy:
        return Copy(self.base, self.work / "copy")


class Copy:
    """A copy of a store; it is deleted at the end."""

    def __init__(self, store: Path, path: Path) -> None:
        self._store, self._path = store, path

    def __enter__(self) -> Path:
        shutil.rmtree(self._path, ignore_errors=True)
        with idmatch.open(self._store) as store:
            store.backup(self._path)
        os.sync()
        # Into the page cache, wherever earlier steps left it: all steps are hot.
        for file in sorted(self._path.glob("segments/*")):
            with file.open("rb") as segment:
                while segment.read(_CHUNK_BYTES):
                    pass
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def load(path: Path, files: list[str]) -> Figures:
    """Makes a store in one load."""
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    began = time.perf_counter()
    with idmatch.open(partial) as store:
        table = store.create_table(TABLE, keep="last")
        report = table.load(files, strict=True)
        segments = table.stats().segments
    seconds = time.perf_counter() - began
    partial.rename(path)
    log(f"load of {show_count(report.rows)} rows: {show_seconds(seconds)}, {segments} segments")
    return {
        "rows": report.rows,
        "seconds": seconds,
        "segments": segments,
        "bytes": directory_bytes(path),
    }


def command(step: str, *arguments: str) -> list[str]:
    """How a step of the program in `live/` is run."""
    return [program("live"), step, *arguments]


def run(step: str, *arguments: str) -> Figures:
    """Runs a step and returns what it printed."""
    done = subprocess.run(command(step, *arguments), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{step} ended with status {done.returncode}")
    figures: Figures = json.loads(done.stdout)
    return figures


def read_document(process: subprocess.Popen[str]) -> Figures:
    """The first JSON document that a process prints; it goes on."""
    text = ""
    for line in process.stdout or ():
        text += line
        if line == "}\n":
            figures: Figures = json.loads(text)
            return figures
    raise SystemExit(f"fill ended with status {process.wait()}")


def tell(step: str, figures: Figures) -> None:
    """Says the figures that matter."""
    for line in _TOLD[step](figures):
        log(f"{step}: {line}")


def _latency(figures: Figures) -> str:
    return ", ".join(
        f"{name.replace('_', '.')} {show_seconds(figures[name])}"
        for name in ("p50", "p99", "p99_9", "max")
    )


def _flood(figures: Figures) -> list[str]:
    written = figures["written"]
    return [
        (
            f"{show_count(written['rows_per_second'])} rows/s, slowest {written['slice_seconds']}"
            f" s: {show_count(written['slowest_slice'] or 0)} rows/s;"
            f" {_latency(written['latency'])}; {written['stalls']['calls']} stalls"
        ),
        (
            f"peak memory {show_bytes(figures['private_bytes'])}; segments"
            f" {figures['before']['segments']}, after the writes {figures['after']['segments']},"
            f" idle {show_seconds(figures['idle_after_seconds'])} later"
            f" {figures['idle']['segments']}"
        ),
    ]


def _mixed(figures: Figures) -> list[str]:
    return [
        (
            f"join quiet {show_seconds(figures['join_quiet']['median'])}, at the end"
            f" {show_seconds(figures['join_quiet_after']['median'])}"
        ),
        (
            f"under {show_count(figures['upserts']['rows_per_second'])} rows/s"
            f" {figures['join_under_upserts_ratio']:.2f} times that (max"
            f" {show_seconds(figures['join_under_upserts']['max'])}); upserts"
            f" {_latency(figures['upserts']['latency'])}"
        ),
        (
            f"with {show_count(figures['lookups']['lookups_per_second'])} lookups/s too"
            f" {figures['join_under_both_ratio']:.2f} times"
        ),
        f"lookups alone: {_latency(figures['lookups_alone']['latency'])}",
        f"lookups under all: {_latency(figures['lookups']['latency'])}",
    ]


def _growth(figures: Figures) -> list[str]:
    return [
        (
            f"{show_count(figures['written']['rows_per_second'])} rows/s, idle"
            f" {show_seconds(figures['idle_after_seconds'])} later, {figures['idle']['segments']}"
            f" segments, fresh {figures['fresh']['segments']}"
        ),
        (
            f"join {show_seconds(figures['join']['median'])}, fresh"
            f" {show_seconds(figures['fresh_join']['median'])}: {figures['join_ratio']:.2f}"
        ),
        (
            f"store {show_bytes(figures['store_bytes'])}, fresh"
            f" {show_bytes(figures['fresh']['bytes'])}: {figures['bytes_ratio']:.2f}"
        ),
    ]


_TOLD: dict[str, Callable[[Figures], list[str]]] = {
    "disk": lambda figures: [f"fdatasync: {_latency(figures['latency'])}"],
    "batches": _flood,
    "singles": _flood,
    "mixed": _mixed,
    "growth": _growth,
    "reopen": lambda figures: [
        (
            f"journal {show_bytes(figures['journal_bytes'])}: open {show_seconds(figures['open'])},"
            f" first lookup {show_seconds(figures['first_lookup'])}, first upsert"
            f" {show_seconds(figures['first_upsert'])}"
        )
    ],
}


def main() -> int:
    """Runs what the command line asks for; returns the exit code."""
    options = _options()
    options.dir.mkdir(parents=True, exist_ok=True)
    data = data_sets.prepare(
        options.dir, options.rows, options.seed, population_rows=options.rows // 10
    )
    path = (
        options.results
        or options.dir / f"results-live-{show_count(options.rows)}-seed{options.seed}.json"
    )
    document = json.loads(path.read_text()) if path.exists() else {}
    command_line = shlex.join(["python", "bench/live.py", *sys.argv[1:]])
    earlier = [
        known for known in document.get("about", {}).get("commands", ()) if known != command_line
    ]
    document["about"] = {
        "machine": machine.describe(options.dir),
        "commands": [*earlier, command_line],
        "date": datetime.now(UTC).date().isoformat(),
        "rows": options.rows,
        "seed": options.seed,
        "seconds": options.seconds,
        "population_rows": data.population_rows,
        "parquet_bytes": data.parquet_bytes(),
    }
    live = Live(options, data)
    document["base"] = document.get("base", {}) | live.prepare()
    for step in options.only:
        stamp: Figures = {
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "load_before": os.getloadavg()[0],
        }
        document[step] = getattr(live, step)() | stamp | {"load_after": os.getloadavg()[0]}
        tell(step, document[step])
        path.write_text(json.dumps(document, indent=2) + "\n")
    if not options.keep:
        live.remove()
    log(f"results: {path}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure idmatch while it is written.")
    parser.add_argument(
        "--rows",
        type=parse_count,
        default=DEFAULT_ROWS,
        help="rows of the loaded table (default: 100M)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=DEFAULT_SECONDS,
        help="how long batches are written (default: 300)",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=data_sets.DEFAULT_DIRECTORY,
        help="where data, stores and results go",
    )
    parser.add_argument("--seed", type=int, default=data_sets.DEFAULT_SEED)
    parser.add_argument(
        "--only", type=parse_names(STEPS), default=list(STEPS), help=f"of {','.join(STEPS)}"
    )
    parser.add_argument("--keep", action="store_true", help="keep the loaded store for another run")
    parser.add_argument("--results", type=Path, help="the results file (default: in --dir)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
