"""`idmatch.dask.match` beside the command line and Dask's own merge; on servers with and without
the shuffle of its population.

    python bench/dask_match.py                               1 M ids x 20 M rows; minutes
    python bench/dask_match.py --population 10M --rows 400M  an hour, about 60 GB of disk
    python bench/dask_match.py --servers --rows 5M --population 500K    on a Cassandra node

In a directory all write Parquet: the command line in one process of its own, Dask in two worker
processes that run already. On servers the partner IDs are counted, at 2 and 30 partitions. Each is
asked in turn, and the first answer is not counted; but the merge, which takes minutes, is asked
once. All answers must agree. A merge that fails is in the results with its reason. Times are in
seconds.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import idmatch
import idmatch.dask
import machine
from data import DEFAULT_DIRECTORY, DEFAULT_SEED, DataSet, prepare
from distributed import Client, LocalCluster
from job_store import TABLE, population_of, prepare_store
from progress import log
from units import parse_count, show_count, show_seconds

_NETWORK, _JMX_PORT = "127.73.64", 7264
_PARTITIONS = (2, 30)
_MERGE = "merge"


def main() -> int:
    """Measures, prints and keeps the figures; 1 where the answers differ."""
    options = _options()
    data = prepare(options.dir, options.rows, options.seed)
    population = population_of(data, options.population)
    work = options.dir / "work" / "dask-match"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        with cluster, Client(cluster):
            measure = _on_servers if options.servers else _in_a_directory
            found = measure(options, data, population, work)
    finally:
        shutil.rmtree(work)
    sizes = f"{show_count(options.population)}-{show_count(options.rows)}"
    name = f"results-dask-{'servers-' if options.servers else ''}{sizes}.json"
    document = {
        "about": {
            "machine": machine.describe(options.dir),
            "command": shlex.join(["python", "bench/dask_match.py", *sys.argv[1:]]),
            "date": datetime.now(UTC).date().isoformat(),
            "idmatch": idmatch.__version__,
            "dask": dask.__version__,
        },
        **found,
    }
    (options.dir / name).write_text(json.dumps(document, indent=2) + "\n")
    answers = {tuple(figures["answer"]) for figures in found.values() if "answer" in figures}
    if len(answers) > 1:
        log(f"the answers differ: {sorted(answers)}")
        return 1
    return 0


def _in_a_directory(
    options: argparse.Namespace, data: DataSet, population: Path, work: Path
) -> dict[str, dict[str, Any]]:
    path, out = str(options.store or work / "store"), work / "out"
    prepare_store(Path(path), data)
    program = str(Path(sys.executable).with_name("idmatch"))
    command = [program, "match", path, TABLE, str(population)]

    def by_command() -> None:
        out.mkdir()
        file = str(out / "all.parquet")
        subprocess.run([*command, "-o", file], check=True, stdout=subprocess.DEVNULL)

    def by_dask() -> None:
        people = dd.read_parquet(population)
        idmatch.dask.match(people, path, TABLE, column="id").to_parquet(out)

    def by_merge() -> None:
        rows = dd.read_parquet([str(file) for file in data.files])
        dd.read_parquet(population).merge(rows, on="id").to_parquet(out)

    asked: dict[str, Callable[[], Any]] = {"command line": by_command, "idmatch.dask": by_dask}
    if not options.no_merge:
        asked[_MERGE] = by_merge
    return _measured(
        asked,
        options.runs,
        lambda _: _checksum(out),
        lambda: shutil.rmtree(out, ignore_errors=True),
    )


def _on_servers(
    options: argparse.Namespace, data: DataSet, population: Path, work: Path
) -> dict[str, dict[str, Any]]:
    from cql_node import Node

    with Node(work / "node", _NETWORK, 4 << 30, _JMX_PORT, False) as node:
        address = f"cql://{node.address}/dask?replication=1"
        with idmatch.open(address) as store:
            store.create_table(TABLE, expected_rows=options.rows).load(
                [str(file) for file in data.files]
            )
        node.flush()
        node.compact("dask")

        def count(partitions: int, repartition: bool) -> int:
            people = dd.read_parquet(population).repartition(npartitions=partitions)
            found = idmatch.dask.match(people, address, TABLE, column="id", repartition=repartition)
            return int(found["partner_id"].count().compute())

        asked = {
            f"{partitions} partitions, {'shuffled' if shuffled else 'as they are'}": partial(
                count, partitions, shuffled
            )
            for partitions in _PARTITIONS
            for shuffled in (False, True)
        }
        return _measured(asked, options.runs, lambda rows: (rows,), lambda: None)


def _measured(
    asked: Mapping[str, Callable[[], Any]],
    runs: int,
    answer: Callable[[Any], tuple[int, ...]],
    clear: Callable[[], None],
) -> dict[str, dict[str, Any]]:
    """A warm-up and some runs of each, in turn, and one run of the merge; or why one failed."""
    found: dict[str, dict[str, Any]] = {name: {"times": []} for name in asked}
    for run in range(runs + 1):
        for name, ask in asked.items():
            figures = found[name]
            if "failed" in figures or (run and name == _MERGE):
                continue
            clear()
            began = time.perf_counter()
            try:
                given = ask()
            except Exception as error:
                log(f"{name}: FAILED: {error}")
                figures["failed"] = f"{type(error).__name__}: {str(error)[:1000]}"
                continue
            seconds = time.perf_counter() - began
            log(f"{name}: {show_seconds(seconds)}{'' if run else ' (first)'}")
            if run or name == _MERGE:
                figures["times"].append(seconds)
            if not run:
                figures |= {"warm_up": seconds, "answer": answer(given)}
    clear()
    for name, figures in found.items():
        if figures["times"]:
            figures["median"] = statistics.median(figures["times"])
            log(f"{name}: median {show_seconds(figures['median'])}")
    return found


def _checksum(folder: Path) -> tuple[int, ...]:
    """Rows, and a sum over their values that does not depend on their order."""
    import duckdb

    hashes = "hash(id, partner_id, epoch_ms(seen_at))"
    query = f"SELECT count(*), sum({hashes} % 4294967296) FROM '{folder}/*.parquet'"
    rows, total = duckdb.execute(query).fetchall()[0]
    return int(rows), int(total or 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=parse_count, default=20_000_000)
    parser.add_argument("--population", type=parse_count, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--servers", action="store_true", help="with and without the shuffle")
    parser.add_argument(
        "--store", type=Path, help="a store that is kept; default: one for this run"
    )
    parser.add_argument("--no-merge", action="store_true", help="leaves out Dask's own merge")
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
