"""Erasure, another retention, durability and figures: from Python and from the command line."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, SMALL, Cli, observations

SECRET = "somebody.to.forget@mail.example"


def hidden(table: idmatch.Table, id: str, partner_id: str) -> bool:
    """Whether a pair is seen by none of the questions."""
    return (
        partner_id not in table.partner_ids(id)["partner_id"].to_pylist()
        and id not in table.ids(partner_id)["id"].to_pylist()
        and table.last_seen(id, partner_id) is None
        and table.history(id, partner_id) == []
    )


def test_an_id_is_erased_in_both_directions_and_stays_so(tmp_path: Path) -> None:
    rows = observations((SECRET, "x", NOON), (SECRET, "y", NOON), ("b", "x", NOON))
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("t")
        table.load(rows)
        report = table.erase(id=SECRET)
        assert report[:4] == (1, 0, 2, 2)
        assert hidden(table, SECRET, "x")
        assert table.ids("x")["id"].to_pylist() == ["b"]
        assert table.match(pa.table({"id": [SECRET, "b"]})).matched == 1
        table.upsert(rows)
        table.load(rows)
        table.compact()
        assert hidden(table, SECRET, "y")
        assert table.stats().erasures == 1
        assert table.verify() == []
        store.backup(tmp_path / "backup")
    assert not [
        file
        for file in tmp_path.rglob("*")
        if file.is_file() and SECRET.encode() in file.read_bytes()
    ]
    idmatch.restore(tmp_path / "backup", tmp_path / "restored")
    with idmatch.open(tmp_path / "restored") as store:
        table = store.table("t")
        table.upsert(rows)
        assert hidden(table, SECRET, "x")


def test_pairs_partner_ids_and_dates(store: idmatch.Store) -> None:
    table = store.create_table("t", keep="all")
    day = timedelta(days=1)
    table.load(observations(("a", "x", NOON), ("a", "x", NOON + day), ("a", "y", NOON)))
    assert table.erase(id="a", partner_id="x", at=NOON)[2:4] == (1, 1)
    assert table.history("a", "x") == [NOON + day]
    assert table.erase(partner_id="y", at=NOON - day)[2:4] == (0, 0)
    assert not hidden(table, "a", "y")
    assert table.erase(partner_id="y", at=NOON.isoformat())[2:4] == (1, 1)
    assert hidden(table, "a", "y")


def test_a_list_in_a_csv_file(store: idmatch.Store, tmp_path: Path) -> None:
    table = store.create_table("t")
    table.load(SMALL)
    (tmp_path / "list.csv").write_text('email,uid\na,\n,z\n"",x\nb,x\n')
    report = table.erase_from(
        tmp_path / "list.csv", columns=["email", "uid"], rejects=tmp_path / "rejects.csv"
    )
    # Nothing between two commas is no identifier; an empty one in quotes is a bad one.
    assert (report.targets, report.rejected, report.by_id) == (4, 1, 4)
    assert "3,id,is empty" in (tmp_path / "rejects.csv").read_text()
    for id in "abc":
        assert table.partner_ids(id).num_rows == 0
    with pytest.raises(TypeError, match="id is of type int; an identifier is a str"):
        table.erase(id=1)  # type: ignore[arg-type]  # wrong on purpose


def test_a_list_of_targets(store: idmatch.Store, tmp_path: Path) -> None:
    table = store.create_table("t")
    table.load(SMALL)
    targets = pa.table({"email": ["a", None, "", None], "uid": [None, "z", "x", None]})
    report = table.erase_from(targets, columns=["email", "uid"], rejects=tmp_path / "rejects.csv")
    assert (report.targets, report.rejected) == (4, 2)
    rejects = (tmp_path / "rejects.csv").read_text()
    assert "is empty" in rejects
    assert "there is no partner_id" in rejects
    assert table.partner_ids("a").num_rows == table.ids("z").num_rows == 0
    assert table.ids("x").num_rows > 0
    with pytest.raises(idmatch.BadInput, match="nothing was erased"):
        table.erase_from(targets, columns=["email", "uid"], strict=True)


def test_what_cannot_be_erased(store: idmatch.Store) -> None:
    table = store.create_table("t")
    table.load(SMALL)
    calls: list[Callable[[], object]] = [
        lambda: table.erase(),
        lambda: table.erase_from(SMALL, columns=[]),
        lambda: table.erase_from(SMALL, columns=["nope"]),
        lambda: table.erase(id="a", at="2999-01-01"),
    ]
    for call in calls:
        with pytest.raises(idmatch.InvalidArgument):
            call()
    with pytest.raises(idmatch.BadInput, match="nothing was erased"):
        table.erase(id="")
    assert table.partner_ids("a").num_rows > 0


def test_the_command_erases(loaded: Cli, tmp_path: Path) -> None:
    before = loaded("lookup", "store", "small", "--id", "a", "--json").json()["matches"]
    done = loaded("erase", "store", "small", "--id", "a", "--json").json()
    seconds = done.pop("seconds")
    assert seconds >= 0
    assert done == {
        "targets": 1, "rejected": 0, "rows_by_id": len(before), "rows_by_partner_id": len(before),
        "hex_columns": [], "rejects": None, "detected": [], "checkpoints": [],
    }  # fmt: skip
    assert loaded("lookup", "store", "small", "--id", "a", "--json").json() == {"matches": []}
    pq.write_table(pa.table({"who": ["b", ""]}), tmp_path / "who.parquet")
    refused = loaded("erase", "store", "small", str(tmp_path / "who.parquet"))
    assert (refused.code, "--columns" in refused.err) == (2, True)
    listed = loaded("erase", "store", "small", str(tmp_path / "who.parquet"), "--columns", "who")
    assert listed.code == 3
    assert "1 rows were rejected" in listed.err
    assert loaded("lookup", "store", "small", "--id", "b", "--json").json() == {"matches": []}
    assert loaded("erase", "store", "small").code == 2
    assert loaded("verify", "store").code == 0


def test_another_retention(loaded: Cli) -> None:
    def lookup() -> int:
        found = loaded("lookup", "store", "small", "--id", "a", "--json").json()["matches"]
        return len(found)

    before = lookup()
    changed = loaded("alter", "store", "small", "--retention", "1d", "--yes", "--json").json()
    assert (changed["retention_before"], changed["retention"]) == (None, "1d")
    assert lookup() < before
    assert loaded("alter", "store", "small", "--retention", "none").code == 0
    assert lookup() == before
    assert loaded("alter", "store", "small", "--retention", "soon").code == 2


def test_a_retention_is_at_least_a_day(loaded: Cli) -> None:
    refused = loaded("alter", "store", "small", "--retention", "23h")
    assert refused.code == 2
    assert 'the retention "23h" is shorter than a day; write 1d or longer' in refused.err
    refused = loaded("load", "store", "other", "small.parquet", "--retention", "13m")
    assert refused.code == 2
    assert 'the retention "13m" has minutes; write 13mo for months' in refused.err
    assert [table["name"] for table in loaded("tables", "store", "--json").json()["tables"]] == [
        "small"
    ]


def test_durability_and_memory_are_chosen_when_a_store_is_opened(tmp_path: Path) -> None:
    place = tmp_path / "store"
    with idmatch.open(place, durability="interval", interval_ms=60_000, memtable="2M") as store:
        table = store.create_table("t")
        table.upsert(observations(("a", "x", NOON)))
        table.upsert(observations(("b", "y", NOON)), durability="always")
        assert table.latest_partner_id("a") == ("x", NOON)
        with pytest.raises(idmatch.InvalidArgument, match="always"):
            table.upsert(SMALL, durability="never")  # type: ignore[arg-type]  # wrong on purpose
        for start in range(0, 60_000, 5_000):
            rows = [(f"id-{n}", f"partner-{n}", NOON) for n in range(start, start + 5_000)]
            table.upsert(observations(*rows))
        # Twice the rows' size would not fit into memory: some are in segments by now.
        assert table.stats().memtable_bytes < 3_000_000 < 60_000 * 2 * 40
        assert table.stats().segments > 0
    assert idmatch.open(place).table("t").ids("x").num_rows == 1
    for wrong in (
        {"durability": "sometimes"}, {"interval_ms": 0}, {"memtable": "1k"}, {"memtable": "much"},
    ):  # fmt: skip
        with pytest.raises(idmatch.InvalidArgument):
            idmatch.open(place, **wrong)


def test_distinct_identifiers_and_pairs_are_counted(store: idmatch.Store) -> None:
    table = store.create_table("t", keep="all")
    table.load(observations(("a", "x", NOON), ("a", "y", NOON), ("b", "x", NOON)))
    table.upsert(observations(("a", "x", NOON + timedelta(days=1)), ("c", "x", NOON)))
    table.erase(id="b")
    stats = table.stats(count=True)
    assert (stats.ids, stats.partner_ids, stats.pairs, stats.is_exact) == (2, 2, 3, True)
    # Sums over segments that overlap, with erased rows: so many at most.
    stats = table.stats()
    assert (stats.ids, stats.partner_ids, stats.pairs, stats.is_exact) == (4, 4, 5, False)
    assert stats.pending_compaction_bytes == 0
