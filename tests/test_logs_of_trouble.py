"""What the log tells of work that nobody waits for, and of what others left."""

import subprocess
import sys
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON, observations
from damage import overwrite_segments
from kept_log import Kept
from scraped import Samples

MANY = observations(*((f"id{n:08}", f"p{n:08}", NOON) for n in range(20_000)))


def test_compactions_that_fail_until_a_repair(kept: Kept, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store", memtable="1M") as store:
        table = store.create_table("crm")
        table.load(MANY)
        overwrite_segments(tmp_path / "store", 4096)
        slowed = "compactions are behind: upserts are slowed down"
        while not kept.values(slowed):
            table.upsert(MANY)
        table.repair(accept_loss=True)
        again = "background work succeeds again"
        caught_up = "compactions caught up: upserts are no longer slowed down"
        while not (kept.values(again) and kept.values(caught_up)):
            table.upsert(MANY)
        assert table.match(MANY.select(["id"])).matched == MANY.num_rows
    (failed, *_) = kept.values("background work failed")
    assert (failed["work"], failed["table"], failed["failures"]) == ("compaction", "crm", 1)
    assert ".seg" in str(failed["error"])
    (warned,) = kept.values(slowed)
    assert (warned["table"], warned["limit"]) == ("crm", 64)
    (rebuilt,) = kept.values("table is rebuilt")
    assert rebuilt["table"] == "crm"
    (succeeds,) = kept.values(again)
    assert (succeeds["work"], succeeds["table"]) == ("compaction", "crm")
    assert succeeds["failures"] == len(kept.values("background work failed"))
    assert kept.values("memtables were flushed") != []


def test_a_damaged_table_ends_no_compaction_of_another(kept: Kept, tmp_path: Path) -> None:
    """Its segments are so many that they are compacted meanwhile, which fails."""
    place = tmp_path / "store"

    def some(number: int) -> pa.Table:
        return observations(*((f"{number}-{row}", "x", NOON) for row in range(1000)))

    with idmatch.open(place) as store:
        for number in range(64):
            store.create_table("damaged").load(some(number))
    overwrite_segments(place, 8)
    with idmatch.open(place) as store:
        for number in range(64, 66):
            store.table("damaged").load(some(number))
            store.create_table("whole").load(some(number))
    before = len(kept.values("background work failed"))
    with idmatch.open(place) as store:
        store.table("whole").compact()
        assert store.table("whole").stats().segments == 2
    (failed,) = kept.values("background work failed")[before:]
    assert (failed["work"], failed["table"]) == ("compaction", "damaged")


WRITER = """
import sys, idmatch, pyarrow as pa
store = idmatch.open(sys.argv[1])
session = store.create_table("crm").begin()
session.add(pa.table({"id": ["a"], "partner_id": ["x"]}), dated="2026-03-01")
print("staged", flush=True)
sys.stdin.read()
"""


def test_files_of_a_killed_writer_are_counted(kept: Kept, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "store")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "staged\n"
        writer.kill()
    left = set((tmp_path / "store").rglob("*"))
    with idmatch.open(tmp_path / "store") as store:
        store.table("crm").upsert_one("b", "y", NOON)
    removed = left - set((tmp_path / "store").rglob("*"))
    (told,) = kept.values("files of writers that ended early are removed")
    assert told["files"] == len(removed) > 0


def test_keys_that_have_very_many_rows(kept: Kept, address: str) -> None:
    with idmatch.open(f"{address}&hot_key_rows=100") as store:
        table = store.create_table("crm", expected_rows=64_000)
        table.load(observations(*(("hot", f"p{n}", NOON) for n in range(300))))
    (found,) = kept.values("hot keys found", "idmatch.cql")
    assert (found["table"], found["by"], found["keys"]) == ("crm", "id", 1)


def test_servers_that_cannot_answer(kept: Kept, address: str) -> None:
    """One node cannot keep three copies."""
    with idmatch.open(address) as store:
        store.create_table("crm")
    with idmatch.open(f"{address}&write_consistency=three&timeout=5s") as store:
        before = Samples(store.metrics())
        with pytest.raises(idmatch.Error, match="consistency"):
            store.table("crm").upsert_one("a", "x", NOON)
        found = Samples(store.metrics())
    repeated = kept.values("request is repeated", "idmatch.cql")
    # Both directions are written at once.
    attempts = {one["attempt"] for one in repeated}
    assert attempts == set(range(1, len(attempts) + 1)) != set()
    assert all("consistency" in str(one["error"]) for one in repeated)
    retries = "idmatch_cql_retries_total"
    assert found.of(retries) - before.of(retries) == len(repeated)
