"""Writes with many clients at once, on threads, and where a peer asks for it in several
processes.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from live_peers import peer_class
from live_peers.base import Client, LivePeer
from live_peers.rows import Rows

_READY_SECONDS = 600


@dataclass(frozen=True)
class Load:
    """What the clients of a phase do: each writes its own batches until the time is over or they
    are used up.
    """

    phase: int
    clients: int
    rows_per_batch: int
    seconds: float
    batches_per_client: int


@dataclass(frozen=True)
class Written:
    """What came of it."""

    acknowledged: dict[int, int]  # client -> batches
    latencies: list[float]  # seconds of each batch, in no order
    seconds: float
    used_up: bool

    def figures(self, load: Load) -> dict[str, object]:
        """Rates and latencies."""
        rows = len(self.latencies) * load.rows_per_batch
        return {
            "clients": load.clients,
            "rows_per_batch": load.rows_per_batch,
            "seconds": self.seconds,
            "rows": rows,
            "rows_per_second": rows / self.seconds,
            **percentiles(self.latencies, 1e3, "ms"),
            "max_ms": max(self.latencies) * 1e3,
            "used_up": self.used_up,
        }


def percentiles(seconds: list[float], factor: float, unit: str) -> dict[str, float]:
    """Median and 99th percentile."""
    ranked = sorted(seconds)
    return {
        f"p{percent}_{unit}": ranked[math.ceil(len(ranked) * percent / 100) - 1] * factor
        for percent in (50, 99)
    }


@dataclass
class _Share:
    """What one process measured."""

    acknowledged: dict[int, int]
    latencies: list[float]
    began: float
    ended: float
    used_up: bool


def write(name: str, peer: LivePeer, rows: Rows, load: Load, too_much: threading.Event) -> Written:
    """Runs a phase against a peer that is started."""
    if peer.processes == 1:
        shares = [
            _drive(
                peer.connect, rows, load, list(range(load.clients)), lambda: None, too_much.is_set
            )
        ]
    else:
        shares = _in_processes(name, peer, rows, load, too_much)
    return Written(
        acknowledged={
            client: count for share in shares for client, count in share.acknowledged.items()
        },
        latencies=[latency for share in shares for latency in share.latencies],
        seconds=max(share.ended for share in shares) - min(share.began for share in shares),
        used_up=any(share.used_up for share in shares),
    )


def _in_processes(
    name: str, peer: LivePeer, rows: Rows, load: Load, too_much: threading.Event
) -> list[_Share]:
    context = multiprocessing.get_context("spawn")
    processes = min(peer.processes, load.clients)
    together, stop = context.Barrier(processes), context.Event()
    children = []
    for number in range(processes):
        ours, theirs = context.Pipe(duplex=False)
        mine = list(range(number, load.clients, processes))
        child = context.Process(
            target=_child,
            args=(theirs, name, peer.workspace, rows, load, mine, together, stop),
            daemon=True,
        )
        child.start()
        theirs.close()
        children.append((child, ours))
    shares = []
    for child, ours in children:
        while not ours.poll(0.2):
            if too_much.is_set():
                stop.set()
        try:
            answer = ours.recv()
        except EOFError:
            answer = RuntimeError("a process of clients ended without an answer")
        if isinstance(answer, Exception):
            together.abort()
            stop.set()
            for other, _ in children:
                other.join()
            raise answer
        child.join()
        shares.append(answer)
    return shares


def _child(
    answer: Connection,
    name: str,
    workspace: Path,
    rows: Rows,
    load: Load,
    clients: list[int],
    together: threading.Barrier,
    stop: threading.Event,
) -> None:
    try:
        peer = peer_class(name)(workspace)
        answer.send(
            _drive(
                peer.connect,
                rows,
                load,
                clients,
                lambda: together.wait(_READY_SECONDS),
                stop.is_set,
            )
        )
    except threading.BrokenBarrierError:
        answer.send(RuntimeError("another process of clients failed"))
    except Exception as error:
        answer.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _drive(
    connect: Callable[[], Client],
    rows: Rows,
    load: Load,
    clients: list[int],
    others_ready: Callable[[], object],
    stopped: Callable[[], bool],
) -> _Share:
    """One thread for each client. Rows are made and connections opened before the time begins."""
    batches = {
        client: rows.batches(load.phase, client, load.batches_per_client, load.rows_per_batch)
        for client in clients
    }
    share = _Share({}, [], math.inf, 0.0, False)
    errors: list[Exception] = []
    lock, used_up = threading.Lock(), threading.Event()

    def get_going() -> None:
        others_ready()
        share.began = time.perf_counter()

    together = threading.Barrier(len(clients), action=get_going)

    def run(client: int) -> None:
        latencies: list[float] = []
        try:
            connection = connect()
            together.wait(_READY_SECONDS)
            until = share.began + load.seconds
            for batch in batches[client]:
                began = time.perf_counter()
                if began >= until or used_up.is_set() or stopped():
                    break
                connection.upsert(batch)
                latencies.append(time.perf_counter() - began)
            else:
                used_up.set()
            ended = time.perf_counter()
            connection.close()
        except Exception as error:
            together.abort()
            with lock:
                errors.append(error)
            return
        with lock:
            share.acknowledged[client] = len(latencies)
            share.latencies += latencies
            share.ended = max(share.ended, ended)

    gc.freeze()
    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.unfreeze()
    if errors:
        raise next(
            (error for error in errors if not isinstance(error, threading.BrokenBarrierError)),
            errors[0],
        )
    share.used_up = used_up.is_set()
    return share
