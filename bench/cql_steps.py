"""The steps of the benchmark on servers: loading, matching, lookups, a hot key."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from cql_node import Node
from cql_peers import hot
from cql_peers.base import Answer
from cql_programs import (
    CONTESTANTS,
    ONE_ROW,
    OURS,
    SCRATCH,
    Contestant,
    ContestantFailed,
    Figures,
    client,
    run,
)
from cql_questions import Question, Questions
from programs import driver_version
from progress import log
from units import show_count, show_seconds

# Who fills the tables of a keyspace.
_OWNERS = {OURS: "idmatch", ONE_ROW: "driver"}
_NEWEST = 10
# The server is warmed up this many times as long as a system.
WARM_UPS = 4


class WrongAnswer(Exception):
    """An answer differs from the data."""


class Bench:
    """The node, the questions, and the document that keeps what came of them."""

    def __init__(
        self,
        options: argparse.Namespace,
        node: Node,
        questions: Questions,
        document: Figures,
        path: Path,
    ) -> None:
        self._options, self._node, self._questions = options, node, questions
        self._document, self._path = document, path
        self._filled: dict[str, Sequence[Path]] = {}

    def warm_up_writes(self) -> None:
        """Lets the server compile what writes: the same number of rows in both ways of writing,
        which nobody counts.
        """
        data = self._questions.data
        files = data.files[: math.ceil(self._options.warm_up_requests / 2 / data.rows_per_file)]
        for name in _OWNERS.values():
            self._record(partial(self._load, name, SCRATCH, files), "warm_up", f"{name} load")
        self._drop(SCRATCH)

    def warm_up_reads(self) -> None:
        """The same for reads, for as long each: single keys, IN queries, partition scans."""
        seconds = WARM_UPS * self._options.warm_up_seconds
        for name in ("driver", "bare-lists", "bare-buckets"):
            self._record(
                partial(self._match, name, [self._questions.warm_up], sys.maxsize, seconds, {}),
                "warm_up",
                f"{name} match",
            )

    def load(self, names: Iterable[str]) -> None:
        """Loads new tables, several times, one system after the other."""
        kept: dict[str, list[Figures]] = {}
        contestants = [CONTESTANTS[name] for name in names if "load" in CONTESTANTS[name].steps]
        for number in range(self._options.load_runs):
            for contestant in contestants:
                name, files = contestant.name, self._files(contestant)
                keyspace = contestant.keyspace if name in _OWNERS.values() else SCRATCH

                def measure(
                    name: str = name, keyspace: str = keyspace, files: Sequence[Path] = files
                ) -> Figures:
                    kept.setdefault(name, []).append(self._load(name, keyspace, files))
                    return _load_figures(kept[name])

                self._record(measure, "load", name, f"run {number + 1}")
                self._drop(SCRATCH)

    def match(self, names: Iterable[str]) -> None:
        """Matches the populations, in rounds, because the server and the machine change with time.
        Who had its seconds with a population is not asked for it again.
        """
        kept: dict[str, Figures] = {name: {} for name in names}
        for number in range(self._options.rounds):
            for name in _in_turn(kept, number):
                before = kept[name]
                asked = [
                    question
                    for question in self._questions.matches
                    if self._is_asked(CONTESTANTS[name], question, before)
                ]

                def measure(
                    name: str = name, asked: list[Question] = asked, before: Figures = before
                ) -> Figures:
                    runs, seconds = self._options.runs, self._options.seconds
                    before |= self._match(name, asked, runs, seconds, before)
                    return before

                if asked:
                    self._record(measure, "match", name, f"round {number + 1}")

    def _is_asked(self, contestant: Contestant, question: Question, before: Figures) -> bool:
        if "match" not in contestant.steps:
            return False
        if contestant.only and question.name not in contestant.only:
            return False
        taken: list[float] = before.get(question.name, {}).get("seconds", [])
        return bool(sum(taken) < self._options.seconds)

    def lookups(self, names: Iterable[str]) -> None:
        """Asks for one id after the other, in rounds, so that all meet the same conditions."""
        kept: dict[str, list[Figures]] = {}
        for number in range(self._options.rounds):
            for name in _in_turn(names, number):
                if "lookups" not in CONTESTANTS[name].steps:
                    continue

                def measure(name: str = name) -> Figures:
                    found = self._lookups(name)
                    kept.setdefault(name, []).extend(found["runs"])
                    return found | _lookup_figures(kept[name])

                self._record(measure, "lookups", name, f"round {number + 1}")

    def hot(self, names: Iterable[str]) -> None:
        """The newest values of a hot key."""
        if "idmatch" not in names:
            return
        values, idmatch = self._options.values, CONTESTANTS["idmatch"]

        def measure() -> Figures:
            self._drop(SCRATCH)
            loaded = self._ask(idmatch, "load-hot", SCRATCH, "--values", str(values))
            loaded |= self._settle()
            found = self._ask(idmatch, "newest", SCRATCH, *self._run_limits())
            expected = hot.newest(values, _NEWEST)
            for one in found["warm_up"] + found["runs"]:
                if one["newest"] != expected:
                    raise WrongAnswer(f"hot: {one['newest']} and not {expected}")
            return {
                "values": values,
                "load": loaded,
                "first": found["warm_up"][0]["seconds"],
                **_timing([one["seconds"] for one in found["runs"]]),
            }

        self._record(measure, "hot")
        self._drop(SCRATCH)

    def _match(
        self, name: str, asked: list[Question], runs: int, seconds: float, before: Figures
    ) -> Figures:
        contestant = CONTESTANTS[name]
        self._fill(contestant.keyspace)
        warm = self._questions.warm_up
        found = self._ask(
            contestant,
            "match",
            contestant.keyspace,
            *("--warm-up", str(warm.file)),
            *self._run_limits(runs, seconds),
            *(str(question.file) for question in asked),
        )
        _check(f"{name}: warm-up", found["warm_up"], warm.expected)
        figures: Figures = {
            "version": found.get("version") or f"scylla {driver_version()}",
            "settings": found.get("settings") or {"in flight": str(found["in_flight"])},
            "warm_up": [one["seconds"] for one in found["warm_up"]],
        }
        plans = found.get("plans") or [[]] * len(asked)
        for question, answers, plan in zip(asked, found["populations"], plans, strict=True):
            _check(f"{name}: {question.name} %", answers, question.expected)
            earlier: list[float] = before.get(question.name, {}).get("seconds", [])
            timing = _timing(earlier + [one["seconds"] for one in answers])
            figures[question.name] = timing | {
                "population": question.rows,
                "rows": question.expected.rows,
                "requests": answers[0].get("requests"),
                "plan": plan,
                "rows_per_second": question.rows / timing["median"],
            }
        return figures

    def _lookups(self, name: str) -> Figures:
        question = self._questions.lookups
        contestant = CONTESTANTS[name]
        self._fill(contestant.keyspace)
        found = self._ask(
            contestant, "lookups", contestant.keyspace, *self._run_limits(), str(question.file)
        )
        for one in found["warm_up"] + found["runs"]:
            if (one["lookups"], one["rows"]) != (question.rows, question.expected.rows):
                raise WrongAnswer(f"{name}: lookups: {one} and not {question.expected}")
        return found

    def _load(self, name: str, keyspace: str, files: Sequence[Path]) -> Figures:
        """One load, after which the tables are on disk, at rest, and checked."""
        self._drop(keyspace)
        self._filled.pop(keyspace, None)
        loaded = self._ask(CONTESTANTS[name], "load", keyspace, *map(str, files))
        figures = loaded | self._settle()
        expected = self._questions.loaded(files)
        self._count(name, keyspace, expected)
        if keyspace != SCRATCH:
            self._compact(keyspace)
        self._filled[keyspace] = files
        return figures | {"rows": expected.rows}

    def _count(self, name: str, keyspace: str, expected: Answer) -> None:
        layout = "bucketed" if name == "idmatch" else "one-row"
        counted = self._run("count", "--layout", layout, keyspace)
        _check(f"{name}: what was loaded", counted["directions"], expected)

    def _fill(self, keyspace: str) -> None:
        """Sees to it that all rows are in a keyspace."""
        if keyspace in self._filled:
            return
        files = self._questions.data.files
        if self._options.keep and self._is_there(keyspace):
            self._compact(keyspace)
            self._filled[keyspace] = files
            return
        log(f"filling {keyspace}")
        self._load(_OWNERS[keyspace], keyspace, files)

    def _is_there(self, keyspace: str) -> bool:
        expected = self._questions.loaded(self._questions.data.files)
        try:
            self._count(_OWNERS[keyspace], keyspace, expected)
        except (ContestantFailed, WrongAnswer):
            return False
        return True

    def _settle(self) -> Figures:
        """What a load leaves to be done: to be written from memory, and to be compacted."""
        flush = self._node.flush()
        return {"flush_seconds": flush, "settled_seconds": self._run("settled")["seconds"]}

    def _compact(self, keyspace: str) -> None:
        """It is a matter of chance whether the last rows of a load are merged with the others or
        stay in a file of their own, where they make a match of most of a table an eighth slower.
        """
        self._node.compact(keyspace)

    def _drop(self, keyspace: str) -> None:
        self._run("drop", keyspace)

    def _files(self, contestant: Contestant) -> Sequence[Path]:
        """The match files of a load: some, where one is so slow that all of them take too long."""
        files = self._questions.data.files
        if contestant.name in _OWNERS.values():
            return files
        return files[: max(1, len(files) * self._options.slow_load_percent // 100)]

    def _run_limits(self, runs: int | None = None, seconds: float | None = None) -> list[str]:
        options = self._options
        seconds = options.seconds if seconds is None else seconds
        return [
            *("--runs", str(runs or options.runs), "--seconds", str(seconds)),
            *("--warm-up-seconds", str(options.warm_up_seconds)),
        ]

    def _run(self, step: str, *arguments: str) -> Figures:
        return run([*client(self._node.address), step, *arguments])

    def _ask(self, contestant: Contestant, step: str, keyspace: str, *arguments: str) -> Figures:
        rows = ["--rows", str(self._questions.data.rows)] if contestant.venv else []
        command = contestant.command(
            step, self._node.address, "--keyspace", keyspace, *rows, *arguments
        )
        return run(command, self._options.give_up_after, contestant.environment)

    def _record(self, measure: Callable[[], Figures], part: str, *names: str) -> None:
        """Puts what a step gave into the document, or why it gave nothing; what is named after
        the first name is for those who look on.
        """
        title, key = " ".join((part, *names)), names[0] if names else ""
        stamp: Figures = {
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "load_before": os.getloadavg()[0],
        }
        skipped, began = self._document.setdefault("skipped", {}), time.perf_counter()
        try:
            figures = measure() | stamp | {"took": time.perf_counter() - began}
            skipped.pop(f"{part} {key}".strip(), None)
            if key:
                self._document.setdefault(part, {})[key] = figures
            else:
                self._document[part] = figures
            log(f"{title}: {_told(figures)}")
        except ContestantFailed as failure:
            skipped[f"{part} {key}".strip()] = str(failure)
            log(f"{title}: FAILED: {failure}")
        self._path.write_text(json.dumps(self._document, indent=2) + "\n")


def _check(what: str, answers: Iterable[Figures], expected: Answer) -> None:
    for answer in answers:
        found = Answer(answer["rows"], answer["dates"])
        if found != expected:
            raise WrongAnswer(f"{what}: {found} and not {expected}")


def _timing(seconds: list[float]) -> Figures:
    return {
        "seconds": seconds,
        "median": statistics.median(seconds),
        "min": min(seconds),
        "max": max(seconds),
    }


def _in_turn(names: Iterable[str], number: int) -> list[str]:
    """Their order in a round: every other one is backwards, as servers get quicker for who comes
    later.
    """
    return list(names) if number % 2 == 0 else list(names)[::-1]


def _load_figures(runs: list[Figures]) -> Figures:
    timing = _timing([one["seconds"] for one in runs])
    rows = runs[0]["rows"]
    return timing | {"runs": runs, "rows": rows, "rows_per_second": rows / timing["median"]}


def _lookup_figures(runs: list[Figures]) -> Figures:
    return {
        "runs": runs,
        "median": statistics.median(one["median"] for one in runs),
        "p99": statistics.median(one["p99"] for one in runs),
    }


def _told(figures: Figures) -> str:
    parts = [
        f"{name} % {show_seconds(part['median'])} ({show_count(part['rows_per_second'])} rows/s)"
        for name, part in figures.items()
        if isinstance(part, dict) and "rows_per_second" in part
    ]
    if "median" in figures:
        parts.append(show_seconds(figures["median"]))
    return ", ".join([*parts, f"all took {show_seconds(figures['took'])}"])
