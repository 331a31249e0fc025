"""Measures one peer of the live write benchmark in this process, and prints one JSON document.

    python -m live_peers.run --peer sqlite --workspace DIR --rows 1M --seconds 30

fill, batches of 1,000 rows, single rows, lookups, bytes, and a check of a sample against a model.
The store is deleted at the end. Exit code 1: the peer failed or gave a wrong answer; 3: it is left
out because something is not installed. The document says why.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sampling import Peak, Sampler
from units import directory_bytes, parse_count, show_bytes

from live_peers import TITLES, peer_class
from live_peers.base import Batch, Found, LeftOut, LivePeer
from live_peers.check import Acknowledged, Model
from live_peers.clients import Load, percentiles, write
from live_peers.rows import Rows

_ROWS_PER_BATCH = 1000
_KNOWN_PERCENT = 90
_SYNCS, _SYNCED_BYTES = 200, 4096
_WATCH_SECONDS = 0.5


class TooMuchDisk(Exception):
    """A store grew over its limit."""


def main() -> int:
    """Measures what the command line asks for; returns the exit code."""
    options = _options()
    workspace: Path = options.workspace / f"live-{options.peer}"
    document: dict[str, Any] = {"peer": options.peer}
    code = 0
    try:
        if workspace.exists():
            raise FileExistsError(f"{workspace} is there already")
        peer = _peer(options.peer, workspace)
        workspace.mkdir(parents=True)
        try:
            Run(peer, workspace, options, document).all()
        finally:
            if not options.keep:
                shutil.rmtree(workspace)
    except LeftOut as reason:
        document["left_out"], code = str(reason), 3
    except Exception as failure:
        document["failed"], code = f"{type(failure).__name__}: {failure}", 1
    if code:
        _say(f"{options.peer}: {document.get('left_out') or document['failed']}")
    print(json.dumps(document, indent=2))
    if options.results:
        known = json.loads(options.results.read_text()) if options.results.exists() else {}
        options.results.write_text(json.dumps(known | {options.peer: document}, indent=2) + "\n")
    return code


def _peer(name: str, workspace: Path) -> LivePeer:
    try:
        return peer_class(name)(workspace)
    except ImportError as error:
        raise LeftOut(
            f"a Python package is not installed: {error}; make bench-live-peers-env"
        ) from error


class Run:
    """The steps; each puts its figures into the document."""

    def __init__(
        self, peer: LivePeer, workspace: Path, options: argparse.Namespace, document: dict[str, Any]
    ) -> None:
        self._name, self._peer, self._workspace, self._options, self._document = (
            options.peer,
            peer,
            workspace,
            options,
            document,
        )
        self._rows = Rows(options.seed, options.rows)
        self._written: list[Acknowledged] = []
        self._too_much, self._disk = threading.Event(), Peak()

    def all(self) -> None:
        """All steps in order; the peer is stopped whatever happens."""
        options = self._options
        self._peer.start()
        try:
            self._document |= {
                "title": TITLES[self._name],
                "version": self._peer.version(),
                "settings": dict(self._peer.settings()),
                "rows": options.rows,
                "seconds": options.seconds,
                "seed": options.seed,
                "processes": self._peer.processes,
                "plain_sync_ms": _plain_sync(self._workspace) * 1e3,
            }
            with Sampler(self._watch, _WATCH_SECONDS):
                self._step("fill", self._fill)
                self._step(
                    "batches",
                    lambda: self._write(0, options.batch_clients, _ROWS_PER_BATCH, options.prepare),
                )
                self._step(
                    "singles",
                    lambda: self._write(1, options.single_clients, 1, options.prepare_singles),
                )
                self._step("lookups", self._lookups)
                self._step("bytes", self._bytes)
                self._step("check", self._check)
        finally:
            self._peer.stop()

    def _step(self, name: str, measure: Callable[[], dict[str, Any]]) -> None:
        load = os.getloadavg()[0]
        self._document[name] = measure() | {"load_average_before": load}
        if self._too_much.is_set():
            raise TooMuchDisk(f"{name}: passed {show_bytes(self._options.disk_limit)}")
        _say(f"{self._name}: {name}: {self._document[name]}")

    def _watch(self) -> None:
        self._disk.see(directory_bytes(self._workspace))
        if self._disk.value > self._options.disk_limit:
            self._too_much.set()

    def _fill(self) -> dict[str, Any]:
        making = 0.0

        def chunks() -> Iterator[Batch]:
            nonlocal making
            began = time.perf_counter()
            for chunk in self._rows.chunks():
                making += time.perf_counter() - began
                yield chunk
                if self._too_much.is_set():
                    raise TooMuchDisk(f"fill: passed {show_bytes(self._options.disk_limit)}")
                began = time.perf_counter()

        began = time.perf_counter()
        self._peer.fill(chunks())
        seconds = time.perf_counter() - began - making
        return {
            "seconds": seconds,
            "rows_per_second": self._rows.fill / seconds,
            "making_rows_seconds": making,
            **self._sizes(self._rows.fill),
            "peak_bytes": self._disk.value,
        }

    def _write(
        self, phase: int, clients: int, rows_per_batch: int, prepared_per_second: int
    ) -> dict[str, Any]:
        seconds = self._options.seconds
        count = max(1, int(prepared_per_second * seconds / clients / rows_per_batch))
        load = Load(phase, clients, rows_per_batch, seconds, count)
        written = write(self._name, self._peer, self._rows, load, self._too_much)
        self._written += [
            Acknowledged(phase, client, batches * rows_per_batch)
            for client, batches in written.acknowledged.items()
        ]
        return written.figures(load)

    def _lookups(self) -> dict[str, Any]:
        client = self._peer.connect()
        ids, partner_ids = self._rows.questions(self._options.lookups, _KNOWN_PERCENT)
        figures = {
            "by_id": _timed(client.partner_ids, ids),
            "by_partner_id": _timed(client.ids, partner_ids),
        }
        client.close()
        return figures

    def _bytes(self) -> dict[str, Any]:
        new = sum(-(-part.rows // 2) for part in self._written)
        return self._sizes(self._rows.fill + new) | {
            "peak_bytes": self._disk.value,
            "memory_bytes": self._peer.memory_bytes(),
        }

    def _sizes(self, rows: int) -> dict[str, Any]:
        logs = self._workspace.glob(self._peer.log_files) if self._peer.log_files else ()
        total = directory_bytes(self._workspace)
        return {
            "bytes": total,
            "of_which_log": sum(file.stat().st_blocks * 512 for file in logs),
            "rows": rows,
            "bytes_per_row": total / rows,
        }

    def _check(self) -> dict[str, Any]:
        model = Model(self._rows, self._written, self._options.check_keys)
        client = self._peer.connect()
        older = model.write_older(client)
        client.close()
        self._peer.stop()
        began = time.perf_counter()
        self._peer.start()
        reopened = time.perf_counter() - began
        client = self._peer.connect()
        figures = model.compare(client)
        client.close()
        return {"right": True, **figures, "older_rows_written": older, "reopen_seconds": reopened}


def _timed(ask: Callable[[str], Found], keys: list[str]) -> dict[str, Any]:
    """Asks for every key once to warm up, then once more with the clock."""
    found = sum(bool(ask(key)) for key in keys)
    seconds = []
    began = time.perf_counter()
    for key in keys:
        before = time.perf_counter()
        ask(key)
        seconds.append(time.perf_counter() - before)
    return {
        "lookups": len(keys),
        "found": found,
        "lookups_per_second": len(keys) / (time.perf_counter() - began),
        **percentiles(seconds, 1e6, "us"),
    }


def _plain_sync(directory: Path) -> float:
    """Median seconds of a small append and its fdatasync: the least that an acknowledgement costs
    here.
    """
    path = directory / "sync-trial"
    seconds = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(bytes(_SYNCED_BYTES))
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - began)
    path.unlink()
    return statistics.median(seconds)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure one peer of the live write benchmark.")
    parser.add_argument("--peer", choices=list(TITLES), required=True)
    parser.add_argument(
        "--workspace",
        type=Path,
        required=True,
        help="the store goes into a new folder in it; keep its path short",
    )
    parser.add_argument(
        "--rows", type=parse_count, default=1_000_000, help="rows of the fill, such as 5M"
    )
    parser.add_argument(
        "--seconds", type=float, default=30, help="of the batches, and of the single rows"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--batch-clients", type=int, default=4)
    parser.add_argument("--single-clients", type=int, default=32)
    parser.add_argument("--lookups", type=parse_count, default=20_000, help="keys, each direction")
    parser.add_argument(
        "--check-keys",
        type=parse_count,
        default=1000,
        help="keys of each direction that are checked",
    )
    parser.add_argument(
        "--disk-limit", type=parse_count, default=20 * 10**9, help="bytes, such as 20G"
    )
    parser.add_argument(
        "--prepare",
        type=parse_count,
        default=250_000,
        help="rows made ahead for each second of the batches",
    )
    parser.add_argument(
        "--prepare-singles", type=parse_count, default=60_000, help="the same for the single rows"
    )
    parser.add_argument(
        "--results",
        type=Path,
        help="also keep the document in this file, beside those of other peers",
    )
    parser.add_argument("--keep", action="store_true", help="keep the store")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
