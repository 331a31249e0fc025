"""Runs one step of one system in this process, and prints one JSON document as the last line.

    python -m cql_peers.worker match idmatch --address A --keyspace K --rows N ... POPULATIONS...

The program in `cql/` takes the same options, and gives documents of the same form. Only what the
question takes is timed: importing, connecting, and starting a cluster or a JVM is not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cql_peers import peer_class
from cql_peers.base import CqlPeer, Place

Figures = dict[str, Any]
_NEWEST = 10


def main() -> None:
    """Does what the command line asks for."""
    options = _options()
    peer = peer_class(options.peer)(Place(options.address, options.keyspace, options.rows))
    try:
        figures = _STEPS[options.step](peer, options)
        figures |= {"version": peer.version(), "settings": dict(peer.settings())}
    finally:
        peer.close()
    print(json.dumps(figures))


def _match(peer: CqlPeer, options: argparse.Namespace) -> Figures:
    warm = _timed(None, options.warm_up_seconds, partial(_matched, peer, options.warm_up))
    answers, plans = [], []
    for file in options.files:
        answers.append(_timed(options.runs, options.seconds, partial(_matched, peer, file)))
        plans.append(peer.plan())
    return {"warm_up": warm, "populations": answers, "plans": plans}


def _matched(peer: CqlPeer, file: Path) -> Figures:
    return asdict(peer.match(file))


def _lookups(peer: CqlPeer, options: argparse.Namespace) -> Figures:
    ids: list[Any] = pq.read_table(options.files[0], columns=["id"])["id"].to_pylist()
    return {
        "warm_up": _timed(None, options.warm_up_seconds, lambda: _one_by_one(peer, ids)),
        "runs": _timed(options.runs, options.seconds, lambda: _one_by_one(peer, ids)),
    }


def _one_by_one(peer: CqlPeer, ids: list[str]) -> Figures:
    rows, taken = 0, []
    for key in ids:
        began = time.perf_counter()
        rows += peer.lookup(key)
        taken.append(time.perf_counter() - began)
    p99 = statistics.quantiles(taken, n=100)[98]
    return {"lookups": len(ids), "rows": rows, "median": statistics.median(taken), "p99": p99}


def _load(peer: CqlPeer, options: argparse.Namespace) -> Figures:
    peer.make()
    began = time.perf_counter()
    peer.load(options.files)
    return {"seconds": time.perf_counter() - began}


def _load_hot(peer: Any, options: argparse.Namespace) -> Figures:
    began = time.perf_counter()
    peer.load_hot(options.values)
    return {"seconds": time.perf_counter() - began}


def _newest(peer: Any, options: argparse.Namespace) -> Figures:
    def ask() -> Figures:
        return {"newest": peer.newest(_NEWEST)}

    warm = _timed(None, options.warm_up_seconds, ask)
    return {"warm_up": warm, "runs": _timed(options.runs, options.seconds, ask)}


def _timed(most: int | None, seconds: float, ask: Callable[[], Figures]) -> list[Figures]:
    """The answer of each run, with its seconds: at most `most` runs, at least one, and none starts
    after `seconds`.
    """
    runs: list[Figures] = []
    start = time.perf_counter()
    while not runs or time.perf_counter() - start < seconds:
        if len(runs) == most:
            break
        began = time.perf_counter()
        answer = ask()
        runs.append(answer | {"seconds": time.perf_counter() - began})
    return runs


_STEPS: dict[str, Callable[[Any, argparse.Namespace], Figures]] = {
    "match": _match,
    "lookups": _lookups,
    "load": _load,
    "load-hot": _load_hot,
    "newest": _newest,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run one step of one system.")
    parser.add_argument("step", choices=_STEPS)
    parser.add_argument("peer")
    parser.add_argument("--address", required=True)
    parser.add_argument("--keyspace", required=True)
    parser.add_argument("--rows", type=int, default=0, help="rows of the table")
    parser.add_argument("--warm-up", type=Path, help="the population of runs that do not count")
    parser.add_argument("--warm-up-seconds", type=float, default=0)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--values", type=int, default=0, help="values of the hot key")
    parser.add_argument("files", type=Path, nargs="*")
    return parser.parse_intermixed_args()


if __name__ == "__main__":
    main()
