"""Questions about one identifier, in both directions, with windows of every kind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DAY, NOON, SMALL, Cli, Window, answer_schema, observations, pairs

MILLISECOND = timedelta(milliseconds=1)


def test_answers_come_newest_first(table: idmatch.Table) -> None:
    assert pairs(table.partner_ids("a")) == [("x", NOON), ("y", NOON - 10 * DAY)]
    assert pairs(table.ids("x")) == [("a", NOON), ("b", NOON - 30 * DAY)]
    assert pairs(table.partner_ids("nobody")) == []
    assert table.partner_ids("a").schema == answer_schema("partner_id")


def test_ties_are_broken_by_bytes(store: idmatch.Store) -> None:
    table = store.create_table("ties")
    table.load(observations(*(("a", value, NOON) for value in ("é", "b", "B", "a ", "a"))))
    assert [value for value, _ in pairs(table.partner_ids("a"))] == ["B", "a", "a ", "b", "é"]


def test_latest(table: idmatch.Table) -> None:
    assert table.latest_partner_id("a") == ("x", NOON)
    assert table.latest_id("x") == ("a", NOON)
    assert table.latest_id("x", until=NOON) == ("b", NOON - 30 * DAY)
    assert table.latest_partner_id("nobody") is None


def test_last_seen_and_history(store: idmatch.Store) -> None:
    last = store.create_table("last")
    every = store.create_table("every", keep="all")
    last.load(SMALL)
    every.load(SMALL)
    dates = [NOON - 10 * DAY, NOON - 20 * DAY]
    assert last.last_seen("a", "y") == every.last_seen("a", "y") == dates[0]
    assert last.last_seen("a", "z") is None
    assert last.history("a", "y") == dates[:1]
    assert every.history("a", "y") == dates


def test_a_window_looks_at_any_observation_when_all_are_kept(store: idmatch.Store) -> None:
    last = store.create_table("last")
    every = store.create_table("every", keep="all")
    last.load(SMALL)
    every.load(SMALL)
    older: Window = {"since": NOON - 25 * DAY, "until": NOON - 15 * DAY}
    assert pairs(last.partner_ids("a", **older)) == []
    assert pairs(every.partner_ids("a", **older)) == [("y", NOON - 20 * DAY)]


def test_since_is_inside_and_until_is_outside(table: idmatch.Table) -> None:
    assert table.latest_partner_id("a", since=NOON) == ("x", NOON)
    assert table.latest_partner_id("a", since=NOON + MILLISECOND) is None
    assert table.partner_ids("a", until=NOON).num_rows == 1
    assert table.partner_ids("a", until=NOON + MILLISECOND).num_rows == 2


@pytest.mark.parametrize(
    "since",
    [
        datetime(2026, 3, 1, 12, tzinfo=UTC),
        datetime(2026, 3, 1, 12),
        datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=1))),
        datetime(2026, 3, 1, 11, 59, 59, 999_001),
        date(2026, 3, 1),
        "2026-03-01T12:00:00Z",
        "2026-03-01T13:00:00+01:00",
        "2026-03-01",
    ],
)
def test_every_way_to_write_an_instant(table: idmatch.Table, since: idmatch._times.Moment) -> None:
    assert pairs(table.partner_ids("a", since=since)) == [("x", NOON)]


def test_microseconds_round_towards_the_later_millisecond(table: idmatch.Table) -> None:
    just_after = NOON + timedelta(microseconds=1)
    assert table.latest_partner_id("a", since=just_after) is None
    assert table.latest_partner_id("a", until=just_after) == ("x", NOON)


def test_periods_before_now(store: idmatch.Store) -> None:
    table = store.create_table("recent")
    now = datetime.now(UTC)
    table.load(observations(("a", "new", now - 10 * DAY), ("a", "old", now - 100 * DAY)))
    for since in ("90d", timedelta(days=90), "2mo", "12w"):
        assert table.partner_ids("a", since=since).column("partner_id").to_pylist() == ["new"]
    oldest = table.latest_partner_id("a", until="50d")
    assert oldest is not None
    assert oldest.value == "old"


def test_before_1970_is_no_limit_and_no_answer(table: idmatch.Table) -> None:
    for since in (date(1900, 1, 1), "1970-01-01T00:00:00+01:00", "0001-01-01"):
        assert table.partner_ids("a", since=since).num_rows == 2
    assert table.partner_ids("a", until=date(1900, 1, 1)).num_rows == 0


def test_limit(table: idmatch.Table) -> None:
    assert pairs(table.ids("x", limit=1)) == [("a", NOON)]
    assert table.ids("x", limit=0).num_rows == 0
    assert table.ids("x", limit=100).num_rows == 2
    with pytest.raises(idmatch.InvalidArgument, match="limit is -1"):
        table.ids("x", limit=-1)


def test_wrong_windows_and_keys(table: idmatch.Table) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="soon"):
        table.partner_ids("a", since="soon")
    with pytest.raises(idmatch.InvalidArgument, match="no point in time"):
        table.partner_ids("a", since=5)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(idmatch.InvalidArgument):
        table.partner_ids("a", since=NOON, until=NOON - DAY)
    for key in ("", "x" * 1025):
        with pytest.raises(idmatch.InvalidArgument):
            table.partner_ids(key)
    with pytest.raises(TypeError):
        table.partner_ids(5)  # type: ignore[arg-type]  # wrong on purpose


def test_retention_hides_what_is_older(store: idmatch.Store) -> None:
    table = store.create_table("kept", retention="13mo")
    now = datetime.now(UTC)
    table.load(observations(("a", "new", now - 30 * DAY), ("a", "old", now - 500 * DAY)))
    assert table.partner_ids("a").column("partner_id").to_pylist() == ["new"]
    assert table.last_seen("a", "old") is None
    assert table.match(pa.table({"id": ["a"]})).rows == 1


def test_a_retention_is_at_least_a_day(store: idmatch.Store) -> None:
    table = store.create_table("kept", retention="1y")
    assert store.create_table("kept", retention="12mo").retention == "1y"
    for retention, reason in [("13m", "write 13mo for months"), ("23h", "shorter than a day")]:
        with pytest.raises(idmatch.InvalidArgument, match=reason):
            store.create_table("new", retention=retention)
        with pytest.raises(idmatch.InvalidArgument, match=reason):
            table.alter(retention=retention)
    assert (store.tables(), table.retention) == (["kept"], "1y")
    # A window may start minutes ago.
    assert table.partner_ids("a", since="30m").num_rows == 0


def test_tables_of_a_store(store: idmatch.Store, tmp_path: Path) -> None:
    made = store.create_table("one", keep="all", retention="13mo")
    assert (made.name, made.keep, made.retention) == ("one", "all", "13mo")
    assert store.tables() == ["one"]
    assert store.create_table("one", keep="all", retention="13mo").name == "one"
    with pytest.raises(idmatch.TableExists):
        store.create_table("one")
    with pytest.raises(idmatch.TableNotFound, match="two") as caught:
        store.table("two")
    assert isinstance(caught.value, KeyError)
    assert not str(caught.value).startswith("'")
    with pytest.raises(idmatch.InvalidArgument):
        store.create_table("a/b")
    with pytest.raises(idmatch.InvalidArgument):
        store.create_table("b", keep="some")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(idmatch.InvalidArgument):
        store.create_table("b", retention="a while")


def test_stats_and_verify(table: idmatch.Table) -> None:
    stats = table.stats()
    assert (stats.oldest, stats.newest) == (NOON - 400 * DAY, NOON)
    assert stats.rows == 4
    assert stats.bytes > 0
    assert table.verify() == []


def test_stats_of_an_empty_table(store: idmatch.Store) -> None:
    stats = store.create_table("empty").stats()
    assert (stats.rows, stats.oldest, stats.newest) == (0, None, None)


def test_stores_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(idmatch.InvalidArgument, match=r"mongodb://"):
        idmatch.open("mongodb://10.0.0.1/idmatch")
    (tmp_path / "something").mkdir()
    (tmp_path / "something" / "else.txt").write_text("hello")
    with pytest.raises(idmatch.NotAStore):
        idmatch.open(tmp_path / "something")


def test_a_closed_store_is_closed(tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("one")
        table = store.create_table("two")
        table.upsert_one("a", "x", NOON)
    for use in (
        store.tables,
        lambda: store.table("two"),
        lambda: table.upsert_one("b", "x"),
        lambda: table.partner_ids("a"),
        lambda: table.match(pa.table({"id": ["a"]})),
        table.stats,
        table.compact,
        lambda: table.erase(id="a"),
    ):
        with pytest.raises(idmatch.InvalidArgument, match="is closed; open it again"):
            use()
    assert "two" in repr(table)
    # Another one has the right to write, and all that was acknowledged.
    with idmatch.open(tmp_path / "store") as store:
        store.table("two").upsert_one("c", "x", NOON)
        assert store.table("two").ids("x").num_rows == 2


def test_a_store_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with idmatch.open("store") as store:
        table = store.create_table("t")
        table.upsert_one("a", "x")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        table.compact()
        table.erase(id="b")
        store.backup("copy")
        with pytest.raises(idmatch.InvalidArgument, match="is in the store itself"):
            store.backup(tmp_path / "store" / "copy")
    assert list(Path().iterdir()) == [Path("copy")]
    assert idmatch.open("copy").table("t").stats().rows == 1
    with pytest.raises(idmatch.InvalidArgument, match="path of the store is empty"):
        idmatch.open("")


FORK = """
import os, idmatch
store = idmatch.open("store")
table = store.create_table("t")
table.upsert_one("first", "x")
def in_a_fork(use):
    child = os.fork()
    if child == 0:
        try:
            use()
            os._exit(0)
        except idmatch.InvalidArgument as error:
            os._exit(7 if "is a fork" in str(error) else 8)
        except BaseException:
            os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
for use in (
    table.compact,
    lambda: table.upsert_one("lost", "x"),
    lambda: table.erase(id="first"),
    lambda: table.alter(retention="1d"),
    lambda: store.rename_table("t", "other"),
    lambda: store.swap_tables("t", "t2"),
    lambda: store.drop_table("t"),
    lambda: store.create_table("other"),
    lambda: store.backup("copy"),
):
    assert in_a_fork(use) == 7
def reads():
    assert table.ids("x").column("id").to_pylist() == ["first"]
assert in_a_fork(reads) == 7
assert in_a_fork(store.close) == 0
for number in range(5):
    table.upsert_one(f"later-{number}", "x")
store.close()
table = idmatch.open("store").table("t")
assert table.verify() == []
assert table.ids("x").num_rows == 6
print("good")
"""


def test_a_fork_neither_reads_nor_writes(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert (ran.stdout, ran.stderr) == ("good\n", "")


def test_a_refresh_shows_what_another_process_loaded(cli: Cli) -> None:
    pq.write_table(SMALL, cli.home / "small.parquet")
    pq.write_table(observations(("a", "new", NOON)), cli.home / "more.parquet")
    assert cli("load", "store", "one", "small.parquet").code == 0
    reader = idmatch.open(cli.home / "store")
    seen = reader.table("one")
    before = pairs(seen.partner_ids("a"))
    assert cli("load", "store", "one", "more.parquet").code == 0
    assert pairs(seen.partner_ids("a")) == before
    reader.refresh()
    assert len(pairs(seen.partner_ids("a"))) == len(before) + 1


def test_handles_of_one_process_share_the_writer(tmp_path: Path) -> None:
    first, second = (idmatch.open(tmp_path / "store") for _ in range(2))
    first.create_table("t").upsert(observations(("a", "x", NOON)))
    second.table("t").upsert(observations(("a", "y", NOON)))
    assert pairs(first.table("t").partner_ids("a")) == [("x", NOON), ("y", NOON)]
    first.close()
    second.table("t").upsert(observations(("a", "z", NOON)))
    with pytest.raises(idmatch.InvalidArgument, match="is closed"):
        first.table("t").upsert(SMALL)


def test_one_load_at_a_time(table: idmatch.Table, cli: Cli) -> None:
    pq.write_table(SMALL, cli.home / "small.parquet")

    def batches() -> Iterator[pa.RecordBatch]:
        refused = cli("load", "store", "small", "small.parquet")
        assert refused.code == 75
        assert f"process {os.getpid()} (" in refused.err
        yield from SMALL.to_batches()

    assert table.load(pa.RecordBatchReader.from_batches(SMALL.schema, batches())).rows == 5
    assert cli("load", "store", "small", "small.parquet").code == 0


def test_backup_and_restore(table: idmatch.Table, store: idmatch.Store, tmp_path: Path) -> None:
    store.backup(tmp_path / "backup")
    table.load(observations(("a", "later", NOON)))
    idmatch.restore(tmp_path / "backup", tmp_path / "restored")
    with idmatch.open(tmp_path / "restored") as restored:
        assert pairs(restored.table("small").partner_ids("a")) == [
            ("x", NOON),
            ("y", NOON - 10 * DAY),
        ]
    with pytest.raises(idmatch.Error):
        idmatch.restore(tmp_path / "backup", tmp_path / "restored")
    with pytest.raises(idmatch.Error):
        store.backup(tmp_path / "backup")


def test_repr_says_what_it_is(store: idmatch.Store, table: idmatch.Table) -> None:
    assert repr(table) == "<idmatch.Table 'small' keep='last'>"
    assert repr(store).startswith("<idmatch.Store '")
    assert "matched=1" in repr(table.match(pa.table({"id": ["a"]})))
