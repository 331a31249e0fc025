"""Turns the results of `run.py` into their part of `docs/benchmarks.md`, and its drawings.

    python bench/report.py RESULTS.json [--docs docs]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aims import Aim, aims, growth_curve
from charts import draw_comparison, draw_growth
from pages import put, table
from peers import TITLES
from units import show_bytes, show_count, show_seconds

_ORDER = ("idmatch", "duckdb-native", "duckdb", "clickhouse", "polars")
_QUESTIONS = {
    "latest_partner_id": "`latest_partner_id(id)`", "partner_ids": "`partner_ids(id)`, as an Arrow table",
    "latest_id": "`latest_id(partner_id)`", "ids": "`ids(partner_id)`, as an Arrow table",
    "last_seen": "`last_seen(id, partner_id)`", "match_1000_rows": "`match` of 1,000 ids, counted",
    "match_1000_to_arrow": "`match` of 1,000 ids, as an Arrow table",
}


def page(document: dict[str, Any], drawings: list[tuple[str, str]]) -> str:
    """The part of the page; `drawings` are titles and file names."""
    parts = [
        _opening(document),
        *(f"![{title}](benchmarks/{name})" for title, name in drawings),
        _joins(document), _growth(document), _storing(document), _lookups(document), _bare(document),
        _aims(document), _losses(document), _left_out(document), _how(document),
    ]
    return "\n\n".join(part for part in parts if part)


def _opening(document: dict[str, Any]) -> str:
    about = document["about"]
    smaller = ""
    if about["asked_rows"] != about["rows"]:
        smaller = f" The disk of this machine was too small for the {show_count(about['asked_rows'])} rows that were asked for."
    return f"""# Benchmarks

<!-- Made by bench/report.py and bench/live_report.py; do not edit. -->

One question, asked of every contestant on the same machine with {about['threads']} threads and the same data:

```sql
SELECT count(m.partner_id) FROM population p JOIN matches m ON p.id = m.id
```

`matches` has {show_count(about['rows'])} rows (id: 32 hex digits, partner_id: 19 decimal digits, seen_at: milliseconds),
{show_bytes(about['parquet_bytes'])} of snappy Parquet. `population` has {show_count(about['population_rows'])} ids in Parquet, 60 % of which match.
All contestants gave the same count, and wrote the same rows.{smaller}"""


def _joins(document: dict[str, Any]) -> str:
    peers = document["contestants"]
    us = peers.get("idmatch", {})
    rows = []
    for name in _ORDER:
        if name not in peers:
            continue
        figures = peers[name]
        version = figures.get("hot", {}).get("version", "")
        memory = [figures[mode]["private_bytes"] for mode in ("hot", "write") if mode in figures]
        rows.append([
            f"{TITLES[name]} {version}".strip(),
            *(_time_and_ratio(figures.get(mode), us.get(mode), name) for mode in ("hot", "write", "cold")),
            show_bytes(max(memory)) if memory else "",
        ])
    if not rows:
        return ""
    return "\n\n".join((
        "## The join",
        table(["", "count, hot", "result written, hot", "count, cold", "private memory"], rows),
        "Median of the runs, with the fastest and the slowest; in bold how many times as fast idmatch is. *Hot*: after a run that warmed up. "
        "*Cold*: a new process that has done the same with small data, right after the page cache was dropped. *Written*: the joined rows (id, partner_id, seen_at) as one snappy "
        "Parquet file. *Private memory*: the peak of the process's own memory, without page cache and mapped files. DuckDB, Polars and "
        "ClickHouse read the Parquet files at each query; idmatch and DuckDB's own table were loaded before. The population is Parquet for all.",
        _written_plain(peers),
        _rocksdb(peers),
    )).strip()


def _written_plain(peers: dict[str, Any]) -> str:
    plain = {name: peers[name]["write-plain"] for name in ("idmatch", "duckdb") if "write-plain" in peers.get(name, {})}
    if len(plain) < 2:
        return ""
    ours, theirs = plain["idmatch"], plain["duckdb"]
    return (f"Without compression, which is the default of idmatch's `write_parquet`, the result is written in {show_seconds(ours['median'])} "
            f"({show_bytes(ours['result_bytes'])}); DuckDB on Parquet takes {show_seconds(theirs['median'])} ({show_bytes(theirs['result_bytes'])}), "
            f"**{theirs['median'] / ours['median']:.1f}x**.")


def _time_and_ratio(figures: dict[str, Any] | None, ours: dict[str, Any] | None, name: str) -> str:
    if not figures:
        return ""
    text = f"{show_seconds(figures['median'])} ({show_seconds(figures['min'])} - {show_seconds(figures['max'])})"
    if ours and name != "idmatch":
        text += f" **{figures['median'] / ours['median']:.1f}x**"
    return text


def _rocksdb(peers: dict[str, Any]) -> str:
    figures = peers.get("rocksdb", {}).get("hot")
    if not figures:
        return ""
    seconds = sorted(figures["seconds"])
    return (f"RocksDB {figures['version']} (`db_bench multireadrandom`) looked up {show_count(figures['keys'])} random keys in a store of "
            f"{show_count(figures['rows'])} rows, in batches of {figures['batch']} on {figures['threads']} threads, in "
            f"**{show_seconds(seconds[len(seconds) // 2])}** ({show_seconds(seconds[0])} - {show_seconds(seconds[-1])}). That is a simpler job than the "
            f"join: all keys exist, nothing is read from Parquet, nothing is verified. {figures['assertions']}.")


def _growth(document: dict[str, Any]) -> str:
    curves = {name: curve for name in ("idmatch", "duckdb") if len(curve := growth_curve(document, name)) > 1}
    sizes = sorted({rows for curve in curves.values() for rows in curve})
    if not sizes:
        return ""
    rows = [
        [TITLES[name], *(show_seconds(curve[size]) if size in curve else "" for size in sizes),
         f"{curve[max(curve)] / curve[min(curve)]:.2f} times"]
        for name, curve in curves.items()
    ]
    return "\n\n".join((
        "## As the table grows", "The population stays the same, and so does its match rate; the count is hot.",
        table(["", *(f"{show_count(size)} rows" for size in sizes), "first to last"], rows),
    ))


def _storing(document: dict[str, Any]) -> str:
    ours, rows = document["idmatch"], []
    loads = [("one load", ours.get("load")), ("ten loads", ours.get("ten_loads", {}).get("load"))]
    for title, load in loads:
        if load:
            rows.append([
                title, show_seconds(load["seconds"]), f"{show_count(load['rows_per_second'])} rows/s", show_bytes(load["private_bytes"]),
                f"{show_bytes(load['store_bytes'])} ({load['store_bytes'] / load['parquet_bytes']:.2f} of Parquet)",
                f"{show_bytes(load['extra_disk_bytes'])} ({load['extra_disk_bytes'] / load['store_bytes']:.2f} of the store)",
            ])
    if not rows:
        return ""
    parts = [
        "## Loading and opening",
        table(["idmatch, both directions, durable", "time", "speed", "private memory", "store", "extra disk at the peak"], rows),
    ]
    native = document["contestants"].get("duckdb-native", {}).get("load")
    if native:
        parts.append(f"DuckDB took {show_seconds(native['seconds'])} to load its own table ({show_count(native['rows_per_second'])} rows/s, "
                     f"{show_bytes(native['private_bytes'])} of private memory, {show_bytes(native['store_bytes'])} on disk), which has no index.")
    one, ten = document["contestants"].get("idmatch", {}).get("hot"), ours.get("ten_loads", {}).get("hot")
    if one and ten:
        parts.append(f"The count over the store of ten loads, not compacted, takes {show_seconds(ten['median'])}; over the store of one load "
                     f"{show_seconds(one['median'])}.")
    if "open" in ours:
        cold = f", {show_seconds(ours['open']['cold_seconds'])} with the page cache dropped" if ours["open"].get("cold_seconds") else ""
        parts.append(f"Opening the store takes {show_seconds(ours['open']['median'])}{cold}.")
    return "\n\n".join(parts)


def _lookups(document: dict[str, Any]) -> str:
    rows = []
    for step, language in (("lookups", "Python"), ("lookups_rust", "Rust")):
        for question, figure in document["idmatch"].get(step, {}).get("questions", {}).items():
            rows.append([f"{_QUESTIONS.get(question, question)} from {language}", show_seconds(figure["median"]), show_seconds(figure["p99"])])
    if not rows:
        return ""
    return "\n\n".join(("## Single lookups", "Keys that are stored and were asked for before, one call at a time.",
                        table(["", "median", "99th percentile"], rows)))


def _bare(document: dict[str, Any]) -> str:
    bare = document["bare"]
    if "total" not in bare:
        return ""
    steps = [[step, show_seconds(bare[step]["median"])] for step in ("decode", "hash", "sort", "probe", "total")]
    return "\n\n".join((
        "## The bare cost",
        "What a join by hashes must do at the very least, on the same threads: decode the population, hash its ids, sort the hashes, probe a "
        "flat array in memory that has as many hashes as the table has rows. Nothing is read from a store, no id is verified.",
        table(["step", "median"], steps),
    ))


def _aims(document: dict[str, Any]) -> str:
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [[aim.figure, aim.measured, aim.aim, words[aim.reached]] for aim in aims(document)]
    return "\n\n".join(("## What was aimed at", table(["figure", "measured", "aim", "reached"], rows)))


def _losses(document: dict[str, Any]) -> str:
    """Every figure in which a peer is better, and every aim that was missed."""
    peers, ours = document["contestants"], document["idmatch"]
    us = peers.get("idmatch", {})
    if not us:
        return ""
    lines = []
    for name in _ORDER[1:]:
        for mode, what in (("hot", "count, hot"), ("write", "result written"), ("cold", "count, cold")):
            theirs, own = peers.get(name, {}).get(mode), us.get(mode)
            if not theirs or not own:
                continue
            if theirs["median"] < own["median"]:
                lines.append(f"{what}: {TITLES[name]} is {own['median'] / theirs['median']:.1f} times as fast.")
            if theirs["private_bytes"] < own["private_bytes"]:
                lines.append(f"{what}: {TITLES[name]} needs {show_bytes(theirs['private_bytes'])} of private memory, "
                             f"idmatch {show_bytes(own['private_bytes'])}.")
    native, load = peers.get("duckdb-native", {}).get("load"), ours.get("load")
    if native and load:
        if native["seconds"] < load["seconds"]:
            lines.append(f"DuckDB loads its own table, one direction and no index, {load['seconds'] / native['seconds']:.1f} times as fast.")
        if native["store_bytes"] < load["store_bytes"]:
            lines.append(f"DuckDB's own table takes {show_bytes(native['store_bytes'])}, the store with both directions {show_bytes(load['store_bytes'])}.")
    if load:
        lines.append("The peers that read Parquet need no load: one that is asked a single time may be done before idmatch has loaded "
                     f"({show_seconds(load['seconds'])}).")
    missed: list[Aim] = [aim for aim in aims(document) if aim.reached is False]
    lines += [f"Aim missed: {aim.figure}: {aim.measured}, aimed at {aim.aim}." for aim in missed]
    lines.append("Queries other than these (aggregates, other columns, other join keys) are not what idmatch is for; an SQL engine answers them.")
    return "\n\n".join(("## Where idmatch loses", "\n".join(f"- {line}" for line in lines)))


def _left_out(document: dict[str, Any]) -> str:
    if not document["skipped"]:
        return ""
    lines = (f"- {step.removeprefix('contestants ')}: {reason}" for step, reason in document["skipped"].items())
    return "\n\n".join(("## What was left out", "\n".join(lines)))


def _how(document: dict[str, Any]) -> str:
    about = document["about"]
    machine = about["machine"]
    days = sorted({stamp[:10] for stamp in _stamps(document)}) or [about["date"]]
    measured = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    commands = ", ".join(f"`{command}`" for command in about["commands"])
    return f"""## How it was measured

- machine: {machine['processor']}, {machine['processors']} processors, {show_bytes(machine['memory_bytes'])} of memory, disk of \
{show_bytes(machine['disk_bytes'])}, {machine['system']}, Linux {machine['kernel']}, Python {machine['python']}
- date: {measured}
- data: made from seed {about['seed']}; memory limit of the peers that take one: {show_bytes(about['memory_limit_bytes'])}
- commands: {commands}; `make bench` runs them with everything they need, `make bench-report` writes this page
- every contestant runs in a process of its own, bound to {about['threads']} processors"""


def _stamps(value: Any) -> Iterable[str]:
    """All times at which something was measured."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "measured" and isinstance(inner, str):
                yield inner
            else:
                yield from _stamps(inner)


def main() -> None:
    """Writes the page and the drawings."""
    parser = argparse.ArgumentParser(description="Write docs/benchmarks.md from the results of bench/run.py.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--docs", type=Path, default=Path(__file__).resolve().parent.parent / "docs")
    options = parser.parse_args()
    document = json.loads(options.results.read_text())
    drawings = []
    folder = options.docs / "benchmarks"
    if draw_comparison(document["contestants"], document["bare"], folder / "comparison.svg"):
        drawings.append(("Seconds of the join, per contestant", "comparison.svg"))
    curves = {name: growth_curve(document, name) for name in ("duckdb", "idmatch")}
    if draw_growth(curves, folder / "growth.svg"):
        drawings.append(("Seconds of the hot count as the table grows", "growth.svg"))
    put(options.docs / "benchmarks.md", "join", page(document, drawings))
    print(f"{options.docs / 'benchmarks.md'}: written, with {len(drawings)} drawings")


if __name__ == "__main__":
    main()
