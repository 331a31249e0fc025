"""Turns the results of `cql.py` into their part of `docs/benchmarks.md`, and its drawing.

python bench/cql_report.py RESULTS.json [--remark TEXT ...] [--docs docs]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from charts import draw_panels
from cql_aims import choice_ratio, cql_aims
from cql_programs import CONTESTANTS
from cql_steps import WARM_UPS
from pages import put, table
from units import show_bytes, show_count, show_seconds

Figures = dict[str, Any]
_US = "idmatch"


def section(document: Figures, remarks: list[str], drawings: list[tuple[str, str]]) -> str:
    """The part of the page; `drawings` are titles and file names."""
    parts = [
        _opening(document),
        *(f"![{title}](benchmarks/{name})" for title, name in drawings),
        _matches(document),
        _bounds(document),
        _loads(document),
        _lookups(document),
        _hot(document),
        _aims(document),
        _losses(document),
        _left_out(document),
        _how(document, remarks),
    ]
    return "\n\n".join(part for part in parts if part)


def _opening(document: Figures) -> str:
    about = document["about"]
    return f"""# On servers

One Cassandra {about["node"]["version"]} node and one client at a time share \
{about["machine"]["processors"]} processors. A table of {show_count(about["rows"])} rows (data as \
above) is loaded in both directions, and matched with populations, of which \
{about["matching_percent"]} % are found. Every contestant has to name the number of rows found and \
the sum of their dates, so that it must have received them all; every answer was right. idmatch \
has its own tables. The others have the usual ones, a partition for each id, with leveled \
compaction and LZ4 as well. Tables to be matched and looked up in are compacted before \
(`nodetool compact`): otherwise it is a matter of chance how many files a partition is in. That is \
not counted."""


def _peers(document: Figures, part: str) -> dict[str, Figures]:
    """Those that have figures, without the ones that only show what is possible."""
    found = document.get(part, {})
    return {name: found[name] for name in CONTESTANTS if name in found and "bare" not in name}


def _matches(document: Figures) -> str:
    peers, populations = _peers(document, "match"), document["about"]["populations"]
    if not peers:
        return ""
    us = peers.get(_US, {})
    rows = [
        [
            f"{CONTESTANTS[name].title} {figures.get('version') or ''}".strip(),
            *(_rate(figures.get(size), us.get(size), name) for size in populations),
        ]
        for name, figures in peers.items()
    ]
    head = [f"{show_count(rows)} ids ({size} %)" for size, rows in populations.items()]
    settings = [
        f"- {CONTESTANTS[name].title}: "
        + "; ".join(f"{key}: {value}" for key, value in figures["settings"].items())
        for name, figures in peers.items()
    ]
    return "\n\n".join(
        (
            "## Matching on servers",
            table(["population rows a second", *head], rows),
            "Median of the runs, with the time of one; in bold how many times as fast idmatch is. "
            "The population is Parquet for all, and reading it is part of the time. Starting a "
            "client is not: each was warmed up with the second population.",
            "\n".join(settings),
        )
    )


def _rate(figures: Figures | None, ours: Figures | None, name: str) -> str:
    if not figures:
        return ""
    once = ", one run" if len(figures["seconds"]) == 1 else ""
    text = f"{show_count(figures['rows_per_second'])} ({show_seconds(figures['median'])}{once})"
    if ours and name != _US:
        text += f" **{figures['median'] / ours['median']:.1f}x**"
    return text


def _bounds(document: Figures) -> str:
    """What a client could do that does no more than it must, on idmatch's own tables."""
    found, populations = document.get("match", {}), document["about"]["populations"]
    names = [name for name in CONTESTANTS if name.startswith("bare") and name in found]
    if not names:
        return ""
    rows = [
        [
            CONTESTANTS[name].title.removeprefix("bare: "),
            *(_rate(found[name].get(size), None, name) for size in populations),
        ]
        for name in names
    ]
    ratio = choice_ratio(document)
    choice = "Which way is the best depends on how much of a table is asked for. idmatch chooses"
    if chosen := _chosen(document):
        choice += f": {chosen}"
    if ratio:
        choice += f"; the largest takes {ratio:.2f} times as long as in the better way"
    return "\n\n".join(
        (
            "## What these tables allow",
            "The Rust driver on idmatch's own tables, by a program that reads in one way and only "
            "counts. This is the least that idmatch must cost.",
            table(["population rows a second", *(f"{size} %" for size in populations)], rows),
            f"{choice}.",
        )
    )


def _chosen(document: Figures) -> str:
    """What idmatch says about how it read each population the last time."""
    found = document["match"].get(_US, {})
    sizes = [
        f"of {size} % "
        + " and ".join(
            f"{show_count(step['keys'])} by {step['how']}" for step in found[size]["plan"]
        )
        for size in document["about"]["populations"]
        if found.get(size, {}).get("plan")
    ]
    return ", ".join(sizes)


def _loads(document: Figures) -> str:
    peers = _peers(document, "load")
    if not peers:
        return ""
    us = peers.get(_US)
    rows = []
    for name, figures in peers.items():
        text = f"{show_count(figures['rows_per_second'])} rows/s"
        if us and name != _US:
            text += f" **{us['rows_per_second'] / figures['rows_per_second']:.1f}x**"
        after = [one["flush_seconds"] + one["settled_seconds"] for one in figures["runs"]]
        rows.append(
            [
                CONTESTANTS[name].title,
                show_count(figures["rows"]),
                text,
                show_seconds(figures["median"]),
                show_seconds(sorted(after)[len(after) // 2]),
            ]
        )
    return "\n\n".join(
        (
            "## Loading on servers",
            table(["both directions", "rows", "rate", "time", "at rest after"], rows),
            "Median of the loads, each into new tables, acknowledged row by row or batch by batch. "
            "*At rest after*: how long the server then took to write what was in memory, and to "
            "compact. In bold how many times as fast idmatch is.",
        )
    )


def _lookups(document: Figures) -> str:
    found = document.get("lookups", {})
    rows = [
        [
            CONTESTANTS[name].title,
            show_seconds(found[name]["median"]),
            show_seconds(found[name]["p99"]),
        ]
        for name in CONTESTANTS
        if name in found
    ]
    if not rows:
        return ""
    return "\n\n".join(
        (
            "## Single lookups on servers",
            table(["one after the other", "median", "99th percentile"], rows),
            "All rows of an id that is there, in rounds; medians of the runs' figures. "
            "*bare*: on idmatch's own tables. idmatch gives an Arrow table to Python.",
        )
    )


def _hot(document: Figures) -> str:
    hot = document.get("hot")
    if not hot:
        return ""
    return (
        f"## A hot key\n\nThe newest 10 values of a key that has {show_count(hot['values'])}: "
        f"{show_seconds(hot['median'])} ({show_seconds(hot['min'])} - {show_seconds(hot['max'])}); "
        f"loading them took {show_seconds(hot['load']['seconds'])}."
    )


def _aims(document: Figures) -> str:
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [[aim.figure, aim.measured, aim.aim, words[aim.reached]] for aim in cql_aims(document)]
    head = ["figure", "measured", "aim", "reached"]
    return "\n\n".join(("## What was aimed at on servers", table(head, rows)))


def _losses(document: Figures) -> str:
    """Every figure in which another one is better, and every aim that was missed."""
    lines = []
    populations = document["about"]["populations"]
    matches = _peers(document, "match")
    for size, rows in populations.items():
        ours = matches.get(_US, {}).get(size)
        for name, figures in matches.items():
            theirs = figures.get(size)
            if ours and theirs and name != _US and theirs["median"] < ours["median"]:
                lines.append(
                    f"{CONTESTANTS[name].title} matches {show_count(rows)} ids "
                    f"{ours['median'] / theirs['median']:.2f} times as fast."
                )
    for part, what in (("load", "rows_per_second"), ("lookups", "median")):
        found = _peers(document, part)
        for name, figures in found.items():
            if name.startswith(_US) or _US not in found:
                continue
            ratio = figures[what] / found[_US][what]
            ratio = ratio if part == "load" else 1 / ratio
            if ratio > 1:
                did = "loads" if part == "load" else "answers single lookups"
                lines.append(f"{CONTESTANTS[name].title} {did} {ratio:.2f} times as fast.")
    lines += [
        f"Aim missed: {aim.figure}: {aim.measured}, aimed at {aim.aim}."
        for aim in cql_aims(document)
        if aim.reached is False
    ]
    lines += [
        "Tables of idmatch are its own: a program that reads tables of one row a partition cannot "
        "read them as they are, and idmatch cannot read what is there already without a load.",
        "One node, which shares its processors with the client, is no cluster: how these figures "
        "are on many nodes was not measured.",
    ]
    listed = "\n".join(f"- {line}" for line in lines)
    return f"## Where idmatch loses on servers\n\n{listed}"


def _left_out(document: Figures) -> str:
    skipped = document.get("skipped")
    if not skipped:
        return ""
    listed = "\n".join(f"- {step}: {reason}" for step, reason in skipped.items())
    return f"## What was left out on servers\n\n{listed}"


def _how(document: Figures, remarks: list[str]) -> str:
    about = document["about"]
    machine, node = about["machine"], about["node"]
    stamps = [
        figures
        for part in ("load", "match", "lookups")
        for figures in document.get(part, {}).values()
    ]
    days = sorted({figures["measured"][:10] for figures in stamps}) or [about["date"]]
    loads = [figures["load_before"] for figures in stamps] or [0]
    settings = ", ".join(f"{name}: {value}" for name, value in node["settings"].items())
    lines = [
        f"machine: {machine['processor']}, {machine['processors']} processors, "
        f"{show_bytes(machine['memory_bytes'])} of memory, {machine['system']}, "
        f"Linux {machine['kernel']}",
        f"date: {' to '.join(sorted({days[0], days[-1]}))}; load average before each step "
        f"{min(loads):.1f} to {max(loads):.1f}",
        f"node: heap of {show_bytes(node['heap_bytes'])}, {settings}; "
        "one copy of each row, LOCAL_QUORUM for all",
        "Java: " + " ".join(f"`{option}`" for option in node["java_options"]),
        f"warm-up: {show_count(about['warm_up_requests'])} rows written in both ways, "
        f"{WARM_UPS * about['warm_up_seconds']:g} s of reading in each of three ways, then "
        f"{about['warm_up_seconds']:g} s of its own by each contestant; none of that counts",
        "commands: `make bench-cql`, `make bench-cql-report`; options: "
        + ", ".join(f"`{command}`" for command in about["commands"]),
        *remarks,
    ]
    return "## How it was measured on servers\n\n" + "\n".join(f"- {line}" for line in lines)


def main() -> None:
    """Writes the part of the page and the drawing."""
    parser = argparse.ArgumentParser(
        description="Write the part of docs/benchmarks.md on servers from results of cql.py."
    )
    parser.add_argument("results", type=Path)
    parser.add_argument(
        "--remark", action="append", default=[], help="what a reader of the figures has to know"
    )
    docs = Path(__file__).resolve().parent.parent / "docs"
    parser.add_argument("--docs", type=Path, default=docs)
    options = parser.parse_args()
    document = json.loads(options.results.read_text())
    drawings = []
    panels = {
        f"match of {show_count(rows)} ids, population rows a second": {
            CONTESTANTS[name].title.replace("`", ""): figures[size]["rows_per_second"]
            for name, figures in _peers(document, "match").items()
            if size in figures
        }
        for size, rows in document["about"]["populations"].items()
    }
    if draw_panels(panels, options.docs / "benchmarks" / "servers.svg"):
        drawings.append(("Population rows a second, per contestant", "servers.svg"))
    put(options.docs / "benchmarks.md", "servers", section(document, options.remark, drawings))
    print(f"{options.docs / 'benchmarks.md'}: the part on servers is written")


if __name__ == "__main__":
    main()
