"""The joins: hot, hot with the result written, cold, and as the table grows."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from contestant import Call, Contestant, ContestantFailed, Limits
from data import DataSet, prepare
from peers.base import Setting
from results import Results, timing
from units import show_bytes, show_count, show_seconds

_REHEARSAL_ROWS = 4_000


@dataclass(frozen=True)
class Bench:
    """What all measurements of a run share."""

    data: DataSet
    directory: Path
    results: Results
    threads: int
    runs: int
    seconds_per_mode: float
    memory_bytes: int
    limits: Limits

    def setting(self, name: str, data: DataSet, place: str = "") -> Setting:
        """A contestant's setting; `place` tells several stores of one contestant apart."""
        return Setting(data, self.workspace(name, data, place), self.threads, self.memory_bytes)

    def workspace(self, name: str, data: DataSet, place: str = "") -> Path:
        """The directory that a contestant has for itself."""
        return (
            self.directory
            / "work"
            / "-".join(filter(None, (name, show_count(data.rows), f"seed{data.seed}", place)))
        )

    def start(self, name: str, data: DataSet, place: str = "") -> Contestant:
        """Starts a contestant's process."""
        return Contestant(name, self.setting(name, data, place), self.limits)

    def remove(self, name: str, data: DataSet, place: str = "") -> None:
        """Deletes all that a contestant has on disk."""
        shutil.rmtree(self.workspace(name, data, place), ignore_errors=True)


def say(text: str) -> None:
    """Tells on standard error what is going on."""
    print(text, file=sys.stderr, flush=True)


def hot(bench: Bench, name: str, data: DataSet, place: str = "") -> dict[str, Any]:
    """The count, with everything cached as far as memory allows: one run to warm up, then the
    measured ones.
    """
    with bench.start(name, data, place) as contestant:
        contestant.call("open")
        version = contestant.call("version").value

        def once() -> Call:
            call = contestant.call("count")
            bench.results.agree("counts", data.rows, name, call.value)
            return call

        warm_up, calls = _repeat(bench, once)
    return _told(f"{name}, hot, {show_count(data.rows)} rows", warm_up, calls) | {
        "count": calls[0].value,
        "version": version,
    }


def hot_write(bench: Bench, name: str, data: DataSet, compression: str) -> dict[str, Any]:
    """The join with its result written as Parquet; checks the rows of the last file."""
    out = bench.workspace(name, data) / "result.parquet"
    with bench.start(name, data) as contestant:
        contestant.call("open")

        def once() -> Call:
            out.unlink(missing_ok=True)
            return contestant.call("write", path=str(out), compression=compression)

        warm_up, calls = _repeat(bench, once)
    rows, checksum = _summary(out)
    bench.results.agree("counts", data.rows, f"{name}, written", rows)
    bench.results.agree("checksums", data.rows, name, checksum)
    size = out.stat().st_size
    out.unlink()
    return _told(f"{name}, hot, result written ({compression})", warm_up, calls) | {
        "rows": rows,
        "result_bytes": size,
    }


def cold(bench: Bench, name: str, data: DataSet) -> dict[str, Any]:
    """The count right after the page cache was dropped, each time in a new process that has done it
    with small data only.
    """
    calls = []
    prepare(bench.directory, _REHEARSAL_ROWS)
    for _ in range(min(3, bench.runs)):
        with bench.start(name, data) as contestant:
            contestant.call("rehearse", directory=str(bench.directory), rows=_REHEARSAL_ROWS)
            drop_page_cache()
            call = contestant.call("open_and_count")
            bench.results.agree("counts", data.rows, name, call.value)
            calls.append(call)
    return _told(f"{name}, cold", None, calls)


def can_drop_page_cache() -> bool:
    """Whether this process may drop the page cache."""
    return os.access("/proc/sys/vm/drop_caches", os.W_OK)


def drop_page_cache() -> None:
    """Writes what is dirty and forgets all cached file contents."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def attempt(bench: Bench, measure: Callable[[], dict[str, Any]], part: str, *keys: str) -> bool:
    """Measures and stores; a contestant that fails is noted with its reason. Returns whether there
    is a result.
    """
    try:
        value = measure()
    except ContestantFailed as failure:
        say(f"{' '.join(keys)}: FAILED: {failure}")
        bench.results.skip(part, *keys, reason=str(failure))
        return False
    bench.results.put(part, *keys, value=value)
    return True


def _repeat(bench: Bench, once: Callable[[], Call]) -> tuple[Call, list[Call]]:
    """One run to warm up, then as many as asked for, or fewer when they have taken the time there
    is.
    """
    warm_up = once()
    calls = [once()]
    while len(calls) < bench.runs and sum(call.seconds for call in calls) < bench.seconds_per_mode:
        calls.append(once())
    return warm_up, calls


def _told(what: str, warm_up: Call | None, calls: list[Call]) -> dict[str, Any]:
    """The figures of the calls, said aloud too."""
    private = max(call.private_bytes for call in ([warm_up] if warm_up else []) + calls)
    figures = timing([call.seconds for call in calls], private)
    if warm_up:
        figures["warm_up"] = warm_up.seconds
    say(
        f"{what}: {show_seconds(figures['median'])} ({show_seconds(figures['min'])} to"
        f" {show_seconds(figures['max'])}, {len(calls)} runs), private memory {show_bytes(private)}"
    )
    return figures


def _summary(file: Path) -> tuple[int, int]:
    """Rows of a written result, and a checksum that does not depend on their order."""
    with duckdb.connect(config={"threads": 2, "memory_limit": "4GB"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        (found,) = connection.execute(f"""
            SELECT count(*), sum(hash(id, partner_id, epoch_ms(seen_at)))
            FROM (
                SELECT id::VARCHAR AS id, partner_id::VARCHAR AS partner_id, seen_at
                FROM read_parquet('{file}')
            )
        """).fetchall()
    return int(found[0]), int(found[1] or 0)
