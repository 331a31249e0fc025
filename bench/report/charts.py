"""Draws results as SVG, the same bytes for the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plot
from units import show_count, show_seconds

OURS, THEIRS, BARE = "#0b6e4f", "#8d99ae", "#cccccc"
DUCKDB = "#e0a100"
_STYLE = {
    "svg.hashsalt": "idmatch",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_BAR_HEIGHT = 0.42
_WIDTH = 7.5


@dataclass(frozen=True)
class Bar:
    """One bar of a panel."""

    name: str
    value: float
    colour: str


def draw_bars(panels: dict[str, list[Bar]], path: Path, show: Callable[[float], str]) -> bool:
    """A panel of bars for each title, in the order given; returns whether there was anything to
    draw.
    """
    panels = {title: bars for title, bars in panels.items() if bars}
    if not panels:
        return False
    heights = [len(bars) for bars in panels.values()]
    with plot.rc_context(_STYLE):
        figure, axes = plot.subplots(
            len(panels),
            1,
            figsize=(_WIDTH, _BAR_HEIGHT * sum(heights) + 0.75 * len(panels)),
            squeeze=False,
            gridspec_kw={"height_ratios": heights},
            layout="constrained",
        )
        for axis, (title, bars) in zip(axes[:, 0], panels.items(), strict=True):
            values = [bar.value for bar in bars]
            drawn = axis.barh(
                [bar.name for bar in bars], values, color=[bar.colour for bar in bars], height=0.7
            )
            axis.bar_label(drawn, [show(value) for value in values], padding=4)
            axis.invert_yaxis()
            axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
            axis.set_xlim(0, max(values) * 1.15)
            axis.xaxis.set_visible(False)
            axis.spines["bottom"].set_visible(False)
        _save(figure, path)
    return True


def draw_rates(panels: dict[str, dict[str, float]], path: Path) -> bool:
    """Bars of rates by title and system, the fastest first."""
    return draw_bars(
        {
            title: [
                Bar(name, rates[name], OURS if name.startswith("idmatch") else THEIRS)
                for name in sorted(rates, key=lambda one: -rates[one])
            ]
            for title, rates in panels.items()
        },
        path,
        show_count,
    )


def draw_growth(curves: dict[str, tuple[str, dict[int, float]]], path: Path) -> bool:
    """Time of the hot count over the rows of the table, both axes logarithmic; a colour and a curve
    for each title.
    """
    curves = {name: curve for name, curve in curves.items() if len(curve[1]) > 1}
    if not curves:
        return False
    with plot.rc_context(_STYLE):
        figure, axis = plot.subplots(figsize=(_WIDTH, 4), layout="constrained")
        for name, (colour, curve) in curves.items():
            rows, seconds = zip(*sorted(curve.items()), strict=True)
            axis.plot(rows, seconds, marker="o", color=colour, label=name)
            for count, value in zip(rows, seconds, strict=True):
                axis.annotate(
                    show_seconds(value),
                    (count, value),
                    textcoords="offset points",
                    xytext=(0, 7),
                    ha="center",
                )
        sizes = sorted({rows for _, curve in curves.values() for rows in curve})
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(sizes, [show_count(size) for size in sizes])
        axis.minorticks_off()
        axis.margins(0.08, 0.18)
        axis.set_xlabel("rows of the match table; the population stays the same")
        axis.set_ylabel("seconds, hot")
        axis.legend(frameon=False, loc="best")
        _save(figure, path)
    return True


def draw_series(figures: dict[str, Any], path: Path) -> bool:
    """Rows a second, and segments of the table, over the time of a flood of upserts and the rest
    after it.
    """
    written, series = figures["written"], figures["series"]
    if not written["per_second"]:
        return False
    with plot.rc_context(_STYLE):
        figure, (above, below) = plot.subplots(
            2, 1, figsize=(_WIDTH, 4.2), sharex=True, layout="constrained"
        )
        above.plot(
            [rows / 1e6 for rows in written["per_second"][: int(written["seconds"])]],
            color=OURS,
            linewidth=1,
        )
        above.set_ylabel("million rows/s")
        below.plot(
            [sample["seconds"] for sample in series],
            [sample["segments"] for sample in series],
            color=OURS,
            linewidth=1,
        )
        below.set_ylabel("segments")
        below.set_xlabel("seconds")
        for axis in (above, below):
            axis.set_ylim(bottom=0)
        _save(figure, path)
    return True


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plot.close(figure)
