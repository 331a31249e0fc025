"""What written results take: seconds, and the peak of a process's anonymous memory.

    python bench/outputs.py                100 M rows, a population of 10 M; about 15 GB of disk
    python bench/outputs.py --rows 1M      the same, small: a minute
    python bench/outputs.py --cold         the same, each with an empty page cache; root

Each match runs in a process of its own, which writes the result as Parquet without compression:

    plain      the pairs and their dates
    carried    the same beside five columns of the population
    chain      by id, and with the partner IDs back to ids
    by hand    the same as two matches, with a file of Parquet between

The population is a tenth of the rows, at most 10 M. The matches run in turn, in each second round
backwards: each finds in the page cache what the one before it read. The first round counts for
memory, and not for seconds. The exit code is 1 where rows are missing, where `carried` takes
more than 2 GB, or where `chain` takes more than 1.3 times what `by hand` takes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shlex
import shutil
import statistics
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import heat
import idmatch
import machine
import pyarrow.parquet as pq
from data import DEFAULT_DIRECTORY, DEFAULT_SEED, POPULATION_ROWS, prepare
from job_store import TABLE, prepare_store
from progress import log
from sampling import Peak, Sampler, private_bytes
from units import parse_count, show_bytes, show_count, show_seconds

DEFAULT_ROWS = 100_000_000
# What carried columns of 10 M rows may take: they are spilled, so it does not grow with them.
MOST_CARRIED_BYTES = 2_000_000_000
# What a chain may take of the two matches by hand.
MOST_CHAIN_RATIO = 1.3
_SAMPLE_SECONDS = 0.005
# The store, and what a load writes beside it; the results of a match.
_DISK_BYTES_PER_ROW = 90
_DISK_BYTES_OF_RESULTS = 4_000_000_000
_QUESTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "carried": {"carry": "all"},
    "chain": {"then": [{"table": TABLE, "by": "partner_id"}]},
    "by hand": {},
}


@dataclass
class Taken:
    """What the runs of one match took; `counts` are of all of them."""

    match: list[float] = field(default_factory=list)
    write: list[float] = field(default_factory=list)
    bytes: Peak = field(default_factory=Peak)
    counts: set[tuple[int, ...]] = field(default_factory=set)

    def figures(self) -> dict[str, Any]:
        """The medians, the peak, and the rows that were written."""
        return {
            "match": statistics.median(self.match),
            "write": statistics.median(self.write),
            "private_bytes": self.bytes.value,
            "rows": max(written for *_, written in self.counts),
        }


def main() -> int:
    """Measures, prints and keeps the figures; 1 where rows are missing or memory is not kept."""
    options = _options()
    work: Path = options.dir / "work" / "outputs"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    people = min(POPULATION_ROWS, options.rows // 10)
    data = prepare(options.dir, options.rows, options.seed, population_rows=people)
    store = options.store or work / "store"
    is_loaded = (store / "MANIFEST").exists()
    needed = 0 if is_loaded else options.rows * _DISK_BYTES_PER_ROW
    if not machine.has_disk(work, needed + min(_DISK_BYTES_OF_RESULTS, options.rows * 100)):
        return 2
    if options.cold and not heat.can_drop_page_cache():
        log("--cold empties the page cache, for which it needs root")
        return 2
    try:
        prepare_store(store, data)
        population = _with_columns(data.population, work / "population.parquet")
        files = (store, population, work / "result.parquet")
        taken = _measured(files, options.runs, cold=options.cold)
    finally:
        shutil.rmtree(work)
    figures = {name: one.figures() for name, one in taken.items()}
    document = {
        "about": {
            "machine": machine.describe(options.dir),
            "command": shlex.join(["python", "bench/outputs.py", *sys.argv[1:]]),
            "date": datetime.now(UTC).date().isoformat(),
            "idmatch": idmatch.__version__,
        },
        "rows": options.rows,
        "cold": options.cold,
        "population": people,
        "chain_ratio": _chain_ratio(taken),
        "chain_ratios": sorted(_chain_ratios(taken)),
    } | figures
    cold = "-cold" if options.cold else ""
    path = options.dir / f"results-outputs-{show_count(options.rows)}{cold}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    for name, one in figures.items():
        print(
            f"{name}: match {show_seconds(one['match'])}, write {show_seconds(one['write'])},"
            f" {show_bytes(one['private_bytes'])} of memory, {show_count(one['rows'])} rows"
        )
    print(f"chain / by hand: {document['chain_ratio']:.3f}")
    log(f"results: {path}")
    return 1 if _faults(taken, people) else 0


def _chain_ratio(taken: dict[str, Taken]) -> float:
    """The median, over the rounds, of what a chain took of the two matches by hand."""
    return statistics.median(_chain_ratios(taken))


def _chain_ratios(taken: dict[str, Taken]) -> list[float]:
    chain, by_hand = taken["chain"], taken["by hand"]
    rounds = zip(chain.match, chain.write, by_hand.match, by_hand.write, strict=True)
    return [(a + b) / (c + d) for a, b, c, d in rounds]


def _faults(taken: dict[str, Taken], people: int) -> list[str]:
    """What is not as it must be, said aloud too."""
    counts = {name: one.counts for name, one in taken.items()}
    faults = [
        f"{name} counted {population:,} people and {rows:,} rows, and wrote {written:,}"
        for name, found in counts.items()
        for population, _, rows, written in found
        if (population, rows) != (people, written)
    ]
    # The first table answers all of them alike.
    if len({first for found in counts.values() for _, first, *_ in found}) != 1:
        faults.append("the matches do not agree about the first table's rows")
    if counts["chain"] != counts["by hand"]:
        faults.append("a chain gives other rows than two matches by hand")
    if _chain_ratio(taken) > MOST_CHAIN_RATIO:
        faults.append(f"a chain took {_chain_ratio(taken):.2f} times the two matches by hand")
    most = taken["carried"].bytes.value
    if most > MOST_CARRIED_BYTES:
        faults.append(f"carried columns took {show_bytes(most)} of memory")
    for fault in faults:
        log(fault)
    return faults


def _with_columns(ids: Path, path: Path) -> Path:
    """The population with five more columns."""
    import duckdb  # here, so that the processes that are measured do not load it

    with duckdb.connect(config={"threads": 2, "memory_limit": "4GB"}) as connection:
        connection.execute(f"""
            COPY (
                SELECT id,
                    'campaign ' || (draw % 50) AS campaign,
                    (draw % 100)::INTEGER AS age,
                    draw / 1e19 AS score,
                    make_timestamp_ms(1760000000000 + (draw % 30000000000)::BIGINT) AS clicked_at,
                    md5('page' || id) AS page
                FROM (SELECT id, md5_number_lower(id) AS draw FROM read_parquet('{ids}'))
            ) TO '{path}' (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 1000000)
        """)
    return path


def _measured(files: tuple[Path, Path, Path], runs: int, *, cold: bool) -> dict[str, Taken]:
    """Runs all matches once for memory, and `runs` times for seconds."""
    taken = {name: Taken() for name in _QUESTIONS}
    out = files[2]
    for run in range(runs + 1):
        for name in list(taken)[:: -1 if run % 2 else 1]:
            one = taken[name]
            if cold:
                heat.drop_page_cache()
            seconds, counts = _watched(name, files, one.bytes)
            one.counts.add((*counts, pq.read_metadata(out).num_rows))
            out.unlink()
            if run:
                one.match.append(seconds[0])
                one.write.append(seconds[1])
            log(f"{name}, run {run}: {', '.join(map(show_seconds, seconds))}")
    return taken


def _watched(
    name: str, files: tuple[Path, Path, Path], peak: Peak
) -> tuple[tuple[float, float], tuple[int, ...]]:
    """Runs one match in a process of its own; `peak` sees its memory."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_match, args=(name, files, theirs))
    process.start()
    theirs.close()
    pid = process.pid
    assert pid
    with Sampler(lambda: peak.see(private_bytes(pid)), _SAMPLE_SECONDS):
        try:
            seconds, counts = ours.recv()
        finally:
            process.join()
    return seconds, counts


def _match(name: str, files: tuple[Path, Path, Path], answer: Connection) -> None:
    """Sends the seconds of the match and of the write, and what it counted."""
    path, population, out = files
    with idmatch.open(path, read_only=True) as store:
        table = store.table(TABLE)
        began = time.perf_counter()
        result = table.match(population, column="id", **_QUESTIONS[name])
        matched = time.perf_counter()
        result.write_parquet(out)
        written = time.perf_counter()
        seconds = (matched - began, written - matched)
        counts = (result.population, result.hops[0].rows, result.rows)
        if name == "by hand":
            between = out.with_name("between.parquet")
            out.rename(between)
            began = time.perf_counter()
            back = table.match(between, column="partner_id", by="partner_id")
            matched = time.perf_counter()
            back.write_parquet(out)
            seconds = (seconds[0] + matched - began, seconds[1] + time.perf_counter() - matched)
            counts = (*counts[:2], back.rows)
            between.unlink()
    answer.send((seconds, counts))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rows", type=parse_count, default=DEFAULT_ROWS, help="rows of the table (default: 100M)")
    add("--runs", type=int, default=3, help="rounds that count for seconds (default: 3)")
    add("--cold", action="store_true", help="empty the page cache before each match; root")
    add("--seed", type=int, default=DEFAULT_SEED)
    add("--store", type=Path, help="a store that is kept; filled if it is empty")
    add("--dir", type=Path, default=DEFAULT_DIRECTORY, help="data, store and results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
