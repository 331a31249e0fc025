"""The systems of the benchmark on servers: how each is started, and what it is asked.

All take the same options and print documents of the same form, whether it is the program in `cql/`
or `cql_peers/worker.py` in a virtual environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cql_peers.base import IN_FLIGHT
from programs import program

Figures = dict[str, Any]

_HERE = Path(__file__).parent
_REASON_CHARACTERS = 300

OURS = "idmatch_bench"
ONE_ROW = "one_row_bench"
SCRATCH = "scratch_bench"


class ContestantFailed(Exception):
    """A system gave no answer; the text says why."""


@dataclass(frozen=True)
class Contestant:
    """One who answers, from which tables, and what it takes part in."""

    name: str
    title: str
    keyspace: str
    steps: tuple[str, ...]
    # Of the program in `cql/`: how it reads, unless that is idmatch's to choose, and how many
    # requests it has in flight.
    read: str = ""
    in_flight: int = 0
    # Of Python: where its virtual environment is, below this folder.
    venv: str = ""
    # Populations that it is asked, in percent of the table; all where none is named.
    only: tuple[str, ...] = ()
    # What tells idmatch how to read; see FORCED.
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, step: str, address: str, *arguments: str) -> list[str]:
        """How a step is run."""
        if self.venv:
            python = _HERE / self.venv / "bin" / "python"
            name = self.name.partition(":")[0]
            return [
                *(str(python), "-m", "cql_peers.worker", step, name),
                *("--address", address, *arguments),
            ]
        if step == "lookups" and not self.read:
            return [*client(address), "ours", *arguments]
        more = ["--read", self.read] if step in ("match", "lookups") else []
        if step in ("match", "load"):
            more += ["--in-flight", str(self.in_flight)]
        return [*client(address), step, *more, *arguments]


# Ways of reading that idmatch is told to take instead of the one that it chooses: a name, and
# the environment that says so (see cql_peers/idmatch_store.py).
FORCED: dict[str, dict[str, str]] = {
    reads: {"BENCH_MATCH_READS": reads} for reads in ("in_queries", "partition_scans")
}

_READS = ("match",)
CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant(
            "idmatch", "idmatch, from Python", OURS, ("load", "match", "lookups"), venv=".venv"
        ),
        Contestant("idmatch-rust", "idmatch, from Rust", OURS, ("lookups",)),
        *(
            Contestant(
                f"idmatch:{name}",
                f"idmatch, match_reads={name}",
                OURS,
                _READS,
                venv=".venv",
                environment=environment,
            )
            for name, environment in FORCED.items()
        ),
        Contestant(
            "driver",
            f"Rust driver, one row a request, {IN_FLIGHT} in flight",
            ONE_ROW,
            ("load", "match", "lookups"),
            read="singles",
            in_flight=IN_FLIGHT,
        ),
        Contestant("pyspark", "idmatch.spark, from PySpark 4", OURS, _READS, venv="../.venv-spark"),
        Contestant("spark", "Spark connector, DirectJoin", ONE_ROW, _READS, venv=".venv-spark"),
        Contestant(
            "spark-scan",
            "Spark connector, whole table",
            ONE_ROW,
            _READS,
            venv=".venv-spark",
            only=("80",),
        ),
        Contestant(
            "dask",
            f"Dask, Python driver, `execute_concurrent` at {IN_FLIGHT}",
            ONE_ROW,
            ("load", "match", "lookups"),
            venv=".venv-dask",
            # The largest takes it ten minutes.
            only=("1", "10"),
        ),
        Contestant(
            "bare-keys",
            "lower bound: one key a request",
            OURS,
            ("match", "lookups"),
            read="keys",
            in_flight=IN_FLIGHT,
        ),
        Contestant(
            "bare-lists", "lower bound: `IN` of 100 keys", OURS, _READS, read="lists", in_flight=64
        ),
        Contestant(
            "bare-buckets",
            "lower bound: partition scans",
            OURS,
            _READS,
            read="buckets",
            in_flight=64,
        ),
        Contestant(
            "bare-ranges", "lower bound: token ranges", OURS, _READS, read="ranges", in_flight=8
        ),
    )
}


def client(address: str) -> list[str]:
    """The program in `cql/`, before its step."""
    return [program("cql"), "--address", address]


def run(
    command: list[str], seconds: float = 3600, environment: dict[str, str] | None = None
) -> Figures:
    """Runs a command and returns what it printed; ends it, and what it started, after so long."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=_HERE,
        env=os.environ | (environment or {}),
        start_new_session=True,
    )
    try:
        printed, said = process.communicate(timeout=seconds)
    except BaseException as reason:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if not isinstance(reason, subprocess.TimeoutExpired):
            raise
        raise ContestantFailed(f"ended after {seconds:.0f} s without an answer") from None
    if process.returncode:
        print(said, file=sys.stderr, flush=True)
        raise ContestantFailed(f"status {process.returncode}, and it said: {_reason(said)}")
    figures: Figures = json.loads(printed.splitlines()[-1])
    return figures


def _reason(said: str) -> str:
    """The last line that names an error, or the last one: a JVM goes on to say where it was."""
    lines = said.strip().splitlines() or ["nothing"]
    errors = [line for line in lines if re.match(r"(: )?[\w.$]*(Error|Exception)\b", line)]
    return (errors or lines)[-1].removeprefix(": ")[:_REASON_CHARACTERS]
