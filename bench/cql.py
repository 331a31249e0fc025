"""Measures idmatch on a Cassandra node beside its peers, and keeps the figures as JSON.

    python bench/cql.py                  5 M rows, everything; more than an hour, and 15 GB of disk
    python bench/cql.py --rows 200k --warm-up-requests 100k --warm-up-seconds 1 --rounds 1
                                         the same, small; minutes
    python bench/cql.py --keep           keeps the node's files; the next run takes its tables

One Cassandra node and one client at a time share the processors of this machine. In the results,
times are in seconds:

    about      machine, commands, date, rows, populations, the node's version and settings
    warm_up    rows and reads before the first figure, not counted
    load       system -> its runs, in rounds; flush and compaction after each
    match      system -> population, in percent of the rows -> its runs; version and settings
    lookups    system -> its runs, each of many lookups one after the other
    hot        the newest values of a hot key
    skipped    what gave no figure, and why

A wrong answer ends the run with exit code 1; so does idmatch when it gives none.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import cql_node
import cql_questions
import data as data_sets
import machine
from cql_programs import CONTESTANTS, Figures, client, run
from cql_questions import Questions
from cql_steps import Bench, WrongAnswer
from programs import program
from progress import log
from units import parse_count, parse_names, show_count

DEFAULT_ROWS = 5_000_000
STEPS = ("load", "match", "lookups", "hot")


def main() -> int:
    """Runs what the command line asks for; returns the exit code."""
    options = _options()
    options.dir.mkdir(parents=True, exist_ok=True)
    questions = cql_questions.prepare(
        *(options.dir, options.rows, options.seed, options.matching, options.lookups),
        options.populations,
    )
    name = f"results-cql-{show_count(options.rows)}-seed{options.seed}.json"
    path: Path = options.results or options.dir / name
    document: Figures = json.loads(path.read_text()) if path.exists() else {}
    program("cql")  # built before anything is measured
    folder = options.dir / "work" / "cql"
    try:
        with cql_node.Node(
            folder, options.network, options.heap, options.jmx_port, options.keep
        ) as node:
            document["about"] = _about(options, questions, document, node)
            _run(options, Bench(options, node, questions, document, path))
    except WrongAnswer as wrong:
        log(f"WRONG ANSWER: {wrong}")
        return 1
    log(f"results: {path}")
    missing = [step for step in document.get("skipped", {}) if "idmatch" in step or step == "hot"]
    return 1 if missing else 0


def _run(options: argparse.Namespace, bench: Bench) -> None:
    """The steps that are wanted, each after what it needs as a warm-up."""
    if "load" in options.steps:
        bench.warm_up_writes()
        bench.load(options.only)
    if {"match", "lookups"} & set(options.steps):
        bench.warm_up_reads()
    for step in ("match", "lookups", "hot"):
        if step in options.steps:
            getattr(bench, step)(options.only)


def _about(
    options: argparse.Namespace, questions: Questions, document: Figures, node: cql_node.Node
) -> Figures:
    command = shlex.join(["python", "bench/cql.py", *sys.argv[1:]])
    is_whole = (options.only, options.steps) == (list(CONTESTANTS), list(STEPS))
    earlier = [] if is_whole else document.get("about", {}).get("commands", [])
    settings = run([*client(node.address), "server", *cql_node.SHOWN])
    return {
        "machine": machine.describe(options.dir),
        "commands": [*(one for one in earlier if one != command), command],
        "date": datetime.now(UTC).date().isoformat(),
        "rows": options.rows,
        "seed": options.seed,
        "matching_percent": options.matching,
        "populations": {question.name: question.rows for question in questions.matches},
        "lookups": questions.lookups.rows,
        "warm_up_requests": options.warm_up_requests,
        "warm_up_seconds": options.warm_up_seconds,
        "slow_load_percent": options.slow_load_percent,
        "node": (
            settings | {"heap_bytes": options.heap, "java_options": list(cql_node.JAVA_OPTIONS)}
        ),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure idmatch and its peers on Cassandra.")
    add = parser.add_argument
    add("--rows", type=parse_count, default=DEFAULT_ROWS, help="rows of the table (default: 5M)")
    add("--matching", type=int, default=data_sets.MATCHING_PERCENT, help="percent that are found")
    add(
        "--populations",
        type=parse_names(tuple(map(str, range(1, 101)))),
        default=list(cql_questions.PERCENTAGES),
        help="sizes of the populations, in percent of the rows",
    )
    add("--lookups", type=parse_count, default=5_000, help="single lookups of a run")
    add("--values", type=parse_count, default=10**6, help="values of the hot key")
    add("--rounds", type=int, default=3, help="in which the systems take turns")
    add("--runs", type=int, default=3, help="measured runs of each figure in a round")
    add("--load-runs", type=int, default=3, help="measured loads of each system")
    add(
        "--seconds", type=float, default=40, help="start no further run of a figure after this long"
    )
    add(
        "--warm-up-requests",
        type=parse_count,
        default=1_500_000,
        help="rows written at first, discarded",
    )
    add("--warm-up-seconds", type=float, default=15, help="of each system, discarded too")
    add("--slow-load-percent", type=int, default=10, help="rows that the slow ones load")
    add("--give-up-after", type=float, default=3600, help="end a system that takes longer")
    add("--only", type=parse_names(tuple(CONTESTANTS)), default=list(CONTESTANTS))
    add("--steps", type=parse_names(STEPS), default=list(STEPS), help=f"of {','.join(STEPS)}")
    add("--network", default="127.73.35", help="first three numbers of the node's address")
    add("--jmx-port", type=int, default=7235)
    add("--heap", type=parse_count, default=4 << 30, help="of the node, in bytes")
    add("--dir", type=Path, default=data_sets.DEFAULT_DIRECTORY, help="data, node and results")
    add("--seed", type=int, default=data_sets.DEFAULT_SEED)
    add("--keep", action="store_true", help="keep the tables, and use kept ones")
    add("--results", type=Path, help="the results file (default: in --dir)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
