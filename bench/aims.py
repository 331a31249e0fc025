"""What idmatch aims at, each figure worked out from the results of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from units import show_bytes, show_count, show_seconds


@dataclass(frozen=True)
class Aim:
    """One figure: what it is, what was measured, what was aimed at; `reached` is None where it was not measured."""

    figure: str
    measured: str
    aim: str
    reached: bool | None


def aims(document: dict[str, Any]) -> list[Aim]:
    """All aims, in the order of the page."""
    peers, ours = document["contestants"], document["idmatch"]
    us, duckdb = peers.get("idmatch", {}), peers.get("duckdb", {})
    return [
        _times_as_fast("count, hot, against DuckDB on Parquet", us, duckdb, "hot", 10),
        at_most("count, hot, against the bare cost", quotient(get(us, "hot", "median"), get(document["bare"], "total", "median")), 2.5),
        _times_as_fast("result written as Parquet, against DuckDB on Parquet", us, duckdb, "write", 8),
        _times_as_fast("count, cold, against DuckDB on Parquet", us, duckdb, "cold", 2.5),
        _growth(document),
        at_most("count over ten loads, against one load",
                 quotient(get(ours, "ten_loads", "hot", "median"), get(us, "hot", "median")), 2),
        bound("load, both directions, durable", get(ours, "load", "rows_per_second"), 1.5e6,
             lambda rows: f"{show_count(rows)} rows/s", at_least=True),
        bound("private memory of a load", get(ours, "load", "private_bytes"), 4e9, show_bytes),
        at_most("store, against the Parquet files",
                 quotient(get(ours, "load", "store_bytes"), get(ours, "load", "parquet_bytes")), 1.2),
        at_most("extra disk while loading, against the store",
                 quotient(get(ours, "load", "extra_disk_bytes"), get(ours, "load", "store_bytes")), 1.2),
        bound("private memory of a match", _largest(get(us, "hot", "private_bytes"), get(us, "write", "private_bytes")),
             1.5e9, show_bytes),
        _lookup(ours, "lookups_rust", "latest_partner_id", "one lookup from Rust", 2e-6),
        _lookup(ours, "lookups", "latest_partner_id", "`latest_partner_id` from Python", 10e-6),
        _lookup(ours, "lookups", "partner_ids", "`partner_ids` from Python", 60e-6),
        _lookup(ours, "lookups", "match_1000_to_arrow", "1,000 ids in one call, as an Arrow table", 1e-3),
        bound("opening the store", get(ours, "open", "median"), 0.3, show_seconds),
    ]


def get(document: dict[str, Any], *keys: str) -> float | None:
    """The figure at this place of the results; `None` where it was not measured."""
    value: Any = document
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def quotient(above: float | None, below: float | None) -> float | None:
    """A ratio, if both were measured."""
    return above / below if above is not None and below else None


def _largest(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def bound(figure: str, value: float | None, aim: float, show: Any, at_least: bool = False) -> Aim:
    """A figure that should be under the aim, or at least the aim."""
    wanted = f"at least {show(aim)}" if at_least else f"under {show(aim)}"
    if value is None:
        return Aim(figure, "not measured", wanted, None)
    return Aim(figure, show(value), wanted, value >= aim if at_least else value < aim)


def at_most(figure: str, ratio: float | None, aim: float) -> Aim:
    """A ratio that should be at most the aim."""
    if ratio is None:
        return Aim(figure, "not measured", f"at most {aim:g} times", None)
    return Aim(figure, f"{ratio:.2f} times", f"at most {aim:g} times", ratio <= aim)


def _times_as_fast(figure: str, us: dict[str, Any], peer: dict[str, Any], mode: str, aim: float) -> Aim:
    ratio = quotient(get(peer, mode, "median"), get(us, mode, "median"))
    wanted = f"at least {aim:g} times as fast"
    if ratio is None:
        return Aim(figure, "not measured", wanted, None)
    return Aim(figure, f"{ratio:.1f} times as fast", wanted, ratio >= aim)


def _lookup(ours: dict[str, Any], step: str, question: str, figure: str, aim: float) -> Aim:
    return bound(figure, get(ours, step, "questions", question, "median"), aim, show_seconds)


def growth_curve(document: dict[str, Any], name: str) -> dict[int, float]:
    """Rows of the table -> median seconds of the hot count."""
    figures = document["contestants"].get(name, {})
    curve = {int(rows): part["median"] for rows, part in figures.get("growth", {}).items()}
    if "hot" in figures and "rows" in document["about"]:
        curve[document["about"]["rows"]] = figures["hot"]["median"]
    return curve


def _growth(document: dict[str, Any]) -> Aim:
    curve = growth_curve(document, "idmatch")
    figure, wanted = "hot time from the smallest table to ten times as many rows", "less than 1.5 times"
    if len(curve) < 2:
        return Aim(figure, "not measured", wanted, None)
    ratio = curve[max(curve)] / curve[min(curve)]
    return Aim(figure, f"{ratio:.2f} times", wanted, ratio < 1.5)
