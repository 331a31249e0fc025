"""Writes what `cql_faults.py` measured into docs/operations.md."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from cql_faults import AWAY, BACK, CEILING, MATCH_EVERY, RESTART_BATCH, RESTART_RATE, UPSERT_ROWS
from pages import put, table
from units import show_bytes, show_count, show_seconds

Figures = dict[str, Any]

_KINDS = {
    "lookup": "a lookup",
    "upsert": "an upsert of one row",
    "match": "a match of 2 % of the rows",
    "load": "a load of 20,000 rows",
    "erase": "an erasure of one id",
}


def section(document: Figures) -> str:
    """The part of the page."""
    parts = []
    for step, (title, told) in _STEPS.items():
        if step in document:
            parts += [f"**{title}**", told(document[step]["found"])]
    measured = list(document.values())
    machine = measured[0]["machine"]
    days = sorted({one["date"] for one in measured})
    commands = sorted({one["command"] for one in measured})
    settings = [f"`{name}: {value}`" for name, value in measured[0]["settings"].items()]
    settings += [f"`{option}`" for option in measured[0]["java_options"]]
    parts.append(
        f"Measured on {machine['processor']}, {machine['processors']} processors, which three nodes "
        f"(Cassandra, {show_bytes(measured[0]['heap_bytes'])} of heap each, {', '.join(settings)}) and the client shared; "
        f"{show_count(measured[0]['rows'])} rows, three copies of each; {' to '.join(sorted({days[0], days[-1]}))}; "
        + ", ".join(f"`{command}`" for command in commands)
        + ". With so few processors a node that starts takes time from all."
    )
    return "\n\n".join(parts)


def _away(found: Figures) -> str:
    rows = []
    for name, figures in found.items():
        rows.append(
            [
                _KINDS[name],
                *(_latency(figures[when]) for when in ("before", "at_first", "after")),
                str(len(figures["errors"])),
            ]
        )
    head = [
        "over and over: calls, median, p99, longest",
        "before",
        f"in the first {BACK:g} s",
        "after them",
        "errors",
    ]
    return table(head, rows)


def _latency(figures: Figures) -> str:
    if not figures["calls"]:
        return "none began"
    times = ", ".join(show_seconds(figures[name]) for name in ("median", "p99", "max"))
    return f"{show_count(figures['calls'])}: {times}"


def _took(figures: Figures) -> str:
    return f"median {show_seconds(figures['median'])}, longest {show_seconds(figures['max'])}"


def _rolling(found: Figures) -> str:
    return (
        f"{found['matches']} matches of {show_count(found['population'])} ids, "
        f"{found['wrong_matches']} with a wrong count (one began every {MATCH_EVERY:g} s, or when the one before had ended; {_took(found['match'])}), "
        f"and {show_count(found['upserted'])} rows upserted "
        f"in batches of {RESTART_BATCH} ({show_count(found['upserts_per_second'])}/s; "
        f"{show_count(RESTART_RATE)}/s were asked for; {_took(found['upsert'])}) "
        f"while each node was away for {AWAY:g} s and its "
        f"start: {len(found['errors'])} errors, {found['lost']} rows lost, {found['differences']} "
        "differences between the directions."
    )


def _overload(found: Figures) -> str:
    return (
        f"Four threads upsert {UPSERT_ROWS} rows at a time with `max_requests_per_second={CEILING}`: "
        f"{show_count(found['upserts_per_second'])} rows/s, {len(found['errors'])} errors; memory {show_bytes(found['memory'])}, and {show_bytes(found['memory_growth'])} more at most."
    )


_STEPS = {
    "killed": ("One node of three is killed", _away),
    "frozen": ("One hangs", _away),
    "rolling": ("All are restarted, one after the other", _rolling),
    "overload": ("Far more is asked than the ceiling allows", _overload),
}


def main() -> None:
    """Writes the part."""
    parser = argparse.ArgumentParser(description="Write the measured faults into docs/operations.md.")
    parser.add_argument("results", type=Path)
    docs = Path(__file__).resolve().parent.parent / "docs"
    parser.add_argument("--docs", type=Path, default=docs)
    options = parser.parse_args()
    page = options.docs / "operations.md"
    put(page, "faults", section(json.loads(options.results.read_text())))
    print(f"{page}: the part on faults is written")


if __name__ == "__main__":
    main()
