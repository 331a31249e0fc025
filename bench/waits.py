"""How long a single upsert and a single erasure wait beside verify, backup and compaction.

    python bench/waits.py                12 M rows; minutes, and about 5 GB of disk
    python bench/waits.py --rows 1M      the same, small

One thread upserts single rows and another erases single ids, each durable, while three threads
verify, back up and compact the same table over and over. Before each compaction, batches fill the
memtables: a full one is flushed while it takes upserts, and the rest by the compaction. No wait may
reach a second: the exit code is 1 where one does. The program is in `waits/`. Rows, store and
backups are made anew and removed at the end; the results stay as JSON. Times are in seconds, files
in bytes.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
from programs import program
from progress import log
from units import parse_count, show_bytes, show_count, show_seconds

DEFAULT_DIRECTORY = Path("/var/tmp/idmatch-bench")
DEFAULT_ROWS = 12_000_000
LONGEST_SECONDS = 1.0
# The store, what compactions write beside it, and what a snapshot keeps meanwhile.
_DISK_BYTES_PER_ROW = 400

Figures = dict[str, Any]


def main() -> int:
    """Measures, prints and keeps the figures; 1 when a write waited too long."""
    options = _options()
    work: Path = options.dir / "work" / "waits"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if not machine.has_disk(work, options.rows * _DISK_BYTES_PER_ROW):
        return 2
    try:
        found = _run(work, options)
    finally:
        shutil.rmtree(work)
    document = {
        "about": {
            "machine": machine.describe(options.dir),
            "command": shlex.join(["python", "bench/waits.py", *sys.argv[1:]]),
            "date": datetime.now(UTC).date().isoformat(),
        }
    } | found
    path = options.dir / f"results-waits-{show_count(options.rows)}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(_page(document))
    log(f"results: {path}")
    longest = max(found[write]["longest"] for write in ("upsert", "erase"))
    return 1 if longest >= LONGEST_SECONDS else 0


def _run(work: Path, options: argparse.Namespace) -> Figures:
    command = [program("waits"), str(work), str(options.rows), str(options.seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def _page(document: Figures) -> str:
    about = document["about"]
    system = about["machine"]
    lines = [
        f"{about['date']}, {system['processors']} x {system['processor']},"
        f" {show_bytes(system['memory_bytes'])}: {about['command']}",
        f"{show_count(document['rows'])} rows, {show_bytes(document['bytes'])},"
        f" loaded in {show_seconds(document['load_seconds'])}",
    ]
    for kind in ("verify", "backup", "compact"):
        times = document[kind]
        lines.append(f"{kind}: {len(times)} times, the longest {show_seconds(max(times))}")
    for write in ("upsert", "erase"):
        figures = document[write]
        shown = ", ".join(
            f"{name} {show_seconds(figures[name])}" for name in ("median", "p99", "p999", "longest")
        )
        lines.append(f"{write}: {figures['count']:,} single ones, {shown}")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time single writes beside maintenance.")
    add = parser.add_argument
    add("--rows", type=parse_count, default=DEFAULT_ROWS, help="rows of the table (default: 12M)")
    add("--seconds", type=float, default=60, help="least time of the maintenance (default: 60)")
    add("--dir", type=Path, default=DEFAULT_DIRECTORY, help="store, backups and results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
