"""Snapshots, native lookups, and the values of errors, as Python sees them."""

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def filled(path: Path) -> idmatch.Store:
    store = idmatch.open(path)
    crm = store.create_table("crm", keep="all")
    crm.upsert_one("a", "p1", DAY)
    crm.upsert_one("a", "p2", DAY.replace(day=2))
    crm.upsert_one("a", "p1", DAY.replace(day=3))
    crm.upsert_one("b", "p1", DAY)
    store.create_table("partner").upsert_one("a", "x", DAY)
    return store


def population(*ids: str | None) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.string())})


def test_a_snapshot_stays_as_it_is_in_all_tables(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    with store.snapshot() as snapshot:
        assert snapshot.tables() == ["crm", "partner"]
        crm, partner = snapshot.table("crm"), snapshot.table("partner")
        matched = crm.match(population("a", "b", "c"))
        store.table("crm").erase(id="a")
        store.table("crm").compact()
        store.table("partner").upsert_one("a", "y", DAY)
        store.create_table("later")

        assert crm.lookup("a") == [("p1", DAY.replace(day=3)), ("p2", DAY.replace(day=2))]
        assert crm.history("a", "p1") == [DAY.replace(day=3), DAY]
        assert crm.last_seen("a", "p2") == DAY.replace(day=2)
        assert crm.latest_partner_id("a") == ("p1", DAY.replace(day=3))
        assert crm.ids("p1").num_rows == 2
        assert (crm.match(population("a", "b", "c")).rows, matched.rows) == (3, 3)
        assert partner.lookup("a") == [("x", DAY)]
        assert (crm.keep, crm.name, crm.stats(count=True).pairs) == ("all", "crm", 3)
        with pytest.raises(idmatch.TableNotFound, match="has no table later"):
            snapshot.table("later")

        assert store.table("crm").lookup("a") == []
        assert len(store.table("partner").lookup("a")) == 2
    for used in (lambda: crm.lookup("a"), snapshot.tables, lambda: crm.keep):
        with pytest.raises(idmatch.InvalidArgument, match="the snapshot is closed"):
            used()
    # The result of a match has what it counted.
    assert matched.to_arrow().num_rows == 3
    store.close()
    with pytest.raises(idmatch.InvalidArgument, match="is closed; open it again"):
        snapshot.tables()


def test_versions_tell_whether_something_was_written(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    with store.snapshot() as first, store.snapshot() as second:
        assert first.version == second.version
        assert first.version is not None
        assert re.fullmatch(r"[0-9a-f.]+", first.version)
    before = [store.snapshot().version]
    crm = store.table("crm")
    rows = pa.table({"id": ["d"], "partner_id": ["p"], "seen_at": [DAY]})
    writes: list[Callable[[], object]] = [
        lambda: crm.upsert_one("c", "p9", DAY),
        lambda: crm.load(rows),
        lambda: crm.erase(id="c"),
        crm.compact,
    ]
    for write in writes:
        write()
        with store.snapshot() as snapshot:
            assert snapshot.version not in before
            before.append(snapshot.version)


def test_a_table_of_a_snapshot_has_no_method_that_writes() -> None:
    asks = {name for name in dir(idmatch.TableSnapshot) if not name.startswith("_")}
    writes = {name for name in dir(idmatch.Table) if not name.startswith("_")} - asks
    assert writes >= {"load", "upsert", "upsert_one", "erase", "compact", "repair", "copy_to"}
    assert asks >= {"lookup", "lookup_many", "match", "history", "stats", "partner_ids", "ids"}


def test_files_that_a_snapshot_needs_stay_until_it_is_closed(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    crm = store.table("crm")
    crm.compact()
    snapshot = store.snapshot()
    crm.erase(id="b")
    crm.compact()
    status = store.status()
    assert status.pinned_bytes > 0
    assert status.oldest_pinned_seconds is not None
    assert status.oldest_pinned_seconds >= 0
    assert snapshot.table("crm").lookup("b") == [("p1", DAY)]
    snapshot.close()
    assert store.status() == (0, None, False, True, None)


def test_lookups_answer_by_position(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    crm = store.table("crm")
    answers = crm.lookup_many(["b", "nobody", "a", "b"])
    assert answers == [
        [("p1", DAY)],
        [],
        [("p1", DAY.replace(day=3)), ("p2", DAY.replace(day=2))],
        [("p1", DAY)],
    ]
    assert answers[0][0][1].tzinfo is UTC
    assert crm.lookup_many([]) == []
    assert crm.lookup_many(["a"], limit=1) == [[("p1", DAY.replace(day=3))]]
    assert crm.lookup_many(["a"], limit=0) == [[]]
    assert crm.lookup("a", until="2026-03-03") == [
        ("p2", DAY.replace(day=2)),
        ("p1", DAY),
    ]
    assert crm.lookup("p1", by="partner_id") == [("a", DAY.replace(day=3)), ("b", DAY)]
    # Each kind of caller: a tuple, and more keys than are looked up without watching for Ctrl-C.
    many = crm.lookup_many(("a", "nobody") * 10_000)
    assert many[::2] == [answers[2]] * 10_000
    assert not any(many[1::2])
    with pytest.raises(idmatch.InvalidArgument, match="one text"):
        crm.lookup_many("ab")
    with pytest.raises(idmatch.InvalidArgument, match="the identifier is empty"):
        crm.lookup_many(["a", ""])
    with pytest.raises(idmatch.InvalidArgument, match="limit is -1"):
        crm.lookup("a", limit=-1)
    with pytest.raises(TypeError):
        crm.lookup_many(["a", 7])  # type: ignore[list-item]


def test_errors_have_values(tmp_path: Path) -> None:
    crm = filled(tmp_path / "store").table("crm")
    rows = pa.table({"id": ["a", ""], "partner_id": ["p", "q"], "seen_at": [DAY, DAY]})
    with pytest.raises(idmatch.BadInput) as bad:
        crm.load(rows, strict=True)
    error = bad.value
    assert (error.row, error.column) == (2, "id")
    assert error.source is not None
    assert error.reason is not None
    assert "empty" in error.reason
    # Without values, they are None.
    assert idmatch.Busy("").pid is None
    assert idmatch.Busy("").since is None
    assert idmatch.Busy("").program is None
    assert idmatch.Corrupt("").file is None
    assert idmatch.Corrupt("").offset is None
    assert idmatch.UnknownOutcome("").rows is None
    assert idmatch.RetryLater("").after is None


def test_damage_has_its_file_and_its_offset(tmp_path: Path) -> None:
    table = idmatch.open(tmp_path / "store").create_table("t")
    table.load(pa.table({"id": ["a"], "partner_id": ["x"], "seen_at": [DAY]}))
    for segment in (tmp_path / "store").rglob("*.seg"):
        # In place: a new file would leave the old one to those who have it open.
        with segment.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
    with pytest.raises(idmatch.Corrupt) as raised:
        table.lookup("a")
    damage = raised.value
    assert damage.file is not None
    assert Path(damage.file) in (tmp_path / "store").rglob("*.seg")
    assert damage.offset is not None
    assert 0 < damage.offset < Path(damage.file).stat().st_size
    assert str(damage).startswith(f"{damage.file}, offset {damage.offset}: ")
