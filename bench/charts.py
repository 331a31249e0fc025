"""Draws the results as SVG, the same bytes for the same results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plot  # noqa: E402  (the backend must be chosen first)
from matplotlib.axes import Axes  # noqa: E402

from peers import TITLES  # noqa: E402
from units import show_count, show_seconds  # noqa: E402

_OURS, _THEIRS = "#0b6e4f", "#8d99ae"
_COLOURS = {"idmatch": _OURS, "duckdb": "#e0a100"}
_STYLE = {
    "svg.hashsalt": "idmatch", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False,
}
_BAR_HEIGHT = 0.42


def draw_comparison(contestants: dict[str, Any], bare: dict[str, Any], path: Path) -> bool:
    """Bars of the hot count, the written result and the cold count; returns whether there was anything to draw."""
    panels = [
        (title, bars)
        for mode, title in (("hot", "count, hot"), ("write", "result written as Parquet, hot"), ("cold", "count, cold"))
        if (bars := _bars(contestants, mode, bare))
    ]
    if not panels:
        return False
    with plot.rc_context(_STYLE):
        heights = [len(bars) for _, bars in panels]
        figure, axes = plot.subplots(
            len(panels), 1, figsize=(7.5, _BAR_HEIGHT * sum(heights) + 0.75 * len(panels)), squeeze=False,
            gridspec_kw={"height_ratios": heights}, layout="constrained",
        )
        for axis, (title, bars) in zip(axes[:, 0], panels, strict=True):
            _draw_bars(axis, title, bars)
        _save(figure, path)
    return True


def draw_growth(curves: dict[str, dict[int, float]], path: Path) -> bool:
    """Time of the hot count over the rows of the table, both axes logarithmic."""
    curves = {name: curve for name, curve in curves.items() if len(curve) > 1}
    if not curves:
        return False
    with plot.rc_context(_STYLE):
        figure, axis = plot.subplots(figsize=(7.5, 4), layout="constrained")
        for name, curve in curves.items():
            rows, seconds = zip(*sorted(curve.items()), strict=True)
            axis.plot(rows, seconds, marker="o", color=_COLOURS.get(name, _THEIRS), label=TITLES[name])
            for count, value in zip(rows, seconds, strict=True):
                axis.annotate(show_seconds(value), (count, value), textcoords="offset points", xytext=(0, 7), ha="center")
        sizes = sorted({rows for curve in curves.values() for rows in curve})
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


def draw_rates(contestants: dict[str, dict[str, Any]], path: Path) -> bool:
    """Bars of the rows a second that contestants took, by title; returns whether there was anything to draw."""
    steps = [("upserts, batches of 1,000 rows, rows a second", "batches"), ("upserts of single rows, rows a second", "singles")]
    return draw_panels(
        {title: {name: figures[step]["rows_per_second"] for name, figures in contestants.items()} for title, step in steps}, path,
    )


def draw_panels(panels: dict[str, dict[str, float]], path: Path) -> bool:
    """Bars of rates, a panel for each title, the fastest first; returns whether there was anything to draw."""
    panels = {title: rates for title, rates in panels.items() if rates}
    if not panels:
        return False
    with plot.rc_context(_STYLE):
        heights = [len(rates) for rates in panels.values()]
        figure, axes = plot.subplots(
            len(panels), 1, figsize=(7.5, _BAR_HEIGHT * sum(heights) + 0.75 * len(panels)), squeeze=False,
            gridspec_kw={"height_ratios": heights}, layout="constrained",
        )
        for axis, (title, rates) in zip(axes[:, 0], panels.items(), strict=True):
            bars = [(name, rate, _OURS if name.startswith("idmatch") else _THEIRS) for name, rate in rates.items()]
            _draw_bars(axis, title, sorted(bars, key=lambda bar: -bar[1]), show_count)
        _save(figure, path)
    return True


def draw_series(figures: dict[str, Any], path: Path) -> bool:
    """Rows a second, and segments of the table, over the time of a flood of upserts and the rest after it."""
    written, series = figures["written"], figures["series"]
    if not written["per_second"]:
        return False
    with plot.rc_context(_STYLE):
        figure, (above, below) = plot.subplots(2, 1, figsize=(7.5, 4.2), sharex=True, layout="constrained")
        above.plot([rows / 1e6 for rows in written["per_second"][: int(written["seconds"])]], color=_OURS, linewidth=1)
        above.set_ylim(bottom=0)
        above.set_ylabel("million rows/s")
        below.plot([sample["seconds"] for sample in series], [sample["segments"] for sample in series], color=_OURS, linewidth=1)
        below.set_ylim(bottom=0)
        below.set_ylabel("segments")
        below.set_xlabel("seconds")
        _save(figure, path)
    return True


def _bars(contestants: dict[str, Any], mode: str, bare: dict[str, Any]) -> list[tuple[str, float, str]]:
    """Title, seconds and colour of each bar, fastest first."""
    bars = [
        (TITLES[name], figures[mode]["median"], _COLOURS.get(name, _THEIRS))
        for name, figures in contestants.items() if mode in figures and "median" in figures[mode]
    ]
    if mode == "hot" and bars and "total" in bare:
        bars.append(("bare cost", bare["total"]["median"], "#cccccc"))
    return sorted(bars, key=lambda bar: bar[1])


def _draw_bars(
    axis: Axes, title: str, bars: list[tuple[str, float, str]], show: Callable[[float], str] = show_seconds
) -> None:
    names, values, colours = zip(*bars, strict=True)
    drawn = axis.barh(names, values, color=colours, height=0.7)
    axis.bar_label(drawn, [show(value) for value in values], padding=4)
    axis.invert_yaxis()
    axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axis.set_xlim(0, max(values) * 1.15)
    axis.xaxis.set_visible(False)
    axis.spines["bottom"].set_visible(False)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plot.close(figure)
