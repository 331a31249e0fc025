"""The joins: hot, hot with the result written, cold, and as the table grows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
from contestant import Call, Contestant, ContestantFailed, Limits, run_command
from data import DataSet, prepare
from heat import HOT_SHARE, drop_page_cache, give_page_cache_to
from peers.base import Setting
from progress import log
from results import Results, timing
from units import show_bytes, show_count, show_seconds

_REHEARSAL_ROWS = 4_000
_MOST_WARM_UPS = 3


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
    duckdb_limits: tuple[int, ...]
    limits: Limits

    def setting(self, name: str, data: DataSet, place: str = "") -> Setting:
        """A system's setting; `place` tells several stores of one system apart."""
        return Setting(data, self.workspace(name, data, place), self.threads, self.memory_bytes)

    def workspace(self, name: str, data: DataSet, place: str = "") -> Path:
        """The directory that a system has for itself."""
        return (
            self.directory
            / "work"
            / "-".join(filter(None, (name, show_count(data.rows), f"seed{data.seed}", place)))
        )

    def start(self, name: str, data: DataSet, place: str = "") -> Contestant:
        """Starts a system's process."""
        return Contestant(name, self.setting(name, data, place), self.limits)

    def remove(self, name: str, data: DataSet, place: str = "") -> None:
        """Deletes all that a system has on disk."""
        shutil.rmtree(self.workspace(name, data, place), ignore_errors=True)


def hot(bench: Bench, name: str, data: DataSet, place: str = "") -> dict[str, Any]:
    """The count by a process that is warm, alone in the page cache."""
    with bench.start(name, data, place) as contestant:
        opened = _give_page_cache(contestant)
        contestant.call("open")
        version = contestant.call("version").value

        def once() -> Call:
            call = contestant.call("count")
            bench.results.agree("counts", data.rows, name, call.value)
            return call

        warm_ups, calls = _repeat(bench, once, opened)
    figures = _told(f"{name}, hot, {show_count(data.rows)} rows", calls, warm_ups, opened)
    return figures | {"count": calls[0].value, "version": version}


def hot_write(bench: Bench, name: str, data: DataSet, compression: str) -> dict[str, Any]:
    """The join with its result written as Parquet; checks the rows of the last file."""
    out = bench.workspace(name, data) / "result.parquet"
    with bench.start(name, data) as contestant:
        opened = _give_page_cache(contestant)
        contestant.call("open")

        def once() -> Call:
            out.unlink(missing_ok=True)
            return contestant.call("write", path=str(out), compression=compression)

        warm_ups, calls = _repeat(bench, once, opened)
    rows, checksum = _summary(out)
    bench.results.agree("counts", data.rows, f"{name}, written", rows)
    bench.results.agree("checksums", data.rows, name, checksum)
    size = out.stat().st_size
    out.unlink()
    figures = _told(f"{name}, hot, result written ({compression})", calls, warm_ups, opened)
    return figures | {"rows": rows, "result_bytes": size}


def typed(bench: Bench, name: str, data: DataSet) -> dict[str, Any]:
    """The count by the command that one types: each run starts a process, and all files are hot."""
    with bench.start(name, data) as contestant:
        opened = _give_page_cache(contestant)
        command = contestant.call("typed").value

    def once() -> Call:
        call = run_command(command, bench.threads)
        bench.results.agree("counts", data.rows, f"{name}, typed", call.value)
        return call

    warm_ups, calls = _repeat(bench, once, opened)
    return _told(f"{name}, as typed", calls, warm_ups, opened)


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
    return _told(f"{name}, cold", calls)


def with_best_limit(bench: Bench, measure: Callable[[Bench], dict[str, Any]]) -> dict[str, Any]:
    """The figures with the memory limit that gives the best median; raises what the last limit
    raised when all fail.
    """
    found: dict[int, dict[str, Any]] = {}
    failure = ContestantFailed("there is no memory limit that this machine has room for")
    for limit in bench.duckdb_limits:
        try:
            found[limit] = measure(replace(bench, memory_bytes=limit))
        except ContestantFailed as failed:
            log(f"with a memory limit of {show_bytes(limit)}: FAILED: {failed}")
            failure = failed
    if not found:
        raise failure
    best = min(found, key=lambda limit: float(found[limit]["median"]))
    medians = {show_bytes(limit): figures["median"] for limit, figures in found.items()}
    return found[best] | {"memory_limit_bytes": best, "limits": medians}


def attempt(bench: Bench, measure: Callable[[], dict[str, Any]], part: str, *keys: str) -> bool:
    """Measures and stores; a system that fails is noted with its reason. Returns whether there
    is a result.
    """
    try:
        value = measure()
    except ContestantFailed as failure:
        log(f"{' '.join(keys)}: FAILED: {failure}")
        bench.results.skip(part, *keys, reason=str(failure))
        return False
    bench.results.put(part, *keys, value=value)
    return True


def _give_page_cache(contestant: Contestant) -> int:
    """Lets a system have the page cache for itself; returns the bytes of the files it opens."""
    give_page_cache_to(Path(file) for file in contestant.call("inputs").value)
    return int(contestant.call("opened_bytes").value)


def _repeat(bench: Bench, once: Callable[[], Call], opened: int) -> tuple[list[Call], list[Call]]:
    """Runs to warm up, until one is hot or three were not; then as many as asked for, or fewer when
    they have taken the time there is.
    """
    warm_ups = [once()]
    while len(warm_ups) < _MOST_WARM_UPS and warm_ups[-1].read_bytes > HOT_SHARE * opened:
        warm_ups.append(once())
    calls = [once()]
    while len(calls) < bench.runs and sum(call.seconds for call in calls) < bench.seconds_per_mode:
        calls.append(once())
    return warm_ups, calls


def _told(
    what: str, calls: list[Call], warm_ups: list[Call] | None = None, opened: int = 0
) -> dict[str, Any]:
    """The figures of the calls, said aloud too; with bytes of opened files also whether all were
    hot.
    """
    private = max(call.private_bytes for call in (warm_ups or []) + calls)
    read = [call.read_bytes for call in calls]
    figures = timing([call.seconds for call in calls], private) | {"read_bytes": read}
    heat = ""
    if warm_ups:
        is_hot = max(read) <= HOT_SHARE * opened
        figures |= {"warm_up": warm_ups[0].seconds, "opened_bytes": opened, "is_hot": is_hot}
        heat = f" of {show_bytes(opened)}, {'hot' if is_hot else 'NOT HOT'}"
    log(
        f"{what}: {show_seconds(figures['median'])} ({show_seconds(figures['min'])} to"
        f" {show_seconds(figures['max'])}, {len(calls)} runs), peak memory"
        f" {show_bytes(private)}; read from disk {', '.join(map(show_bytes, read))}{heat}"
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
