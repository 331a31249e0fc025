"""Writes one part of a benchmark page, and its drawings, from the results of one benchmark.

    python -m report join RESULTS.json
    python -m report live RESULTS.json [--peers PEERS.json] [--remark TEXT ...]
    python -m report servers RESULTS.json [--remark TEXT ...]
    python -m report faults RESULTS.json

Run it in the folder `bench`. Pages are `docs/benchmarks/README.md` and `docs/benchmarks/faults.md`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cql_faults
import live_peers
import peers
from cql_programs import CONTESTANTS
from cql_steps import WARM_UPS
from units import show_count, show_seconds

from report import charts
from report.pages import fill, put
from report.targets import (
    Document,
    choice_ratio,
    growth_curve,
    join_targets,
    live_targets,
    servers_targets,
)

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
_JOIN_ORDER = ("idmatch", "duckdb-native", "duckdb", "clickhouse", "polars")
_COLOURS = {"idmatch": charts.OURS, "duckdb": charts.DUCKDB}


def join(document: Document, folder: Path, _: argparse.Namespace) -> str:
    """Results of `run.py`."""
    contestants = document["contestants"]
    curves = {name: growth_curve(document, name) for name in ("idmatch", "duckdb")}
    coloured = {
        peers.TITLES[name]: (_COLOURS[name], curves[name]) for name in ("duckdb", "idmatch")
    }
    drawings = _drawn(
        (
            "Seconds of the join, per system",
            "comparison.svg",
            charts.draw_bars(_join_bars(document), folder / "comparison.svg", show_seconds),
        ),
        (
            "Seconds of the hot count as the table grows",
            "growth.svg",
            charts.draw_growth(coloured, folder / "growth.svg"),
        ),
    )
    known = {name: contestants[name] for name in _JOIN_ORDER if name in contestants}
    return fill(
        "join.md",
        **document,
        titles=peers.TITLES,
        joined=known,
        drawings=drawings,
        targets=join_targets(document),
        curves={name: curve for name, curve in curves.items() if len(curve) > 1},
        days=_span(_all(document, "measured")) or document["about"]["date"],
    )


def _join_bars(document: Document) -> dict[str, list[charts.Bar]]:
    """Bars of the hot count, the written result and the cold count, the fastest first."""
    titles = {"hot": "count, hot", "write": "result written as Parquet, hot", "cold": "count, cold"}
    panels = {}
    for mode, title in titles.items():
        bars = [
            charts.Bar(
                peers.TITLES[name], figures[mode]["median"], _COLOURS.get(name, charts.THEIRS)
            )
            for name, figures in document["contestants"].items()
            if "median" in figures.get(mode, {})
        ]
        if mode == "hot" and bars and "total" in document["bare"]:
            bars.append(charts.Bar("lower bound", document["bare"]["total"]["median"], charts.BARE))
        panels[title] = sorted(bars, key=lambda bar: bar.value)
    return panels


def live(document: Document, folder: Path, options: argparse.Namespace) -> str:
    """Results of `live.py` and of its peers."""
    others: Document = json.loads(options.peers.read_text()) if options.peers else {}
    titles = live_peers.TITLES
    done = {name: others[name] for name in titles if "check" in others.get(name, {})}
    steps = {
        "batches": "upserts, batches of 1,000 rows, rows a second",
        "singles": "upserts of single rows, rows a second",
    }
    rates = {
        title: {
            titles[name]: figures[step]["rows_per_second"]
            for name, figures in others.items()
            if name in done
        }
        for step, title in steps.items()
    }
    drawings = _drawn(
        (
            "Rows a second, per system",
            "live-peers.svg",
            charts.draw_rates(rates, folder / "live-peers.svg"),
        ),
        (
            "Rows a second and segments over time, in batches as fast as possible",
            "live-batches.svg",
            "batches" in document
            and charts.draw_series(document["batches"], folder / "live-batches.svg"),
        ),
    )
    return fill(
        "live.md",
        **document,
        titles=titles,
        peers=done,
        left_out={name: one for name, one in others.items() if name not in done},
        drawings=drawings,
        targets=live_targets(document),
        remarks=options.remark,
        **_when(document.values(), document["about"]),
    )


def servers(document: Document, folder: Path, options: argparse.Namespace) -> str:
    """Results of `cql.py`."""
    titles = {name: contestant.title for name, contestant in CONTESTANTS.items()}
    compared = {
        part: {
            name: document[part][name]
            for name in titles
            if name in document.get(part, {}) and "bare" not in name
        }
        for part in ("match", "load", "lookups")
    }
    rates = {
        f"match of {show_count(rows)} ids, population rows a second": {
            titles[name].replace("`", ""): figures[size]["rows_per_second"]
            for name, figures in compared["match"].items()
            if size in figures
        }
        for size, rows in document["about"]["populations"].items()
    }
    drawings = _drawn(
        (
            "Population rows a second, per system",
            "servers.svg",
            charts.draw_rates(rates, folder / "servers.svg"),
        )
    )
    stamped = (
        figures
        for part in ("load", "match", "lookups")
        for figures in document.get(part, {}).values()
    )
    bare = [
        name for name in titles if name.startswith("bare") and name in document.get("match", {})
    ]
    return fill(
        "servers.md",
        **document,
        titles=titles,
        compared=compared,
        choice_ratio=choice_ratio(document),
        drawings=drawings,
        targets=servers_targets(document),
        remarks=options.remark,
        bare=bare,
        warm_ups=WARM_UPS,
        **_when(stamped, document["about"]),
    )


def failures(document: Document, _: Path, __: argparse.Namespace) -> str:
    """Results of `cql_faults.py`."""
    days = _span(one["date"] for one in document.values())
    return fill(
        "faults.md",
        steps=document,
        one=next(iter(document.values())),
        harness=cql_faults,
        days=days,
    )


def _drawn(*drawings: tuple[str, str, bool]) -> list[tuple[str, str]]:
    """Titles and file names of what was drawn."""
    return [(title, name) for title, name, is_drawn in drawings if is_drawn]


def _when(stamped: Iterable[Any], about: Document) -> dict[str, str]:
    """The days on which steps were measured, and the load of the machine before them."""
    steps = [one for one in stamped if "measured" in one]
    loads = [one["load_before"] for one in steps] or [0]
    return {
        "days": _span(one["measured"] for one in steps) or about["date"],
        "loads": f"{min(loads):.1f} to {max(loads):.1f}",
    }


def _span(stamps: Iterable[str]) -> str:
    """From the first day to the last one; empty without any."""
    days = sorted({stamp[:10] for stamp in stamps})
    return " to ".join(sorted({*days[:1], *days[-1:]}))


def _all(value: Any, key: str) -> Iterable[str]:
    """What has this key, wherever it is."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        if name == key:
            yield inner
        else:
            yield from _all(inner, key)


_PARTS: dict[str, tuple[Callable[[Document, Path, argparse.Namespace], str], str]] = {
    "join": (join, "README.md"),
    "live": (live, "README.md"),
    "servers": (servers, "README.md"),
    "faults": (failures, "faults.md"),
}


def main() -> None:
    """Writes the part and its drawings."""
    parser = argparse.ArgumentParser(
        prog="python -m report", description="Write a part of the benchmark pages from its results."
    )
    parser.add_argument("part", choices=_PARTS)
    parser.add_argument("results", type=Path)
    parser.add_argument(
        "--peers", type=Path, help="for live: results of the peers, as live_peers.run keeps them"
    )
    parser.add_argument(
        "--remark",
        action="append",
        default=[],
        help="what a reader of the figures has to know of these runs",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=_FOLDER,
        help="where the pages and drawings are (default: docs/benchmarks)",
    )
    options = parser.parse_args()
    make, name = _PARTS[options.part]
    text = make(json.loads(options.results.read_text()), options.folder, options)
    put(options.folder / name, options.part, text)
    print(f"{options.folder / name}: the part {options.part} is written")


if __name__ == "__main__":
    main()
