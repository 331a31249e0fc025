"""What idmatch aims at on servers, each figure worked out from the results of `cql.py`."""

from __future__ import annotations

from typing import Any

from aims import Aim, at_most, bound, get, quotient
from cql_programs import FORCED
from units import show_count, show_seconds

MOST_OF_THE_BEST = 1.2


def cql_aims(document: dict[str, Any]) -> list[Aim]:
    """All aims, in the order of the page."""
    return [
        _times_as_fast(document, "10", "dask", 30),
        _times_as_fast(document, "10", "spark", 8),
        _times_as_fast(document, "1", "dask", 10),
        _times_as_fast(document, "1", "driver", 1),
        bound(
            f"match of {_population(document, '80')}",
            get(document, "match", "idmatch", "80", "rows_per_second"),
            1e6,
            lambda rate: f"{show_count(rate)} population rows/s",
            at_least=True,
        ),
        at_most(
            f"match of {_population(document, '80')}, against the better way of reading",
            choice_ratio(document),
            MOST_OF_THE_BEST,
        ),
        _at_least(
            "load, both directions, against the Rust driver with one row a request",
            quotient(_load(document, "idmatch"), _load(document, "driver")),
            2,
        ),
        *(
            at_most(
                f"single lookup {how}, against the bare Rust driver",
                quotient(
                    get(document, "lookups", name, "median"),
                    get(document, "lookups", "driver", "median"),
                ),
                1.2,
            )
            for name, how in (("idmatch-rust", "from Rust"), ("idmatch", "from Python"))
        ),
        bound(
            f"newest 10 of a key of {show_count(get(document, 'hot', 'values') or 10**6)} values",
            get(document, "hot", "median"),
            0.1,
            show_seconds,
        ),
    ]


def choice_ratio(document: dict[str, Any]) -> float | None:
    """How long the largest match takes as idmatch chooses to read, against the better of the ways
    that it can be told to take; `None` until it can be told."""
    told = [get(document, "match", f"idmatch:{name}", "80", "median") for name in FORCED]
    known = [seconds for seconds in told if seconds is not None]
    if len(known) < 2:
        return None
    return quotient(get(document, "match", "idmatch", "80", "median"), min(known))


def _times_as_fast(document: dict[str, Any], population: str, peer: str, aim: float) -> Aim:
    ratio = quotient(
        get(document, "match", peer, population, "median"),
        get(document, "match", "idmatch", population, "median"),
    )
    names = {
        "dask": "Dask and the Python driver",
        "spark": "the Spark connector's DirectJoin",
        "driver": "the Rust driver's single-key reads",
    }
    return _at_least(
        f"match of {_population(document, population)}, against {names[peer]}", ratio, aim
    )


def _at_least(figure: str, ratio: float | None, aim: float) -> Aim:
    wanted = f"at least {aim:g} times as fast"
    if ratio is None:
        return Aim(figure, "not measured", wanted, None)
    return Aim(figure, f"{ratio:.1f} times as fast", wanted, ratio >= aim)


def _population(document: dict[str, Any], name: str) -> str:
    rows = document["about"]["populations"][name]
    return f"{show_count(rows)} ids ({name} % of the table)"


def _load(document: dict[str, Any], name: str) -> float | None:
    return get(document, "load", name, "rows_per_second")
