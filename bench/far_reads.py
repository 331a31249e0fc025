"""A match of one population: from a local file, from HDFS, and from a table of Hive in each way.

    python bench/far_reads.py                      1 M rows; minutes
    python bench/far_reads.py --population 10M     a quarter of an hour, about 4 GB of disk

Starts HDFS (two namenodes, three datanodes) and Hive on this machine. The table that is matched is
empty, so that the time is that of reading. The peer of rows that come over the connection is a loop
that fetches the same batches with impyla and drops them. Each is asked in turn, and the first time
is not counted; all must count the same rows. Times are in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import fsspec
import idmatch
import impala
import machine
from data import DEFAULT_DIRECTORY
from idmatch._lab import Hdfs, Hive
from impala.dbapi import connect
from progress import log
from units import parse_count, show_count, show_seconds

_NETWORK = "127.73.65"
_FOLDER = "/bench/people"


def main() -> int:
    """Measures, prints and keeps the figures."""
    options = _options()
    work = options.dir / "work" / "far-reads"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    hdfs, hive = Hdfs(work / "hdfs", log, _NETWORK), Hive(work / "hive", log, _NETWORK)
    os.environ.update(hdfs.environment)
    try:
        local = _population(work, options.population)
        hdfs.start()
        hive.start()
        _put(local, hdfs)
        found = _measured(options, local, hive.address.rpartition("/")[0], work)
    finally:
        hive.stop()
        hdfs.stop()
        shutil.rmtree(work)
    document = {
        "about": {
            "machine": machine.describe(options.dir),
            "command": shlex.join(["python", "bench/far_reads.py", *sys.argv[1:]]),
            "date": datetime.now(UTC).date().isoformat(),
            "idmatch": idmatch.__version__,
            "impyla": impala.__version__,
        },
        "seconds": found,
    }
    path = options.dir / f"results-far-reads-{show_count(options.population)}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    log(f"kept in {path}")
    return 0


def _population(work: Path, rows: int) -> Path:
    """A file of two columns of 32 hexadecimal digits."""
    path = work / "people.parquet"
    duckdb.sql(
        "COPY (SELECT md5(range::VARCHAR) AS id, md5('p' || range) AS partner_id"
        f" FROM range({rows})) TO '{path}' (FORMAT parquet, COMPRESSION snappy)"
    )
    return path


def _put(local: Path, hdfs: Hdfs) -> None:
    host, port = hdfs.web_address(hdfs.active or 1).removeprefix("webhdfs://").split(":")
    files = fsspec.filesystem("webhdfs", host=host, port=int(port), user="root")
    files.makedirs(_FOLDER)
    files.put_file(str(local), f"{_FOLDER}/people.parquet")


def _measured(
    options: argparse.Namespace, local: Path, hive: str, work: Path
) -> dict[str, dict[str, float]]:
    host = f"{_NETWORK}.3"
    with closing(connect(host, 10000, auth_mechanism="PLAIN", user="root")) as server:
        server.cursor().execute(
            "CREATE EXTERNAL TABLE people (id STRING, partner_id STRING) STORED AS PARQUET"
            f" LOCATION '{_FOLDER}'"
        )

    def fetched_and_dropped() -> int:
        rows = 0
        with (
            closing(connect(host, 10000, auth_mechanism="PLAIN", user="root")) as server,
            closing(server.cursor(convert_types=False, convert_strings_to_unicode=False)) as cursor,
        ):
            cursor.arraysize = 50_000
            cursor.execute("SELECT id FROM people")
            while (batch := cursor.fetchcbatch()) is not None:
                rows += len(batch)
        return rows

    with idmatch.open(work / "store") as store:
        table = store.create_table("t")

        def matched(source: str) -> Callable[[], int]:
            return lambda: table.match(source, column="id").population

        asked = {
            "local file": matched(str(local)),
            "hdfs": matched(f"hdfs://lab{_FOLDER}/people.parquet"),
            "hive, files": matched(f"{hive}/default/people?via=files"),
            "hive, unload": matched(f"{hive}/default/people?via=unload"),
            "hive, rows": matched(f"{hive}/default/people?via=rows"),
            "rows fetched and dropped": fetched_and_dropped,
        }
        seconds: dict[str, list[float]] = {name: [] for name in asked}
        for run in range(options.runs + 1):
            for name, ask in asked.items():
                began = time.perf_counter()
                rows = ask()
                took = time.perf_counter() - began
                if rows != options.population:
                    raise SystemExit(f"{name}: {rows:,} rows")
                if run:
                    seconds[name].append(took)
    found = {}
    for name, taken in seconds.items():
        found[name] = {"median": statistics.median(taken), "least": min(taken), "most": max(taken)}
        log(f"{name}: {show_seconds(found[name]['median'])}")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY)
    parser.add_argument("--population", type=parse_count, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
