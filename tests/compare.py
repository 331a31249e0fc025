"""Asks idmatch what the oracle was asked, in the same form."""

import os
from datetime import datetime

import idmatch
import pyarrow as pa
from conftest import Window
from idmatch._types import By, Pick
from oracle import Oracle, Rows


def millis(date: datetime) -> int:
    """Milliseconds since 1970 of an aware datetime."""
    return round(date.timestamp() * 1000)


def text(instant: int | None) -> str | None:
    """ISO 8601 of milliseconds since 1970."""
    return None if instant is None else idmatch._core.format_instant(instant)


def as_rows(table: pa.Table) -> Rows:
    """Rows whose last column, `seen_at`, is in milliseconds."""
    dates = table.column("seen_at").cast(pa.int64())
    columns = table.set_column(table.num_columns - 1, "seen_at", dates).to_pydict().values()
    return list(zip(*columns, strict=True))


def assert_same_lookups(
    table: idmatch.Table,
    oracle: Oracle,
    since: int | None,
    until: int | None,
    one_in: int = 1,
) -> None:
    """Every key of both sides has the oracle's answers, in its order; so has the latest one.

    With `one_in` only one key in so many is asked for: the seed chooses which.
    """
    seed = int(os.environ.get("IDMATCH_SEED", "7"))
    window: Window = {"since": text(since), "until": text(until)}
    for by, ask, latest in (
        ("id", table.partner_ids, table.latest_partner_id),
        ("partner_id", table.ids, table.latest_id),
    ):
        answers = oracle.answers(by, since, until)
        keys = answers if (since, until) != (None, None) else oracle.answers(by, None, None)
        for key in list(keys)[seed % one_in :: one_in]:
            expected = answers.get(key, [])
            assert as_rows(ask(key, **window)) == expected, (by, key)
            newest = latest(key, **window)
            assert (newest and (newest.value, millis(newest.seen_at))) == (
                expected[0] if expected else None
            ), (by, key)


def assert_same_histories(table: idmatch.Table, oracle: Oracle) -> None:
    """Every pair has the oracle's dates."""
    for (id, partner_id), dates in oracle.histories().items():
        assert [millis(date) for date in table.history(id, partner_id)] == dates
        seen = table.last_seen(id, partner_id)
        assert seen is not None
        assert millis(seen) == dates[0]


def assert_same_match(
    table: idmatch.Table,
    oracle: Oracle,
    population: pa.Table,
    by: By,
    pick: Pick,
    since: int | None,
    until: int | None,
) -> None:
    """The counts and the rows of a match are the oracle's."""
    result = table.match(population, by=by, pick=pick, since=text(since), until=text(until))
    counts, rows = oracle.match(population, by, pick, since, until)
    assert (result.population, result.matched, result.rows) == counts
    assert sorted(as_rows(result.to_arrow())) == sorted(rows)
