"""The same API and commands on servers: a real Cassandra node that these tests start."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trustme
from campaign import run_and_compare_campaign
from conftest import DAY, NOON, SMALL, Cli, observations
from deliveries import run_and_compare
from kept_log import Kept
from shared_node import OPTIONS
from twins import answers_of_a_chain


@pytest.fixture
def store(address: str) -> Iterator[idmatch.Store]:
    """An empty store."""
    with idmatch.open(address) as opened:
        yield opened


@pytest.fixture
def table(store: idmatch.Store) -> idmatch.Table:
    """A table that keeps the last date of each pair and holds SMALL."""
    made = store.create_table("small", expected_rows=64_000)
    made.load(SMALL)
    return made


def test_lookups_in_both_directions(table: idmatch.Table) -> None:
    answers = table.partner_ids("a").to_pydict()
    assert answers == {"partner_id": ["x", "y"], "seen_at": [NOON, NOON - 10 * DAY]}
    assert table.ids("x").column("id").to_pylist() == ["a", "b"]
    assert table.ids("x", since=NOON - DAY).column("id").to_pylist() == ["a"]
    assert table.latest_partner_id("c") == ("z", NOON - 400 * DAY)
    assert table.last_seen("a", "y") == NOON - 10 * DAY
    assert table.partner_ids("nobody").num_rows == 0


def test_lookups_of_many_keys_and_snapshots(store: idmatch.Store) -> None:
    table = store.create_table("many", keep="all", expected_rows=64_000)
    table.load(observations(("a", "x", NOON), ("a", "y", NOON + DAY), ("b", "x", NOON)))
    answers = [[("y", NOON + DAY), ("x", NOON)], [], [("x", NOON)]]
    assert table.lookup_many(["a", "nobody", "b"]) == answers
    assert table.lookup_many(["a", "b"], limit=1) == [answers[0][:1], answers[2]]
    assert table.lookup("x", by="partner_id") == [("a", NOON), ("b", NOON)]
    with store.snapshot() as snapshot:
        assert (snapshot.version, snapshot.tables()) == (None, ["many"])
        frozen = snapshot.table("many")
        assert frozen.lookup_many(["a", "nobody", "b"]) == answers
        # Servers keep no old rows.
        table.erase(id="a")
        assert frozen.lookup("a") == []
    with pytest.raises(idmatch.InvalidArgument, match="the snapshot is closed"):
        frozen.lookup("b")
    assert store.status() == (0, None, False, False, None)


def test_a_population_is_matched(table: idmatch.Table, tmp_path: Path) -> None:
    result = table.match(pa.table({"id": ["a", "b", "a", "nobody"]}))
    assert (result.population, result.matched, result.rows) == (4, 3, 5)
    rows = sorted(zip(*result.to_arrow().to_pydict().values(), strict=True))
    twice = [("a", "x", NOON), ("a", "x", NOON)]
    twice += [("a", "y", NOON - 10 * DAY), ("a", "y", NOON - 10 * DAY)]
    assert rows == [*twice, ("b", "x", NOON - 30 * DAY)]
    result.write_parquet(tmp_path / "matched.parquet")
    # Three ids in 16 buckets: each in one of its own, or two together.
    assert {step.how for step in result.plan} <= {"single keys", "IN queries"}
    assert sum(step.keys for step in result.plan) == 3
    assert all(step.requests > 0 and step.why for step in result.plan)
    asked = sum(step.requests for step in result.plan)
    assert (result.requests and result.requests.answered) == asked


def test_a_match_reads_what_costs_least(store: idmatch.Store) -> None:
    table = store.create_table("plans", expected_rows=64_000)
    table.load(observations(*((f"i{n}", "p", NOON) for n in range(8_000))))
    all_of_them = pa.table({"id": [f"i{n}" for n in range(8_000)]})
    # 500 rows in each of 16 buckets, all asked for: at first to find out what each way costs.
    ways = set()
    for _ in range(3):
        result = table.match(all_of_them)
        assert (result.matched, result.rows) == (8_000, 8_000)
        assert sum(step.keys for step in result.plan) == 8_000
        ways |= {step.how for step in result.plan}
    assert ways == {"IN queries", "partition scans"}
    # One id in a bucket of 500 rows.
    (step,) = table.match(pa.table({"id": ["i1"]})).plan
    assert (step.how, step.requests, step.keys) == ("single keys", 1, 1)
    few = table.match(pa.table({"id": [f"i{n}" for n in range(64)]}))
    assert few.matched == 64
    assert "partition scans" not in {step.how for step in few.plan}


@pytest.mark.parametrize("keep", ["last", "all"])
def test_all_ways_of_reading_a_population_agree(node: str, keep: Literal["last", "all"]) -> None:
    # Longer than what keys are ordered by at first, shorter, and one at the beginning of another.
    keys = [f"a-common-beginning-{n}" for n in range(6_000)]
    keys += [f"{n:x}" for n in range(2_000)] + ["a", "a\0", "ab", "é", "a-common-beginning-"]
    rows = {key: [(f"p{n % 7}", NOON), (f"q{n}", NOON - n * DAY)] for n, key in enumerate(keys)}
    rows["hot"] = [(f"v{n}", NOON - n % 3 * DAY) for n in range(300)]
    # Every third is not there, some are asked for twice and thrice.
    asked = [*keys[::3], *keys[::5], *keys[::5], "hot", "hot", *(f"none{n}" for n in range(500))]
    expected = sorted((key, *row) for key in asked for row in rows.get(key, []))
    told = f"cql://{node}/ways_{keep}?{OPTIONS}&hot_key_rows=100"
    with idmatch.open(told) as store:
        table = store.create_table("ways", keep=keep, expected_rows=64_000)
        table.load(observations(*((key, *row) for key, some in rows.items() for row in some)))
    for reads in ("single_keys", "in_queries", "partition_scans", "auto"):
        with idmatch.open(f"{told}&match_reads={reads}") as store:
            result = store.table("ways").match(pa.table({"id": asked}))
            assert sorted(zip(*result.to_arrow().to_pydict().values(), strict=True)) == expected
            steps = {step.how: step for step in result.plan}
            assert sum(step.keys for step in result.plan) == len(set(asked))
            # The load noted that it has more than a hundred rows.
            assert steps["hot keys"].keys == 1
            if reads == "in_queries":
                # At most a hundred in each, as few queries as may be for each of 16 buckets.
                queries = steps["IN queries"]
                assert queries.keys / 100 <= queries.requests < queries.keys / 100 + 16


def test_upserts_merge_and_erasures_last(table: idmatch.Table) -> None:
    table.upsert_one("a", "x", NOON - DAY)
    table.upsert_one("d", "x", NOON)
    assert table.last_seen("a", "x") == NOON
    assert table.ids("x").column("id").to_pylist() == ["a", "d", "b"]
    erased = table.erase(id="a")
    assert (erased.by_id, erased.by_partner_id) == (2, 2)
    table.upsert(observations(("a", "new", NOON)))
    assert table.partner_ids("a").num_rows == 0
    assert table.ids("new").num_rows == 0
    assert table.verify() == []


def test_a_retention_hides_at_once_and_a_longer_one_shows_what_is_left(
    kept: Kept, store: idmatch.Store
) -> None:
    now = datetime.now(UTC)
    table = store.create_table("kept", retention="30d", expected_rows=64_000)
    table.load(observations(("a", "old", now - 40 * DAY), ("a", "new", now - 20 * DAY)))
    assert table.partner_ids("a").column("partner_id").to_pylist() == ["new"]
    table.alter(retention="10d")
    assert table.partner_ids("a").num_rows == 0
    table.alter(retention="30d")
    assert table.partner_ids("a").column("partner_id").to_pylist() == ["new"]
    table.alter(retention=None)
    table.upsert(observations(("a", "old", now - 50 * DAY)))
    assert table.partner_ids("a").column("partner_id").to_pylist() == ["new", "old"]
    # The log tells of rows that are written again.
    told = dict(kept.events("idmatch.cql"))
    for event in ("rows are rewritten for a retention", "rows were rewritten for a retention"):
        assert told[event]["table"] == "kept"


def test_what_is_wrong_is_said(node: str, store: idmatch.Store, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authority)
    with pytest.raises(idmatch.InvalidArgument, match="do not speak TLS there"):
        idmatch.open(f"cql://{node}/ids?tls_ca={authority}")
    with pytest.raises(idmatch.NotAStore, match="replication"):
        idmatch.open(f"cql://{node}/nothing_here")
    with pytest.raises(idmatch.Unavailable, match=r"127\.73\.99\.1:9042"):
        idmatch.open("cql://127.73.99.1/ids?request_timeout=1s")
    with pytest.raises(idmatch.InvalidArgument, match=r"part 1 .* is no option"):
        idmatch.open(f"cql://{node}/ids?colour=red")
    with pytest.raises(idmatch.InvalidArgument, match="durability"):
        idmatch.open(f"cql://{node}/ids", durability="interval")
    with pytest.raises(idmatch.Unsupported, match="snapshot") as unsupported:
        store.backup("elsewhere")
    assert "nodetool" in str(unsupported.value.instead)


def test_checkpoints_are_of_directories(address: str) -> None:
    with idmatch.open(address) as store:
        with pytest.raises(idmatch.Unsupported, match="no checkpoints; read the store itself"):
            store.checkpoint()
        assert store.checkpoints() == []
        with pytest.raises(idmatch.InvalidArgument, match="is no checkpoint of this store"):
            store.remove_checkpoint("elsewhere")


def test_every_command_takes_an_address(cli: Cli, address: str) -> None:
    (cli.home / "rows.csv").write_text(
        "id,partner_id,seen_at\na,x,2026-03-01\nb,y,2026-03-02\n,z,2026-03-02\n"
    )
    (cli.home / "population.csv").write_text("id\na\nnobody\n")
    loaded = cli("load", address, "partner", "rows.csv", "--json")
    assert loaded.code == 3, loaded.err
    assert loaded.json()["rejected"] == 1
    assert cli("upsert", address, "partner", "--id", "c", "--partner-id", "x").code == 0
    shown = cli("lookup", address, "partner", "--partner-id", "x", "--json").json()
    assert [match["id"] for match in shown["matches"]] == ["c", "a"]
    matched = cli("match", address, "partner", "population.csv", "--json").json()
    assert (matched["population"], matched["matched"], matched["rows"]) == (2, 1, 1)
    assert cli("erase", address, "partner", "--id", "a", "--json").code == 0
    assert cli("alter", address, "partner", "--retention", "13mo", "--yes").code == 0
    refused = cli("load", address, "partner", "rows.csv", "--replace")
    assert (refused.code, "rename --swap" in refused.err) == (2, True), refused.err
    following = cli("load", address, "partner.next", "rows.csv", "--expected-rows", "64k")
    assert "made table partner.next for about 64,000 rows" in following.err, following.err
    assert cli("rename", address, "--swap", "partner", "partner.next").code == 0
    gone = cli("drop", address, "partner", "--dry-run", "--json").json()
    # What was erased in one is hidden in both since their names were exchanged.
    assert gone["removed"] == 1
    assert cli("rename", address, "--swap", "partner", "partner.next").code == 0
    assert cli("drop", address, "partner.next", "--yes").code == 0
    assert cli("rename", address, "partner", "crm").code == 0
    assert cli("rename", address, "crm", "partner").code == 0
    assert cli("drop", address, "partne", "--yes").err.count("partner") == 1
    assert cli("compact", address, "partner").code == 0
    assert cli("verify", address).code == 0
    assert cli("verify", address, "--repair").code == 0
    (listed,) = cli("tables", address, "--json").json()["tables"]
    assert (listed["rows"], listed["erasures"], listed["is_exact"]) == (2, 1, True)


def test_figures_about_a_table(table: idmatch.Table, address: str, cli: Cli) -> None:
    stats = table.stats()
    assert (stats.rows, stats.pairs, stats.ids, stats.partner_ids) == (4, 4, 3, 3)
    assert (stats.is_exact, stats.expected_rows, stats.is_outgrown) == (True, 64_000, False)
    assert stats._replace(rows=20 * 64_000 + 1).is_outgrown
    assert stats.newest == NOON
    assert stats.largest_key_rows == 2
    shown = cli("tables", address)
    assert (shown.code, "small" in shown.out, shown.err) == (0, True, "")


def test_a_copy_to_servers_and_back_remembers_what_was_erased(
    store: idmatch.Store, tmp_path: Path
) -> None:
    late = observations(("b", "x", NOON - 30 * DAY), ("b", "late", NOON))
    with idmatch.open(tmp_path / "here") as here, idmatch.open(tmp_path / "back") as back:
        table = here.create_table("small", keep="all", retention="999mo", expected_rows=64_000)
        table.load(SMALL)
        table.erase(id="b")
        there = table.copy_to(store)
        assert (there.rows, there.sent, there.rows_there, there.erasures) == (4, 4, 4, 1)
        on_servers = store.table("small")
        assert (on_servers.keep, on_servers.retention) == ("all", "999mo")
        assert on_servers.history("a", "y") == [NOON - 10 * DAY, NOON - 20 * DAY]
        on_servers.load(late)
        assert on_servers.ids("late").num_rows == 0
        assert table.copy_to(store).sent == 0
        # And on: a row that was added there, and what was erased there.
        on_servers.upsert(observations(("d", "x", NOON)))
        on_servers.erase(id="c")
        again = on_servers.copy_to(back, name="other")
        assert (again.rows, again.sent, again.rows_there, again.erasures) == (4, 4, 4, 2)
        copy = back.table("other")
        copy.load(late)
        copy.load(SMALL)
        assert copy.ids("x").column("id").to_pylist() == ["a", "d"]
        assert copy.ids("z").num_rows == 0
        assert on_servers.copy_to(back, name="other").checksum == again.checksum
        with pytest.raises(idmatch.Differs, match="of its own"):
            table.copy_to(store)
        assert copy.verify() == on_servers.verify() == []


def test_verify_during_upserts(table: idmatch.Table) -> None:
    stop, written = threading.Event(), list[datetime]()

    def write() -> None:
        while not stop.is_set():
            at = NOON + (len(written) + 1) * timedelta(seconds=1)
            table.upsert(observations(*((f"i{n}", f"p{n % 7}", at) for n in range(300))))
            written.append(at)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        found = [table.verify()]
        # A check must have run while rows were written, however slow the machine is.
        while len(found) < 3 or len(written) <= 3:
            assert writing.is_alive()
            found.append(table.verify())
    finally:
        stop.set()
        writing.join()
    assert not any(found)
    assert table.latest_partner_id("i8") == ("p1", written[-1])


def test_a_copy_within_servers_has_other_buckets(cli: Cli, address: str) -> None:
    rows = pa.table(
        {
            "id": [f"id{n}" for n in range(30_000)],
            "partner_id": [f"p{n % 700}" for n in range(30_000)],
            "seen_at": pa.array([NOON] * 30_000, pa.timestamp("ms", "UTC")),
        }
    )
    with idmatch.open(address) as store:
        made = store.create_table("t", expected_rows=800_000)
        made.load(rows)
        made.erase(id="id7")
    other = f"{address}&in_flight=7"
    # The same store, whatever else the address says.
    ran = cli("copy", address, other, "t")
    assert ran.code == 2
    assert "both stores are the same" in ran.err
    ran = cli("copy", address, other, "t", "--as", "t2", "--batch-rows", "10k", "--json")
    assert ran.code == 0, ran.err
    (report,) = ran.json()["tables"]
    assert (report["rows"], report["rows_there"], report["erasures"]) == (29_999, 29_999, 1)
    with idmatch.open(address) as store:
        expected = {name: store.table(name).stats().expected_rows for name in ("t", "t2")}
    assert expected == {"t": 800_000, "t2": 64_000}
    # A store that was made for itself has another secret.
    elsewhere = address.replace("?", "_2?")
    assert cli("upsert", elsewhere, "own", "--id", "a", "--partner-id", "x", "--create").code == 0
    ran = cli("copy", address, elsewhere, "t")
    assert ran.code == 1
    assert "has 1 erasures" in ran.err
    ran = cli("copy", address, elsewhere, "t", "--accept-lost-erasures", "--json")
    assert ran.json()["tables"][0]["rows_there"] == 29_999
    with idmatch.open(elsewhere) as store:
        assert store.table("t").match(rows.select(["id"])).rows == 29_999


def test_a_first_load_sizes_the_buckets(cli: Cli, address: str) -> None:
    rows = pa.table(
        {
            "id": [f"id{n}" for n in range(70_001)],
            "partner_id": ["p"] * 70_001,
            "seen_at": pa.array([NOON] * 70_001, pa.timestamp("ms", "UTC")),
        }
    )
    pq.write_table(rows, cli.home / "rows.parquet")
    (cli.home / "few.csv").write_text("id,partner_id,seen_at\na,x,2026-03-01\n")
    sizes = {
        "footer": (["load", "rows.parquet"], 72_000),
        "text": (["load", "few.csv"], 64_000),
        "said": (["load", "few.csv", "--expected-rows", "1M"], 1_000_000),
        "unknown": (["create"], 10_000_000),
        "made": (["create", "--expected-rows", "2M"], 2_000_000),
    }
    for name, ([command, *rest], _) in sizes.items():
        ran = cli(command, address, name, *rest)
        assert ran.code == 0, ran.err
    again = cli("load", address, "said", "few.csv", "--expected-rows", "5M")
    assert "is there already" in again.err
    tables = cli("tables", address, "--json").json()["tables"]
    with idmatch.open(address) as store:
        found = {table["name"]: store.table(table["name"]).stats() for table in tables}
    assert {name: stats.expected_rows for name, stats in found.items()} == {
        name: rows for name, (_, rows) in sizes.items()
    }


@pytest.mark.parametrize("run", [run_and_compare, run_and_compare_campaign])
def test_the_examples(address: str, tmp_path: Path, run: Callable[[str, Path], None]) -> None:
    run(address, tmp_path)


def test_more_rejects_than_may_be_send_nothing(
    store: idmatch.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("id,partner_id,seen_at\na,x,2026-03-01\nbroken\n,x,2026-03-01\n")
    second.write_text("id,partner_id,seen_at\nb,x,2026-03-01\n")
    table = store.create_table("limited", expected_rows=64_000)
    with pytest.raises(idmatch.BadInput, match="nothing was loaded"):
        table.load([first, second], max_rejects="40%")
    assert table.ids("x").num_rows == 0
    report = table.load([first, second], max_rejects="50%")
    assert (report.rows, report.rejected) == (4, 2)
    assert table.ids("x").column("id").to_pylist() == ["a", "b"]
    files = sorted((tmp_path / "state" / "idmatch" / "rejects").iterdir())
    assert str(report.rejects) in map(str, files)
    assert [len(file.read_text().splitlines()) for file in files] == [3, 3]
    with pytest.raises(idmatch.BadInput, match=r"first\.csv, row 2"):
        table.load([first, second], max_rejects="50%", strict=True)


def test_a_chain_gives_what_a_directory_gives(store: idmatch.Store, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as directory:
        assert answers_of_a_chain(store) == answers_of_a_chain(directory)
