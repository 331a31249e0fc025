"""What idmatch aims at while it is written, each figure worked out from the results of `live.py`."""

from __future__ import annotations

from typing import Any

from aims import Aim, at_most, bound, get
from units import show_bytes, show_count, show_seconds


def live_aims(document: dict[str, Any]) -> list[Aim]:
    """All aims, in the order of the page."""
    return [
        bound("upserts, batches of 1,000, 4 threads", get(document, "batches", "written", "rows_per_second"), 400e3, _rate, at_least=True),
        bound("the slowest ten seconds of that", get(document, "batches", "written", "slowest_slice"), 400e3, _rate, at_least=True),
        bound("upserts of one row, 32 threads", get(document, "singles", "written", "rows_per_second"), 60e3, _rate, at_least=True),
        bound("their 99th percentile", get(document, "singles", "written", "latency", "p99"), 5e-3, show_seconds),
        at_most("the join under 100,000 upserts a second, against its quiet time", get(document, "mixed", "join_under_upserts_ratio"), 2),
        *(
            bound(f"lookups to a schedule under the join and the upserts, {title}", get(document, "mixed", "lookups", "latency", name), most, show_seconds)
            for name, title, most in (("p50", "median", 100e-6), ("p99", "99th percentile", 5e-3), ("p99_9", "99.9th percentile", 25e-3))
        ),
        at_most("the join after half as many rows again were upserted, against a fresh load", get(document, "growth", "join_ratio"), 1.3),
        at_most("the store then, against a fresh load", get(document, "growth", "bytes_ratio"), 1.3),
        bound("opening the store after its writer was killed with a full journal", get(document, "reopen", "open"), 3, show_seconds),
        bound("memory of memtables", _most_memtable_bytes(document), 256 * 10**6, show_bytes),
    ]


def _rate(rows: float) -> str:
    return f"{show_count(rows)} rows/s"


def _most_memtable_bytes(document: dict[str, Any]) -> float | None:
    return max((sample["memtable_bytes"] for sample in document.get("batches", {}).get("series", ())), default=None)
