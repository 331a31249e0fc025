"""One step of the paired benchmark, in the environment of one of the two commits.

    python pair_worker.py STEP SETTING

STEP is `load`, `join`, `lookup` or `upsert`; SETTING is the JSON that `pair.py` makes. Prints one
JSON document: figure -> seconds, or bytes where its name ends with `memory`, and under `rows` what
the step counted.

It must know no more of idmatch than the public Python API that both commits have: the columns of
its data are named id, partner_id and seen_at, so that neither spelling of a column mapping is
needed.
"""

from __future__ import annotations

import inspect
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
from sampling import Peak, Sampler, private_bytes

_TABLE = "matches"
# What an address of servers ends with.
EXPECTED_ROWS = "&expected_rows="
_BATCH_ROWS = 1_000
_BATCH_THREADS = 4
_SINGLE_THREADS = 16
_SAMPLE_SECONDS = 0.005
# Newer than every row of the data, and not in the future.
_UPSERTED_AT = datetime(2026, 11, 2, tzinfo=UTC)

Figures = dict[str, Any]
Setting = dict[str, Any]


def main() -> None:
    """Does the step and prints its figures."""
    step, text = sys.argv[1:]
    setting = json.loads(text)
    # Commits from before `expected_rows=` of `create_table` take it in the address.
    address, _, rows = setting["store"].partition(EXPECTED_ROWS)
    if "expected_rows" in inspect.signature(idmatch.Store.create_table).parameters:
        setting |= {"store": address, "made_for": {"expected_rows": int(rows)} if rows else {}}
    with idmatch.open(setting["store"]) as store:
        print(json.dumps(_STEPS[step](store, setting)))


def _load(store: Any, setting: Setting) -> Figures:
    """All match files in one load, durable."""
    table = store.create_table(_TABLE, keep="last", **setting.get("made_for", {}))
    began = time.perf_counter()
    report = table.load(setting["files"])
    seconds = time.perf_counter() - began
    if report.rejected:
        raise RuntimeError(f"{report.rejected} of {report.rows} rows were rejected")
    return {"load": seconds, "rows": report.rows}


def _join(store: Any, setting: Setting) -> Figures:
    """The population counted, and its result written, each after a run that does not count.

    The peak memory is that of all runs.
    """
    table, population, result = store.table(_TABLE), setting["population"], setting["result"]
    rows = set()

    def count() -> None:
        rows.add(table.match(population).rows)

    def write() -> None:
        Path(result).unlink(missing_ok=True)
        table.match(population).write_parquet(result, compression="snappy")

    peak = Peak()
    with Sampler(lambda: peak.see(private_bytes(os.getpid())), _SAMPLE_SECONDS):
        figures: Figures = {
            "join, count": _median(count, setting),
            "join, result": _median(write, setting),
        }
    rows.add(pq.read_metadata(result).num_rows)
    Path(result).unlink()
    if len(rows) != 1:
        raise RuntimeError(f"counts and written rows differ: {sorted(rows)}")
    return figures | {"join, memory": peak.value, "rows": rows.pop()}


def _median(call: Callable[[], None], setting: Setting) -> float:
    """Median seconds of some calls, after one that does not count."""
    seconds = [_seconds(call) for _ in range(setting["joins"] + 1)]
    return statistics.median(seconds[1:])


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _lookup(store: Any, setting: Setting) -> Figures:
    """Single lookups, one after the other, of ids and pairs that were asked for once before."""
    table, calls = store.table(_TABLE), setting["lookups"]
    sample = _sample(setting, setting["keys"])
    ids = sample["id"].to_pylist()
    keys: list[tuple[Any, ...]] = [(id,) for id in ids]
    pairs: list[tuple[Any, ...]] = list(zip(ids, sample["partner_id"].to_pylist(), strict=True))
    if any(table.last_seen(*pair) is None for pair in pairs):
        raise RuntimeError("a loaded row is not found")
    figures: Figures = {"rows": sum(table.partner_ids(id).num_rows for id in ids)}
    for name, ask, asked in (
        ("lookup, all", table.partner_ids, keys),
        ("lookup, newest", table.latest_partner_id, keys),
        ("lookup, last_seen", table.last_seen, pairs),
    ):
        for given in asked:
            ask(*given)
        nanoseconds = []
        for number in range(calls):
            given = asked[number % len(asked)]
            began = time.perf_counter_ns()
            ask(*given)
            nanoseconds.append(time.perf_counter_ns() - began)
        figures[name] = statistics.median(nanoseconds) / 1e9
    return figures


def _upsert(store: Any, setting: Setting) -> Figures:
    """Upserts in batches and one by one; half are pairs of the table with a newer date."""
    table = store.table(_TABLE)
    batches = [_batch(setting, number) for number in range(setting["batches"])]
    batched = _in_threads(table.upsert, ((batch,) for batch in batches), _BATCH_THREADS)
    count = setting["singles"]
    singles: list[tuple[str, str, datetime]] = [
        (f"{number:032x}", str(10**18 + number), _UPSERTED_AT) for number in range(count)
    ]
    single = _in_threads(table.upsert_one, singles, _SINGLE_THREADS)
    for id, partner_id, seen_at in singles[:: max(1, count // 100)]:
        if table.last_seen(id, partner_id) != seen_at:
            raise RuntimeError("an acknowledged row is not found")
    return {
        "upsert, batches": batched,
        "upsert, single rows": single,
        "rows": len(batches) * _BATCH_ROWS + count,
    }


def _in_threads(
    call: Callable[..., object], arguments: Iterable[tuple[Any, ...]], threads: int
) -> float:
    """Seconds until all calls are done."""
    waiting = list(arguments)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: time.sleep(0.01), range(threads)))
        began = time.perf_counter()
        list(pool.map(lambda given: call(*given), waiting))
        return time.perf_counter() - began


def _batch(setting: Setting, number: int) -> pa.Table:
    """Half of the rows are stored pairs, half are new."""
    half = _BATCH_ROWS // 2
    stored = _sample(setting, half, number)
    new = range(number * half, number * half + half)
    seen_at = _UPSERTED_AT + timedelta(milliseconds=number)
    return pa.table(
        {
            "id": stored["id"].to_pylist() + [f"f{one:031x}" for one in new],
            "partner_id": stored["partner_id"].to_pylist() + [str(2 * 10**18 + one) for one in new],
            "seen_at": pa.array([seen_at] * _BATCH_ROWS, pa.timestamp("ms", "UTC")),
        }
    )


def _sample(setting: Setting, rows: int, offset: int = 0) -> pa.Table:
    """Stored rows that are spread over the middle file; another offset takes others."""
    files = setting["files"]
    if "group" not in _READ:
        _READ["group"] = pq.ParquetFile(files[len(files) // 2]).read_row_group(
            0, columns=["id", "partner_id"]
        )
    group = _READ["group"]
    step = max(1, group.num_rows // rows)
    return group.take(pa.array([(index * step + offset) % group.num_rows for index in range(rows)]))


_READ: dict[str, pa.Table] = {}
_STEPS = {"load": _load, "join": _join, "lookup": _lookup, "upsert": _upsert}

if __name__ == "__main__":
    main()
