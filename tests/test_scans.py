"""Splits of a table (`scan_ranges`, `scan_range`) and identifiers' scan ranges (`partition_of`)."""

from datetime import timedelta

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, observations

ROWS = 5_000


def ids_of(rows: idmatch.Rows) -> list[str]:
    """The ids of a scan."""
    return [str(id) for id in rows.to_arrow().column("id")]


@pytest.mark.parametrize("count", [1, 3, 16, 4096, 10_000])
def test_ranges_together_are_the_table(store: idmatch.Store, count: int) -> None:
    """Each row is in one of them, and those of one scan range are in the same."""
    table = store.create_table("t")
    table.load(observations(*((f"i{n}", "x", NOON) for n in range(ROWS))))
    table.upsert_one("live", "x", NOON)
    with store.snapshot() as snapshot:
        frozen = snapshot.table("t")
        ranges = frozen.scan_ranges(count)
        assert len(ranges) == min(count, 4096)
        shares = [ids_of(frozen.scan_range(one)) for one in ranges]
        ids = sorted(id for share in shares for id in share)
        assert ids == sorted([*(f"i{n}" for n in range(ROWS)), "live"])
        numbers = [set(table.partition_of(share).to_pylist()) for share in shares]
        assert sum(map(len, numbers)) == len(set[int | None]().union(*numbers))
        ended = frozen.scan_range(ranges[0], until=NOON - timedelta(days=1))
        assert ids_of(ended) == []


@pytest.mark.parametrize(
    "columns",
    [["id"], ["seen_at"], ["partner_id", "id"], ("seen_at", "partner_id"), ["seen_at", "id"]],
)
def test_some_columns(store: idmatch.Store, columns: list[str]) -> None:
    """In the order of a table, each observation once."""
    table = store.create_table("t")
    table.load(observations(*((f"i{n % 7}", f"x{n}", NOON) for n in range(50))))
    table.upsert_one("i0", "live", NOON)
    whole = table.scan().to_arrow()
    order = [name for name in whole.column_names if name in columns]
    found = table.scan(columns=columns).to_arrow()
    assert found.column_names == order
    wanted = sorted(map(str, whole.select(order).to_pylist()))
    assert sorted(map(str, found.to_pylist())) == wanted
    shares = [table.scan_range(one, columns=columns).to_arrow() for one in table.scan_ranges(3)]
    assert sorted(str(row) for share in shares for row in share.to_pylist()) == wanted


@pytest.mark.parametrize("columns", [[], "id", ["id", "id"], ["id", "email"]])
def test_columns_that_a_table_does_not_have(store: idmatch.Store, columns: list[str] | str) -> None:
    table = store.create_table("t")
    with pytest.raises(idmatch.InvalidArgument, match=r"id, partner_id, seen_at"):
        table.scan(columns=columns)


def test_what_is_no_range_is_refused(store: idmatch.Store) -> None:
    table = store.create_table("t")
    table.upsert_one("a", "x", NOON)
    with pytest.raises(idmatch.InvalidArgument, match="at least one range"):
        table.scan_ranges(0)
    for text in ("", "x", table.scan_ranges(2)[0] + "0"):
        with pytest.raises(idmatch.InvalidArgument):
            table.scan_range(text).to_arrow()
    [old] = table.scan_ranges(1)
    table.upsert_one("b", "x", NOON)
    table.compact()
    with pytest.raises(idmatch.Expired):
        table.scan_range(old).to_arrow()
    other = store.create_table("other")
    with pytest.raises((idmatch.InvalidArgument, idmatch.Expired)):
        other.scan_range(old).to_arrow()


def test_scan_ranges_are_the_same_for_all_forms_of_text(store: idmatch.Store) -> None:
    table = store.create_table("t")
    texts = ["a", None, "ü", "b" * 500]
    numbers = table.partition_of(texts)
    assert numbers.type == pa.int32()
    assert numbers[1].as_py() is None
    assert all(0 <= number < 4096 for number in numbers.to_pylist() if number is not None)
    given = pa.array(texts, pa.string())
    for array in (given, given.cast(pa.large_string()), given.dictionary_encode()):
        assert table.partition_of(array).equals(numbers)
    with pytest.raises(idmatch.InvalidArgument, match="no text"):
        table.partition_of(pa.array([{"a": 1}]))
