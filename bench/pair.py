"""Compares two commits: builds both, measures them in turn, and says which figures differ.

    python bench/pair.py --base REV              REV against HEAD, in a directory, 100 M rows
    python bench/pair.py --base REV --rows 1M    the same, small; minutes after the builds
    python bench/pair.py --base REV --backend cql --rows 2M    on a Cassandra node of its own

A round measures the baseline, the baseline again, and the other commit, as `rounds.py` says.
Figures are seconds, or bytes where their names end with `memory`; a ratio above 1 is worse.

One worker, `pair_worker.py`, drives both commits through their public Python API, with a process
for each step. All that this makes is removed at the end, except the data and the results.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import data as data_sets
import machine
import rounds
from data import DataSet
from pair_builds import Build, Builds, has_changes
from pair_stores import Directory, Failed, Servers, Stores
from progress import log
from rounds import AGAIN, BASE, OTHER, Figures
from units import parse_count, show_bytes, show_count

DIRECTORY, CQL = "directory", "cql"
DEFAULT_ROWS = {DIRECTORY: 100_000_000, CQL: 2_000_000}
STEPS = ("load", "join", "lookup", "upsert")
# How much of each step: on servers all takes longer.
AMOUNTS = {
    DIRECTORY: {"joins": 5, "keys": 2_000, "lookups": 20_000, "batches": 1_000, "singles": 40_000},
    CQL: {"joins": 3, "keys": 1_000, "lookups": 3_000, "batches": 100, "singles": 4_000},
}
# Bytes of disk for each row: its data, a store, and what a load needs meanwhile.
_DISK_BYTES_PER_ROW = {DIRECTORY: 190, CQL: 250}
_BUILD_BYTES = 4 * 10**9
_HERE = Path(__file__).parent


def main() -> int:
    """Builds, measures and compares; 1 when a step failed or answers differ."""
    options = _options()
    # So that a run that is ended removes what it made.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    rows = options.rows or DEFAULT_ROWS[options.backend]
    options.dir.mkdir(parents=True, exist_ok=True)
    needed, free = (
        rows * _DISK_BYTES_PER_ROW[options.backend] + _BUILD_BYTES,
        machine.free_bytes(options.dir),
    )
    if needed > free:
        log(
            f"{options.dir}: {show_bytes(free)} of disk are free, about {show_bytes(needed)} are"
            " needed; use fewer --rows"
        )
        return 1
    if has_changes():
        log("this checkout has changes that are not committed; they are not measured")
    work = options.dir / "pair"
    try:
        with Builds(work / "builds", options.keep) as builds:
            base, other = builds.build(options.base), builds.build(options.rev)
            data = data_sets.prepare(
                options.dir,
                rows,
                options.seed,
                population_rows=min(data_sets.POPULATION_ROWS, rows // 10),
            )
            with _stores(options, work / "store", rows, other) as stores:
                pair = Pair(base, other, data, stores, options)
                pair.run()
    except Failed as failed:
        log(str(failed))
        return 1
    finally:
        shutil.rmtree(work / "store", ignore_errors=True)
    document = pair.document()
    commits = f"{base.commit[:7]}-{other.commit[:7]}"
    name = f"results-pair-{options.backend}-{show_count(rows)}-{commits}.json"
    path = options.results or options.dir / name
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(_page(document))
    log(f"results: {path}")
    return 0


def _stores(options: argparse.Namespace, folder: Path, rows: int, build: Build) -> Stores:
    if options.backend == DIRECTORY:
        return Directory(folder)
    return Servers(folder, rows, build, options.network, options.heap)


class Pair:
    """The rounds, and what came of them."""

    def __init__(
        self, base: Build, other: Build, data: DataSet, stores: Stores, options: argparse.Namespace
    ) -> None:
        self._builds = {BASE: base, AGAIN: base, OTHER: other}
        self._data, self._stores, self._options = data, stores, options
        self._rounds: list[rounds.Round] = []
        self._answers: dict[str, int] = {}

    def run(self) -> None:
        """All rounds, after one of the baseline that does not count: it reads the data into memory
        and lets a server compile its code.
        """
        self._rounds = rounds.run(self._measure, self._options.rounds)

    def document(self) -> Figures:
        """The results as one document."""
        options = self._options
        return {
            "about": {
                "machine": machine.describe(options.dir),
                "command": shlex.join(["python", "bench/pair.py", *sys.argv[1:]]),
                "date": datetime.now(UTC).date().isoformat(),
                "backend": options.backend,
                "base": self._builds[BASE].commit,
                "other": self._builds[OTHER].commit,
                "rows": self._data.rows,
                "population_rows": self._data.population_rows,
                "amounts": AMOUNTS[options.backend],
            },
            "figures": rounds.compare(self._rounds),
            "rounds": self._rounds,
        }

    def _measure(self, name: str) -> Figures:
        """All steps of one system, with a store of its own."""
        figures: Figures = {}
        store = self._stores.begin()
        for step in STEPS:
            found = self._step(name, step, store)
            self._agree(name, step, found.pop("rows"))
            figures |= found
            if step == "load":
                self._stores.settle()
        self._stores.clear()
        return figures

    def _step(self, name: str, step: str, store: str) -> Figures:
        setting = AMOUNTS[self._options.backend] | {
            "store": store,
            "files": [str(file) for file in self._data.files],
            "population": str(self._data.population),
            "result": str(self._data.directory / "pair-result.parquet"),
        }
        command = [str(self._builds[name].python), "pair_worker.py", step, json.dumps(setting)]
        try:
            done = subprocess.run(
                command,
                cwd=_HERE,
                text=True,
                capture_output=True,
                timeout=self._options.give_up_after,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failed(
                f"{name}, {step}: ended after {self._options.give_up_after:.0f} s"
            ) from None
        if done.returncode:
            raise Failed(f"{name}, {step}: status {done.returncode}\n{done.stderr[-2000:]}")
        figures: Figures = json.loads(done.stdout.splitlines()[-1])
        return figures

    def _agree(self, name: str, step: str, rows: int) -> None:
        known = self._answers.setdefault(step, rows)
        if known != rows:
            raise Failed(f"WRONG ANSWER: {name}, {step}: {rows:,} rows, others gave {known:,}")


def _page(document: Figures) -> str:
    """The comparison as a table."""
    about = document["about"]
    head = [
        "figure",
        f"base {about['base'][:7]}",
        f"other {about['other'][:7]}",
        "other / base",
        "base again / base",
    ]
    title = (
        f"{about['backend']}, {show_count(about['rows'])} rows, population of"
        f" {show_count(about['population_rows'])}, {len(document['rounds'])} rounds"
    )
    return f"{title}\n\n{rounds.page(head, document['figures'])}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare two commits, figure by figure.")
    add = parser.add_argument
    add("--base", required=True, help="the commit to compare with")
    add("--rev", default="HEAD", help="the commit that is compared (default: HEAD)")
    add("--backend", choices=(DIRECTORY, CQL), default=DIRECTORY)
    add("--rows", type=parse_count, help="match rows (default: 100M in a directory, 2M on servers)")
    add("--rounds", type=int, default=5)
    add("--seed", type=int, default=data_sets.DEFAULT_SEED)
    add(
        "--dir",
        type=Path,
        default=data_sets.DEFAULT_DIRECTORY,
        help="data, builds, stores and results",
    )
    add("--keep", action="store_true", help="keep the builds for the next run")
    add("--give-up-after", type=float, default=3600, help="seconds after which a step has failed")
    add("--network", default="127.73.36", help="first three numbers of the node's address")
    add("--heap", type=parse_count, default=2 << 30, help="of the node, in bytes")
    add("--results", type=Path, help="the results file (default: in --dir)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
