"""Rounds of a comparison: a baseline, the baseline again, and another, in turn.

Every other round runs backwards. A figure is worse (or better) only where the median ratio of the
other to the baseline lies outside the range of the baseline to itself. Figures are seconds, or
bytes where their names end with `memory`; a ratio above 1 is worse.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from progress import log
from report.pages import table
from units import show_bytes, show_seconds

BASE, AGAIN, OTHER = "base", "base again", "other"

Figures = dict[str, Any]
Round = dict[str, Figures]


def run(
    measure: Callable[[str], Figures], rounds: int, warm_up: Sequence[str] = (BASE,)
) -> list[Round]:
    """The figures of all rounds, after those of the warm-up, which do not count."""
    for name in warm_up:
        log(f"warm-up, {name}: {_told(measure(name))}")
    measured = []
    for number in range(rounds):
        order = (BASE, AGAIN, OTHER) if number % 2 == 0 else (OTHER, AGAIN, BASE)
        figures = {}
        for name in order:
            figures[name] = measure(name)
            log(f"round {number + 1}, {name}: {_told(figures[name])}")
        measured.append(figures)
    return measured


def compare(rounds: list[Round]) -> Figures:
    """Of each figure the medians, the median ratio, the range of the baseline and the verdict."""
    return {figure: _compare(rounds, figure) for figure in rounds[0][BASE]}


def _compare(rounds: list[Round], figure: str) -> Figures:
    def ratios(name: str) -> list[float]:
        return [measured[name][figure] / measured[BASE][figure] for measured in rounds]

    again, ratio = ratios(AGAIN), statistics.median(ratios(OTHER))
    verdict = "worse" if ratio > max(again) else "better" if ratio < min(again) else "same"
    return {
        name: statistics.median(measured[name][figure] for measured in rounds)
        for name in (BASE, AGAIN, OTHER)
    } | {"ratio": ratio, "least": min(again), "most": max(again), "verdict": verdict}


def page(head: Sequence[str], figures: Figures) -> str:
    """Compared figures as a table; `head` has what stands over the columns but the last."""
    rows = [
        [
            name,
            _shown(name, one[BASE]),
            _shown(name, one[OTHER]),
            f"{one['ratio']:.3f}",
            f"{one['least']:.3f} - {one['most']:.3f}",
            one["verdict"],
        ]
        for name, one in figures.items()
    ]
    return table([*head, ""], rows)


def _told(figures: Figures) -> str:
    return ", ".join(f"{name} {_shown(name, value)}" for name, value in figures.items())


def _shown(name: str, value: float) -> str:
    return show_bytes(value) if name.endswith("memory") else show_seconds(value)
