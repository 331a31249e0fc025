"""Whatever the rows, windows and populations are: idmatch answers as SQL does."""

import tempfile
from collections.abc import Callable
from typing import Any

import idmatch
import pyarrow as pa
from compare import assert_same_histories, assert_same_lookups, assert_same_match
from hypothesis import given, settings
from hypothesis import strategies as st
from idmatch._types import By, Keep, Pick
from oracle import Oracle

SIDES: list[By] = ["id", "partner_id"]
KEEPS: list[Keep] = ["last", "all"]
PICKS: list[Pick] = ["all", "latest"]
ALIKE = ["a", "A", "a ", "á", "a\u0301", "0", "00", "ff", "FF", "0a1b", "0A1B", "7", "-7", "07"]
IDS = st.one_of(
    st.sampled_from(ALIKE),
    st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=6
    ),
    st.integers(0, 2**64 - 1).map(str),
    st.binary(min_size=16, max_size=16).map(bytes.hex),
    st.uuids().map(str),
)
DATES = st.one_of(st.integers(0, 3), st.integers(0, 1_700_000_000_000))
WINDOW_ENDS = st.one_of(st.none(), DATES)


def _rows(draw: Callable[[Any], Any]) -> list[tuple[str, str, int]]:
    """Rows whose ids and dates are drawn from small pools, so that they meet."""
    ids = draw(st.lists(IDS, min_size=1, max_size=8))
    dates = draw(st.lists(DATES, min_size=1, max_size=5))
    row = st.tuples(st.sampled_from(ids), st.sampled_from(ids), st.sampled_from(dates))
    return list(draw(st.lists(row, max_size=60)))


def _table(rows: list[tuple[str, str, int]]) -> pa.Table:
    ids, partner_ids, dates = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "partner_id": pa.array(partner_ids, pa.string()),
            "seen_at": pa.array(dates, pa.timestamp("ms", "UTC")),
        }
    )


@given(data=st.data())
@settings(max_examples=75, deadline=None)
def test_idmatch_answers_as_sql_does(data: st.DataObject) -> None:
    keep = data.draw(st.sampled_from(KEEPS))
    rows = _rows(data.draw)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    since, until = data.draw(WINDOW_ENDS), data.draw(WINDOW_ENDS)
    if since is not None and until is not None:
        since, until = min(since, until), max(since, until)
    oracle = Oracle(_table(rows), keep)
    with tempfile.TemporaryDirectory() as home, idmatch.open(home) as store:
        table = store.create_table("t", keep=keep)
        for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            table.load(_table(rows[start:stop]))
        assert_same_lookups(table, oracle, None, None)
        assert_same_lookups(table, oracle, since, until)
        assert_same_histories(table, oracle)
        for by in SIDES:
            at = 0 if by == "id" else 1
            known = st.sampled_from([row[at] for row in rows] or ["nobody"])
            values = data.draw(st.lists(st.one_of(known, IDS), max_size=20))
            population = pa.table({by: pa.array(values, pa.string())})
            for pick in PICKS:
                assert_same_match(table, oracle, population, by, pick, since, until)
        assert table.verify() == []
