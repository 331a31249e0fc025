"""How soon long operations end after Ctrl-C, and what they leave behind.

    python bench/stops.py                20 M rows; an hour, and about 12 GB of disk
    python bench/stops.py --rows 2M      the same, small: minutes

Each operation is a command in a process of its own, on a store that is restored for it. It runs
once to its end. Then it runs again, and gets SIGINT at a random moment in the middle third of that
time. The figure is the time from the signal to the end of the process. Afterwards the store must
verify, its rows must be those of before, and no output may be there. What repairs is run again
first. The exit code is 1 where an operation takes a second or more to end, or leaves anything.

Backups go to --other, which should be another file system: within one they are hard links.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data as data_sets
import idmatch
import machine
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from progress import log
from units import parse_count, show_count, show_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_ROWS = 20_000_000
LONGEST_SECONDS = 1.0
# Ctrl-C while Python starts ends it by the signal.
_INTERRUPTED = (130, -signal.SIGINT)
# The rows, the store, its backup, and what a load or a copy writes beside it.
_DISK_BYTES_PER_ROW = 600
_LOADS = 4
# One file of so many is upserted.
_UPSERTED_SHARE = 5
# One id of so many is erased.
_ERASED_SHARE = 50
_COLUMNS = ("id", "partner_id", "seen_at")
_PROGRAM = [sys.executable, "-c", "from idmatch._cli import run; run()"]

Figures = dict[str, Any]


@dataclass(frozen=True)
class Inputs:
    """What operations read, and where they write."""

    work: Path
    other: Path
    files: list[str]
    population: Path
    erased: Path
    csv: Path

    @property
    def store(self) -> Path:
        """The store that an operation works on."""
        return self.work / "store"

    @property
    def saved(self) -> Path:
        """Its backup, which stays."""
        return self.work / "saved"

    @property
    def out(self) -> Path:
        """An empty folder for what an operation writes besides."""
        return self.work / "out"


@dataclass(frozen=True)
class Operation:
    """A command, and what it may change when it is stopped."""

    name: str
    arguments: list[object]
    prepare: Callable[[Inputs], None] | None = None
    """What is done to the store before."""
    keeps_rows: bool = True
    stdin: Path | None = None


def main() -> int:
    """Measures, prints and keeps the figures; 1 when an operation did not end well and in time."""
    options = _options()
    work: Path = options.dir / "work" / "stops"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    other: Path = options.other / "idmatch-stops"
    if not machine.has_disk(work, options.rows * _DISK_BYTES_PER_ROW):
        return 2
    chance = random.Random(options.seed)
    try:
        inputs = _inputs(work, other, data_sets.prepare(options.dir, options.rows))
        wanted = options.only.split(",") if options.only else None
        found = [
            _measure(operation, inputs, chance)
            for operation in _operations(inputs)
            if wanted is None or operation.name in wanted
        ]
    finally:
        shutil.rmtree(work)
        shutil.rmtree(other, ignore_errors=True)
    document = {
        "about": {
            "machine": machine.describe(options.dir),
            "command": shlex.join(["python", "bench/stops.py", *sys.argv[1:]]),
            "date": datetime.now(UTC).date().isoformat(),
        },
        "rows": options.rows,
        "operations": found,
    }
    path = options.dir / f"results-stops-{show_count(options.rows)}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    log(f"results: {path}")
    return 0 if all(_is_good(figures) for figures in found) else 1


def _operations(inputs: Inputs) -> list[Operation]:
    store, out = inputs.store, inputs.out
    match = ["match", store, "t", inputs.population, "--column", "id"]
    return [
        Operation("load", ["load", store, "t", *inputs.files]),
        Operation("load CSV", ["load", store, "t", inputs.csv]),
        Operation("upsert", ["upsert", store, "t", "-"], keeps_rows=False, stdin=inputs.csv),
        Operation("match", [*match, "-o", out / "out.parquet"]),
        Operation("match to CSV", [*match, "-o", out / "out.csv.gz"]),
        Operation(
            "match carried",
            [*match, "--carry", "all", "-o", out / "out.parquet", "--unmatched", out / "no.csv"],
        ),
        Operation("match chain", [*match, "--then", "t,by=partner-id", "-o", out / "out.parquet"]),
        Operation("export Parquet", ["export", store, "t", "-o", out / "out.parquet"]),
        Operation("export CSV", ["export", store, "t", "-o", out / "out.csv"]),
        Operation(
            "erase", ["erase", store, "t", inputs.erased, "--columns", "id"], keeps_rows=True
        ),
        Operation("verify", ["verify", store]),
        Operation("compact", ["compact", store]),
        Operation("compact upserted", ["compact", store], prepare=_upsert),
        Operation("copy", ["copy", store, out / "copied"]),
        Operation("backup", ["backup", store, inputs.other / "backup"]),
        Operation("restore", ["restore", inputs.saved, inputs.other / "restored"]),
        Operation("repair", ["verify", store, "--repair"], prepare=_damage),
        Operation("recover", ["verify", store, "--repair"], prepare=_remove_segment),
    ]


def _inputs(work: Path, other: Path, made: data_sets.DataSet) -> Inputs:
    """Makes the store, its backup, and the files that operations read."""
    inputs = Inputs(
        work,
        other,
        [str(file) for file in made.files],
        work / "population.parquet",
        work / "erased.parquet",
        work / "rows.csv",
    )
    with idmatch.open(work / "store") as store:
        table = store.create_table("t")
        for first in range(_LOADS):
            table.load([str(file) for file in made.files[first::_LOADS]], columns=_COLUMNS)
        store.backup(inputs.saved)
    rows = pa.concat_tables([pq.read_table(file) for file in made.files])
    pc.write_csv(rows, inputs.csv)
    # Every row is looked for, and carries a column.
    population = rows.select(["id", "partner_id"]).rename_columns(["id", "carried"])
    pq.write_table(population, inputs.population)
    ids = rows["id"].take(pa.array(range(0, rows.num_rows, _ERASED_SHARE)))
    pq.write_table(pa.table({"id": ids}), inputs.erased)
    log(f"{show_count(made.rows)} rows in a store of {_LOADS} loads")
    return inputs


def _measure(operation: Operation, inputs: Inputs, chance: random.Random) -> Figures:
    """Runs it to its end, stops it, and looks at what is left."""
    _restore(operation, inputs)
    rows = _rows(inputs)
    began = time.perf_counter()
    with _started(operation, inputs) as process:
        code = process.wait()
    seconds = time.perf_counter() - began
    if code:
        raise RuntimeError(f"{operation.name} ends with {code}; its output is above")
    moment = seconds * chance.uniform(1 / 3, 2 / 3)
    ends, code = _stop(operation, inputs, moment)
    while code == 0:
        # It was faster than the first time, and ended before the signal.
        moment /= 2
        ends, code = _stop(operation, inputs, moment)
    left = _left(inputs)
    if operation.prepare:
        with _started(operation, inputs) as again:
            left += ["damage"] if again.wait() else []
    verifies = not subprocess.run([*_PROGRAM, "verify", inputs.store], stdout=2).returncode
    same = not operation.keeps_rows or _rows(inputs) == rows or bool(operation.prepare)
    figures = {
        "operation": operation.name,
        "seconds": seconds,
        "stopped_at": moment,
        "ends": ends,
        "code": code,
        "left": left,
        "verifies": verifies,
        "same_rows": same,
    }
    print(
        f"{operation.name}: runs {show_seconds(seconds)}, stopped at {show_seconds(moment)}, ends"
        f" {show_seconds(ends)} later with {code};"
        f" {'as before' if verifies and same and not left else 'NOT as before'}"
        f"{'' if _is_good(figures) else ' <--'}",
        flush=True,
    )
    return figures


def _stop(operation: Operation, inputs: Inputs, moment: float) -> tuple[float, int]:
    """Runs it anew, and interrupts it; returns how long it goes on, and its exit code."""
    _restore(operation, inputs)
    with _started(operation, inputs) as process:
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        stopped = time.perf_counter()
        code = process.wait()
    return time.perf_counter() - stopped, code


def _is_good(figures: Figures) -> bool:
    """Whether it was stopped, soon, and left nothing."""
    return (
        figures["code"] in _INTERRUPTED
        and figures["ends"] < LONGEST_SECONDS
        and figures["verifies"]
        and figures["same_rows"]
        and not figures["left"]
    )


def _restore(operation: Operation, inputs: Inputs) -> None:
    """Makes the store as it was, and empties the folder of outputs."""
    for path in (inputs.store, inputs.out, inputs.other):
        shutil.rmtree(path, ignore_errors=True)
    inputs.out.mkdir()
    inputs.other.mkdir()
    idmatch.restore(inputs.saved, inputs.store, verify=False)
    if operation.prepare:
        operation.prepare(inputs)


def _started(operation: Operation, inputs: Inputs) -> subprocess.Popen[bytes]:
    stdin = operation.stdin.open("rb") if operation.stdin else subprocess.DEVNULL
    command = [*_PROGRAM, *map(str, operation.arguments)]
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL, cwd=inputs.work)


def _left(inputs: Inputs) -> list[str]:
    """Files of outputs. What a copy has loaded stays, for the next one, and must verify."""
    left = [path for folder in (inputs.out, inputs.other) for path in folder.rglob("*")]
    copied = inputs.out / "copied"
    if copied.exists():
        left = [path for path in left if copied != path and copied not in path.parents]
        if subprocess.run([*_PROGRAM, "verify", copied], stdout=2).returncode:
            left.append(copied)
    return [str(path) for path in left if path.is_file()]


def _rows(inputs: Inputs) -> int:
    """The rows that are to be seen, without reading them."""
    try:
        with idmatch.open(inputs.store) as store:
            return store.table("t").stats().rows
    except idmatch.Error:
        # It is to be repaired.
        return 0


def _segments(inputs: Inputs) -> list[Path]:
    return sorted((inputs.store / "segments").glob("*.seg"))


def _damage(inputs: Inputs) -> None:
    """Damages a page in the middle of a segment. The file is copied: the backup shares it."""
    segment = _segments(inputs)[0]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.unlink()
    segment.write_bytes(content)


def _remove_segment(inputs: Inputs) -> None:
    _segments(inputs)[0].unlink()


def _upsert(inputs: Inputs) -> None:
    """Fills memtables: a compaction begins with their flush."""
    with idmatch.open(inputs.store) as store:
        files = inputs.files[: max(1, len(inputs.files) // _UPSERTED_SHARE)]
        store.table("t").upsert(files, columns=_COLUMNS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stop long operations in their middle.")
    add = parser.add_argument
    add("--rows", type=parse_count, default=DEFAULT_ROWS, help="rows of the table (default: 20M)")
    add("--only", metavar="NAME,NAME", help="some operations, by the names that are printed")
    add("--seed", type=int, default=7, help="of the moments (default: 7)")
    add("--dir", type=Path, default=data_sets.DEFAULT_DIRECTORY, help="data, store and results")
    add("--other", type=Path, default=Path("/dev/shm"), help="backups (default: /dev/shm)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
