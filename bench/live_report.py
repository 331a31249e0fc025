"""Turns the results of `live.py` and of its peers into their part of `docs/benchmarks.md`, and its drawings.

    python bench/live_report.py LIVE.json [--peers PEERS.json] [--remark TEXT ...] [--docs docs]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from charts import draw_rates, draw_series
from live_aims import live_aims
from live_peers import TITLES
from pages import put, table
from units import show_bytes, show_count, show_seconds

Figures = dict[str, Any]
_QUANTILES = {"p50": "median", "p99": "p99", "p99_9": "p99.9", "max": "max"}


def section(live: Figures, peers: Figures, remarks: list[str], drawings: list[tuple[str, str]]) -> str:
    """The part of the page; `drawings` are titles and file names."""
    about = live["about"]
    parts = [
        f"""# Writing while reading

A store of {show_count(about['rows'])} rows (data as above) is written and read at once, by one process, on {about['machine']['processors']} processors. An upsert
is acknowledged when it is on disk, and then found in both directions. Half of the upserted rows are new pairs, half are pairs of the table with a newer date.""",
        *(f"![{title}](benchmarks/{name})" for title, name in drawings),
        _upserts(live), _mixed(live), _growth(live), _reopen(live), _peers(peers), _aims(live), _losses(peers), _how(live, remarks),
    ]
    return "\n\n".join(part for part in parts if part)


def _latency(figures: Figures) -> list[str]:
    return [show_seconds(figures[name]) for name in _QUANTILES]


def _upserts(live: Figures) -> str:
    rows = []
    for step, title in (("batches", "batches of 1,000 rows, 4 threads"), ("singles", "single rows, 32 threads")):
        if step in live:
            written = live[step]["written"]
            rows.append([
                title, show_seconds(written["seconds"]), f"{show_count(written['rows_per_second'])} rows/s",
                f"{show_count(written['slowest_slice'])} rows/s", *_latency(written["latency"]), show_bytes(live[step]["private_bytes"]),
            ])
    if not rows:
        return ""
    disk = f" One fdatasync of this disk takes {show_seconds(live['disk']['latency']['p50'])}." if "disk" in live else ""
    idle = ""
    if "batches" in live:
        figures = live["batches"]
        idle = (f" The batches left {figures['after']['segments']} segments; the background was done {show_seconds(figures['idle_after_seconds'])} later, "
                f"with {figures['idle']['segments']}.")
    return "\n\n".join((
        "## Upserts", table(["as fast as possible, durable", "for", "rate", "slowest 10 s", *_QUANTILES.values(), "private memory"], rows),
        f"Latency is that of a call.{disk}{idle}",
    ))


def _mixed(live: Figures) -> str:
    if "mixed" not in live:
        return ""
    mixed = live["mixed"]
    joins = [
        ["quiet", show_seconds(mixed["join_quiet"]["median"]), ""],
        [f"under {show_count(mixed['upserts']['rows_per_second'])} upserts/s", show_seconds(mixed["join_under_upserts"]["median"]),
         f"{mixed['join_under_upserts_ratio']:.2f} times"],
        [f"and {show_count(mixed['lookups']['lookups_per_second'])} lookups/s", show_seconds(mixed["join_under_both"]["median"]),
         f"{mixed['join_under_both_ratio']:.2f} times"],
    ]
    lookups = [
        ["alone", *_latency(mixed["lookups_alone"]["latency"])],
        ["under joins and upserts", *_latency(mixed["lookups"]["latency"])],
        ["the same, from the begin of the call", *_service(mixed["lookups"]["from_begin_to_answer"])],
    ]
    return "\n\n".join((
        "## Reading meanwhile",
        table([f"the join of {show_count(mixed['join_quiet']['population'])} ids, one after another", "median", "against quiet"], joins),
        table([f"lookups, {show_count(mixed['asked_lookups_per_second'])} a second to a fixed schedule", *_QUANTILES.values()], lookups),
        f"Each line of joins, and the lookups under them, took {show_seconds(mixed['lookups']['seconds'])}. A lookup counts from the moment at which it was due, so that one which waits makes the next ones late too. Most of what is "
        "late waited for a processor: there are two, and the join alone takes both.",
    ))


def _service(figures: Figures) -> list[str]:
    return [show_seconds(figures[name]) if name in figures else "" for name in _QUANTILES]


def _growth(live: Figures) -> str:
    if "growth" not in live:
        return ""
    growth = live["growth"]
    rows = [
        ["join", show_seconds(growth["join"]["median"]), show_seconds(growth["fresh_join"]["median"]), f"{growth['join_ratio']:.2f} times"],
        ["bytes", show_bytes(growth["store_bytes"]), show_bytes(growth["fresh"]["bytes"]), f"{growth['bytes_ratio']:.2f} times"],
        ["segments", str(growth["idle"]["segments"]), str(growth["fresh"]["segments"]), ""],
    ]
    return "\n\n".join((
        "## After many upserts",
        f"{show_count(growth['written']['rows'])} rows were upserted ({show_count(growth['written']['rows_per_second'])} rows/s), then nothing until the background "
        f"was idle, {show_seconds(growth['idle_after_seconds'])} later; against a store into which the same rows were loaded.",
        table(["", "upserted", "freshly loaded", ""], rows),
    ))


def _reopen(live: Figures) -> str:
    if "reopen" not in live:
        return ""
    figures = live["reopen"]
    return (f"## After a kill\n\nThe writer was killed with {show_bytes(figures['journal_bytes'])} of journal ({show_count(figures['memtable_rows'])} rows). "
            f"Opening the store took {show_seconds(figures['open'])}, the first lookup {show_seconds(figures['first_lookup'])}, the first upsert "
            f"{show_seconds(figures['first_upsert'])}.")


def _peers(peers: Figures) -> str:
    done = {name: peers[name] for name in TITLES if "check" in peers.get(name, {})}
    if not done:
        return ""
    us = done.get("idmatch", {})
    rows = [
        [
            f"{TITLES[name]} {figures['version']}", _rate(figures, us, "fill", name), _rate(figures, us, "batches", name), _ms(figures["batches"]),
            _rate(figures, us, "singles", name), _ms(figures["singles"]), _lookup_rate(figures), show_bytes(figures["bytes"]["bytes"]),
        ]
        for name, figures in done.items()
    ]
    any_figures = next(iter(done.values()))
    settings = [f"- {TITLES[name]}: " + "; ".join(f"{key}: {value}" for key, value in figures["settings"].items()) for name, figures in done.items()]
    left_out = [
        f"- {TITLES[name]}: {figures.get('left_out') or figures.get('failed')}"
        for name, figures in peers.items() if name not in done
    ]
    return "\n\n".join((
        "## Beside others",
        f"Each has {show_count(any_figures['rows'])} rows, answers in both directions, acknowledges what is on disk, and keeps the newest date of a pair; all are "
        f"driven from Python, for {any_figures['seconds']:.0f} s each, one after another. In bold how many times as fast idmatch is. A sample of each was checked against a model "
        "after the store was opened again.",
        table(["", "fill, rows/s", "batches of 1,000, rows/s", "p99", "single rows/s", "p99", "lookups/s", "on disk"], rows),
        "\n".join(settings),
        "\n".join(["Left out:", *left_out]) if left_out else "",
        "The table is smaller than the one above, because some need most of an hour to fill 100 M rows; all of it fits into memory here, which is kind to those that read before they write.",
    )).strip()


def _rate(figures: Figures, us: Figures, step: str, name: str) -> str:
    text = show_count(figures[step]["rows_per_second"])
    if us and name != "idmatch":
        text += f" **{us[step]['rows_per_second'] / figures[step]['rows_per_second']:.1f}x**"
    return text


def _ms(figures: Figures) -> str:
    return show_seconds(figures["p99_ms"] / 1e3)


def _lookup_rate(figures: Figures) -> str:
    return show_count(figures["lookups"]["by_id"]["lookups_per_second"])


def _aims(live: Figures) -> str:
    words = {True: "yes", False: "**no**", None: "not measured"}
    rows = [[aim.figure, aim.measured, aim.aim, words[aim.reached]] for aim in live_aims(live)]
    return "\n\n".join(("## What was aimed at while writing", table(["figure", "measured", "aim", "reached"], rows)))


def _losses(peers: Figures) -> str:
    us = peers.get("idmatch", {})
    lines = []
    for name in TITLES:
        figures = peers.get(name, {})
        if name == "idmatch" or "check" not in figures or "check" not in us:
            continue
        for step, what in (("fill", "fills"), ("batches", "takes batches"), ("singles", "takes single rows")):
            if figures[step]["rows_per_second"] > us[step]["rows_per_second"]:
                lines.append(f"{TITLES[name]} {what} {figures[step]['rows_per_second'] / us[step]['rows_per_second']:.1f} times as fast.")
            if step != "fill" and figures[step]["p99_ms"] < us[step]["p99_ms"]:
                lines.append(f"{TITLES[name]} {what} with a p99 of {_ms(figures[step])}, idmatch with {_ms(us[step])}.")
        for side, what in (("by_id", "by id"), ("by_partner_id", "by partner_id")):
            theirs, ours = figures["lookups"][side]["lookups_per_second"], us["lookups"][side]["lookups_per_second"]
            if theirs > ours:
                lines.append(f"{TITLES[name]} answers {theirs / ours:.1f} times as many lookups {what} from Python.")
        if figures["bytes"]["bytes"] < us["bytes"]["bytes"]:
            lines.append(f"{TITLES[name]} needs {show_bytes(figures['bytes']['bytes'])} on disk, idmatch {show_bytes(us['bytes']['bytes'])}.")
    lines.append("One process writes a store at a time. PostgreSQL and Redis take writes of many, also from other machines.")
    return "\n\n".join(("## Where idmatch loses while writing", "\n".join(f"- {line}" for line in lines)))


def _how(live: Figures, remarks: list[str]) -> str:
    about = live["about"]
    machine = about["machine"]
    days = sorted({figures["measured"][:10] for figures in live.values() if isinstance(figures, dict) and "measured" in figures})
    loads = [figures["load_before"] for figures in live.values() if isinstance(figures, dict) and "load_before" in figures]
    return f"""## How writing was measured

- machine: {machine['processor']}, {machine['processors']} processors, {show_bytes(machine['memory_bytes'])} of memory, {machine['system']}, Linux {machine['kernel']}
- date: {' to '.join(sorted({days[0], days[-1]}))}; load average before each step {min(loads):.1f} to {max(loads):.1f}
- commands: `make bench-live`, `make bench-live-peers`, `make bench-live-report`; options: {', '.join(f'`{command}`' for command in about['commands'])}""" + "".join(f"\n- {remark}" for remark in remarks)


def main() -> None:
    """Writes the part of the page and the drawings."""
    parser = argparse.ArgumentParser(description="Write the part of docs/benchmarks.md on writing.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--peers", type=Path, help="results of the peers, as live_peers.run keeps them")
    parser.add_argument("--remark", action="append", default=[], help="what a reader of the figures has to know of these runs")
    parser.add_argument("--docs", type=Path, default=Path(__file__).resolve().parent.parent / "docs")
    options = parser.parse_args()
    live = json.loads(options.results.read_text())
    peers = json.loads(options.peers.read_text()) if options.peers else {}
    drawings, folder = [], options.docs / "benchmarks"
    if draw_rates({TITLES[name]: figures for name, figures in peers.items() if "check" in figures}, folder / "live-peers.svg"):
        drawings.append(("Rows a second, per contestant", "live-peers.svg"))
    if "batches" in live and draw_series(live["batches"], folder / "live-batches.svg"):
        drawings.append(("Rows a second and segments over time, in batches as fast as possible", "live-batches.svg"))
    put(options.docs / "benchmarks.md", "live", section(live, peers, options.remark, drawings))
    print(f"{options.docs / 'benchmarks.md'}: the part on writing is written, with {len(drawings)} drawings")


if __name__ == "__main__":
    main()
