"""The figures of a process about its store."""

import subprocess
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, SMALL, Cli, observations
from scraped import Samples, scrape


def metrics(store: idmatch.Store) -> Samples:
    return Samples(store.metrics())


def calls(store: idmatch.Store) -> dict[str, float]:
    """How many calls there were, by kind; those that there were."""
    counts = metrics(store).by("idmatch_call_duration_seconds_count", "call")
    return {call: count for call, count in counts.items() if count}


def test_calls_are_counted_by_kind(store: idmatch.Store) -> None:
    table = store.create_table("crm")
    assert calls(store) == {}
    table.load(SMALL)
    assert calls(store) == {"stage": 1, "commit": 1}
    table.upsert(SMALL)
    table.upsert_one("d", "w")
    for _ in range(3):
        table.lookup("a")
    table.partner_ids("a")
    table.latest_partner_id("a")
    table.last_seen("a", "x")
    table.history("a", "x")
    matched = table.match(pa.table({"id": ["a", "nobody"]}))
    matched.to_arrow()
    table.match(pa.table({"id": ["a"]}), then=["crm,by=partner-id"]).to_arrow()
    table.erase(id="c")
    table.compact()
    table.verify()
    table.repair()
    store.backup(Path(store.path).parent / "backup")
    with store.snapshot() as snapshot:
        snapshot.table("crm").lookup("a")
    assert calls(store) == {
        "stage": 1,
        "commit": 1,
        "upsert": 2,
        "lookup": 6,
        "last_seen": 2,
        "match": 2,
        "write": 2,
        "erase": 1,
        "compact": 1,
        "verify": 1,
        "repair": 1,
        "backup": 1,
    }
    assert metrics(store).of("idmatch_call_duration_seconds_sum", call="lookup") > 0
    assert set(metrics(store).by("idmatch_calls_in_flight", "call").values()) == {0}


def test_errors_are_counted_by_code(store: idmatch.Store, cli: Cli) -> None:
    table = store.create_table("crm")
    with pytest.raises(idmatch.InvalidArgument):
        table.lookup("")
    with pytest.raises(idmatch.BadInput):
        table.upsert_one("a", "")
    store.drop_table("crm")
    with pytest.raises(idmatch.TableNotFound):
        table.lookup("a")
    errors = {
        (labels["call"], labels["error"]): value
        for name, labels, value in metrics(store)
        if name == "idmatch_call_errors_total" and value
    }
    assert errors == {
        ("lookup", "invalid-argument"): 1,
        ("upsert", "bad-input"): 1,
        ("lookup", "table-not-found"): 1,
    }


def test_snapshots_and_sessions_are_counted_while_they_are_open(store: idmatch.Store) -> None:
    table = store.create_table("crm")
    table.load(SMALL)

    def are_open() -> tuple[float, float]:
        found = metrics(store)
        return found.of("idmatch_open_snapshots"), found.of("idmatch_open_sessions")

    assert are_open() == (0, 0)
    snapshot, session, other = store.snapshot(), table.begin(), table.begin()
    assert are_open() == (1, 2)
    table.compact()
    assert metrics(store).of("idmatch_pinned_bytes") == store.status().pinned_bytes
    snapshot.close()
    session.abort()
    other.add(SMALL)
    other.commit()
    assert are_open() == (0, 0)
    # One that is dropped is no longer open.
    snapshot = store.snapshot()
    assert are_open() == (1, 0)
    del snapshot
    assert are_open() == (0, 0)


def test_the_write_path_is_counted(store: idmatch.Store) -> None:
    table = store.create_table("crm")
    for number in range(10):
        table.upsert_one(f"id{number}", "p", NOON)
    table.upsert(observations(("x", "p", NOON), ("y", "p", NOON)))
    found = metrics(store)
    assert found.of("idmatch_journal_rows_total") == 12
    assert found.of("idmatch_journal_commits_total") == 11
    # One that begins the file is not among them.
    assert found.of("idmatch_journal_sync_duration_seconds_count") == 11
    assert found.of("idmatch_memtable_rows") == 12
    assert found.of("idmatch_memtable_bytes") == table.stats().memtable_bytes
    journal = sum(file.stat().st_size for file in (Path(store.path) / "journal").iterdir())
    assert found.of("idmatch_journal_bytes") == journal
    assert found.of("idmatch_is_writer") == 1
    assert set(found.by("idmatch_write_stall_seconds_total", "reason")) == {
        "slowdown",
        "stop",
        "memtable",
    }
    table.compact()
    found = metrics(store)
    assert found.of("idmatch_flush_duration_seconds_count") == 1
    assert found.of("idmatch_flushed_rows_total") == 12
    assert found.of("idmatch_memtable_rows") == 0
    assert found.of("idmatch_segments") == table.stats().segments


def test_compactions_are_counted(store: idmatch.Store) -> None:
    table = store.create_table("crm")
    table.load(SMALL)
    table.load(SMALL)
    before = table.stats()
    table.compact()
    found = metrics(store)
    # One for each direction.
    assert found.of("idmatch_compaction_duration_seconds_count") == 2
    assert found.of("idmatch_compacted_bytes_total") == before.bytes


def test_full_memtables_are_a_stall(tmp_path: Path) -> None:
    rows = observations(*((f"id{n:08}", f"p{n:08}", NOON) for n in range(20_000)))
    with idmatch.open(tmp_path / "store", memtable="1M") as store:
        table = store.create_table("crm")
        for _ in range(5):
            table.upsert(rows)
        assert metrics(store).of("idmatch_write_stall_seconds_total", reason="memtable") > 0


def test_two_stores_of_a_directory_share_its_figures(store: idmatch.Store) -> None:
    with idmatch.open(store.path) as other:
        store.create_table("crm").upsert_one("a", "x")
        other.table("crm").lookup("a")
        assert metrics(other).of("idmatch_journal_rows_total") == 1
        # Calls are those of each.
        assert calls(store) == {"upsert": 1}
        assert calls(other) == {"lookup": 1}


def test_a_store_that_is_only_read_has_figures(store: idmatch.Store) -> None:
    store.create_table("crm").load(SMALL)
    with idmatch.open(store.path, read_only=True) as reader:
        reader.table("crm").lookup("a")
        assert metrics(reader).of("idmatch_tables") == 1
    with pytest.raises(idmatch.InvalidArgument, match="closed"):
        reader.metrics()


def test_each_figure_is_explained(store: idmatch.Store) -> None:
    abouts = metrics(store).abouts()
    assert all(name.startswith("idmatch_") and about for name, about in abouts.items())


def test_no_figure_has_a_table_an_identifier_or_a_path(store: idmatch.Store) -> None:
    table = store.create_table("zqtable")
    table.load(observations(("zqid", "zqpartner", NOON)))
    table.lookup("zqid")
    with pytest.raises(idmatch.InvalidArgument):
        table.lookup("zq\0" * 5000)
    assert "zq" not in store.metrics()
    assert store.path not in store.metrics()


def test_a_stream_answers_prometheus(cli: Cli) -> None:
    assert cli("create", "store", "crm").code == 0
    stream = subprocess.Popen(
        cli.command("upsert", "store", "crm", "-", "--ack", "--metrics", "127.0.0.1:0"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cli.home,
    )
    assert stream.stdin
    assert stream.stdout
    assert stream.stderr
    url = stream.stderr.readline().split("listens on ")[1].strip()
    stream.stdin.write('{"id": "a", "partner_id": "x", "seen_at": "2026-03-01"}\n')
    stream.stdin.flush()
    assert stream.stdout.readline() == '{"rows": 1, "through": 1}\n'
    found = scrape(url)
    assert found.of("idmatch_journal_rows_total") == 1
    assert found.of("process_resident_memory_bytes") > 0
    stream.stdin.close()
    assert stream.wait(timeout=60) == 0
    stream.stdout.close()
    stream.stderr.close()


def test_metrics_are_for_streams(loaded: Cli) -> None:
    refused = loaded("upsert", "store", "small", "small.parquet", "--metrics", "7301")
    assert refused.code == 2
    assert "--metrics is for FILE -" in refused.err
    refused = loaded("upsert", "store", "small", "-", "--metrics", "here")
    assert refused.code == 2
    assert "'here' is no place to listen" in refused.err
