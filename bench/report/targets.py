"""Targets of idmatch: figures of the results, each compared with its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from units import show_bytes, show_count, show_seconds

Document = dict[str, Any]
MOST_OF_THE_BEST = 1.2


@dataclass(frozen=True)
class Target:
    """One figure, what was measured and its target; `reached` is None without a
    measurement.
    """

    figure: str
    measured: str
    target: str
    reached: bool | None


def get(document: Document, place: str) -> Any:
    """The figure at a place such as `idmatch.load.seconds`; None where it was not measured."""
    value: Any = document
    for key in place.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _ratio(document: Document, above: str, below: str) -> float | None:
    a, b = get(document, above), get(document, below)
    return a / b if a is not None and b else None


def _held(
    figure: str,
    value: float | None,
    show: Callable[[float], str],
    target: str,
    reached: Callable[[float], bool],
) -> Target:
    if value is None:
        return Target(figure, "not measured", target, None)
    return Target(figure, show(value), target, reached(value))


def _under(figure: str, value: float | None, target: float, show: Callable[[float], str]) -> Target:
    return _held(figure, value, show, f"under {show(target)}", lambda found: found < target)


def _at_least(
    figure: str, value: float | None, target: float, show: Callable[[float], str]
) -> Target:
    return _held(figure, value, show, f"at least {show(target)}", lambda found: found >= target)


def _at_most(figure: str, ratio: float | None, target: float) -> Target:
    return _held(figure, ratio, _times, f"at most {target:g} times", lambda found: found <= target)


def _faster(figure: str, ratio: float | None, target: float) -> Target:
    return _held(
        figure,
        ratio,
        lambda found: f"{found:.1f} times as fast",
        f"at least {target:g} times as fast",
        lambda found: found >= target,
    )


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"


def _rate(rows: float) -> str:
    return f"{show_count(rows)} rows/s"


def growth_curve(document: Document, name: str) -> dict[int, float]:
    """Rows of the table -> median seconds of the hot count."""
    figures = document["contestants"].get(name, {})
    curve = {int(rows): part["median"] for rows, part in figures.get("growth", {}).items()}
    if "hot" in figures and "rows" in document["about"]:
        curve[document["about"]["rows"]] = figures["hot"]["median"]
    return curve


def join_targets(document: Document) -> list[Target]:
    """Targets of the join, in the order of the page."""
    us, duckdb = "contestants.idmatch", "contestants.duckdb"

    def against_duckdb(mode: str) -> float | None:
        return _ratio(document, f"{duckdb}.{mode}.median", f"{us}.{mode}.median")

    def lookup(figure: str, step: str, question: str, target: float) -> Target:
        return _under(
            figure,
            get(document, f"idmatch.{step}.questions.{question}.median"),
            target,
            show_seconds,
        )

    curve = growth_curve(document, "idmatch")
    growth = curve[max(curve)] / curve[min(curve)] if len(curve) > 1 else None
    memory = [get(document, f"{us}.{mode}.private_bytes") for mode in ("hot", "write")]
    return [
        _faster("count, hot, against DuckDB on Parquet", against_duckdb("hot"), 10),
        _at_most(
            "count, hot, against the lower bound",
            _ratio(document, f"{us}.hot.median", "bare.total.median"),
            2.5,
        ),
        _faster("result written as Parquet, against DuckDB on Parquet", against_duckdb("write"), 8),
        _faster("count, cold, against DuckDB on Parquet", against_duckdb("cold"), 2.5),
        _held(
            "hot time from the smallest table to ten times as many rows",
            growth,
            _times,
            "less than 1.5 times",
            lambda found: found < 1.5,
        ),
        _at_most(
            "count over ten loads, against one load",
            _ratio(document, "idmatch.ten_loads.hot.median", f"{us}.hot.median"),
            2,
        ),
        _at_least(
            "load, both directions, durable",
            get(document, "idmatch.load.rows_per_second"),
            1.5e6,
            _rate,
        ),
        _under(
            "peak memory of a load", get(document, "idmatch.load.private_bytes"), 4e9, show_bytes
        ),
        _at_most(
            "store, against the Parquet files",
            _ratio(document, "idmatch.load.store_bytes", "idmatch.load.parquet_bytes"),
            1.2,
        ),
        _at_most(
            "extra disk while loading, against the store",
            _ratio(document, "idmatch.load.extra_disk_bytes", "idmatch.load.store_bytes"),
            1.2,
        ),
        _under(
            "peak memory of a match",
            max((one for one in memory if one is not None), default=None),
            1.5e9,
            show_bytes,
        ),
        lookup("one lookup from Rust", "lookups_rust", "latest_partner_id", 2e-6),
        lookup("`latest_partner_id` from Python", "lookups", "latest_partner_id", 10e-6),
        lookup("`partner_ids` from Python", "lookups", "partner_ids", 60e-6),
        lookup("1,000 ids in one call, as an Arrow table", "lookups", "match_1000_to_arrow", 1e-3),
        _under("opening the store", get(document, "idmatch.open.median"), 0.3, show_seconds),
    ]


def live_targets(document: Document) -> list[Target]:
    """Targets of concurrent reads and writes, in the order of the page."""
    under_all = "lookups to a schedule under the join and the upserts"
    memtables = [sample["memtable_bytes"] for sample in get(document, "batches.series") or ()]
    return [
        _at_least(
            "upserts, batches of 1,000, 4 threads",
            get(document, "batches.written.rows_per_second"),
            400e3,
            _rate,
        ),
        _at_least(
            "the slowest ten seconds of that",
            get(document, "batches.written.slowest_slice"),
            400e3,
            _rate,
        ),
        _at_least(
            "upserts of one row, 32 threads",
            get(document, "singles.written.rows_per_second"),
            60e3,
            _rate,
        ),
        _under(
            "their 99th percentile",
            get(document, "singles.written.latency.p99"),
            5e-3,
            show_seconds,
        ),
        _at_most(
            "the join under 100,000 upserts a second, against its quiet time",
            get(document, "mixed.join_under_upserts_ratio"),
            2,
        ),
        *(
            _under(
                f"{under_all}, {title}",
                get(document, f"mixed.lookups.latency.{name}"),
                most,
                show_seconds,
            )
            for name, title, most in (
                ("p50", "median", 100e-6),
                ("p99", "99th percentile", 5e-3),
                ("p99_9", "99.9th percentile", 25e-3),
            )
        ),
        _at_most(
            "the join after half as many rows again were upserted, against a fresh load",
            get(document, "growth.join_ratio"),
            1.3,
        ),
        _at_most("the store then, against a fresh load", get(document, "growth.bytes_ratio"), 1.3),
        _under(
            "opening the store after its writer was killed with a full journal",
            get(document, "reopen.open"),
            3,
            show_seconds,
        ),
        _under("memory of memtables", max(memtables, default=None), 256e6, show_bytes),
    ]


def servers_targets(document: Document) -> list[Target]:
    """Targets on servers, in the order of the page."""

    def match(size: str) -> str:
        return (
            f"match of {show_count(document['about']['populations'][size])} ids ({size} % of the"
            " table)"
        )

    def against(size: str, peer: str, title: str, target: float) -> Target:
        ratio = _ratio(document, f"match.{peer}.{size}.median", f"match.idmatch.{size}.median")
        return _faster(f"{match(size)}, against {title}", ratio, target)

    def lookup(name: str, language: str) -> Target:
        ratio = _ratio(document, f"lookups.{name}.median", "lookups.driver.median")
        return _at_most(
            f"single lookup from {language}, against the Rust driver with one row a request",
            ratio,
            1.2,
        )

    return [
        against("10", "dask", "Dask and the Python driver", 30),
        against("10", "spark", "the Spark connector's DirectJoin", 8),
        against("1", "dask", "Dask and the Python driver", 10),
        against("1", "driver", "the Rust driver's single-key reads", 1),
        _at_least(
            match("80"),
            get(document, "match.idmatch.80.rows_per_second"),
            1e6,
            lambda rate: f"{show_count(rate)} population rows/s",
        ),
        _at_most(
            f"{match('80')}, against the better way of reading",
            choice_ratio(document),
            MOST_OF_THE_BEST,
        ),
        _faster(
            "load, both directions, against the Rust driver with one row a request",
            _ratio(document, "load.idmatch.rows_per_second", "load.driver.rows_per_second"),
            2,
        ),
        lookup("idmatch-rust", "Rust"),
        lookup("idmatch", "Python"),
        _under(
            f"newest 10 of a key of {show_count(get(document, 'hot.values') or 10**6)} values",
            get(document, "hot.median"),
            0.1,
            show_seconds,
        ),
    ]


def choice_ratio(document: Document) -> float | None:
    """Seconds of the largest match as idmatch chooses to read it, against the better of the ways
    that it can be told to take.
    """
    told = {name for name in document.get("match", {}) if name.startswith("idmatch:")}
    known = [
        seconds
        for name in told
        if (seconds := get(document, f"match.{name}.80.median")) is not None
    ]
    ours = get(document, "match.idmatch.80.median")
    return ours / min(known) if ours is not None and len(known) > 1 else None
