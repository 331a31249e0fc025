"""What the library logs: through Python's logging, and on the command line."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, SMALL, Cli, observations
from idmatch import _core
from kept_log import Kept

_MARK = "zqmarked"


def test_events_have_values(kept: Kept, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("crm")
        table.load(SMALL)
        table.match(pa.table({"id": ["a", "nobody"]}))
        table.erase(id="b")
        table.compact()
        table.verify()
        store.backup(tmp_path / "backup")
    events = kept.events("idmatch.engine")
    committed = [fields for event, fields in events if event == "rows were committed"]
    assert committed == [{"table": "crm", "rows": 5, "rejected": 0}]
    ended = [fields for event, fields in events if event == "operation ended"]
    assert [(end["operation"], end["table"], end["outcome"]) for end in ended] == [
        ("commit", "crm", "done"),
        ("match", "crm", "done"),
        ("erase", "crm", "done"),
        ("compact", "crm", "done"),
        ("verify", "crm", "done"),
        ("backup", "", "done"),
    ]
    assert [end.get("rows") for end in ended] == [None, 2, 1, 3, None, None]
    assert [end.get("findings") for end in ended] == [None, None, None, None, 0, None]
    # The backup also has a file of the table, of its erasures and of its loads.
    after, copied = ended[3]["bytes"], ended[5]["bytes"]
    in_backup = sum(one.stat().st_size for one in (tmp_path / "backup" / "segments").iterdir())
    in_segments = sum(
        one.stat().st_size for one in (tmp_path / "backup" / "segments").glob("*.seg")
    )
    assert (after, copied) == (in_segments, in_backup)
    compacted = [fields for event, fields in events if event == "segments were compacted"]
    assert {one["made_rows"] for one in compacted} == {3}
    opened = [fields for event, fields in events if event == "store was opened"]
    assert [(one["tables"], one["segments"]) for one in opened] == [(0, 0)]
    assert all(isinstance(end["ms"], int) for end in ended)
    record = next(one for one in kept.records if "committed" in one.getMessage())
    assert record.getMessage() == "rows were committed table=crm rows=5 rejected=0"
    assert record.levelno == logging.INFO


def test_a_level_counts_from_the_next_open_on(kept: Kept, tmp_path: Path) -> None:
    logging.getLogger("idmatch").setLevel(logging.WARNING)
    with idmatch.open(tmp_path / "store") as store:
        store.create_table("crm").load(SMALL)
    assert kept.events("idmatch.engine") == []
    logging.getLogger("idmatch.engine").setLevel(logging.INFO)
    try:
        with idmatch.open(tmp_path / "store") as store:
            store.table("crm").load(SMALL)
        # Before the level changes: it also counts when a record is told.
        assert kept.events("idmatch.engine") != []
    finally:
        logging.getLogger("idmatch.engine").setLevel(logging.NOTSET)


def test_rejected_rows_are_a_warning(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "dated.csv"
    file.write_text("id,partner_id,seen_at\na,x,2026-03-01\nb,y,never\n")
    with idmatch.open(tmp_path / "store") as store:
        report = store.create_table("crm").load(file)
    fields = {"table": "crm", "rejected": 1, "file": report.rejects}
    assert kept.events("idmatch.load") == [("rows were rejected", fields)]


def test_damage_is_a_warning(kept: Kept, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("crm")
        table.load(SMALL)
        segment = min((tmp_path / "store" / "segments").glob("*.seg"))
        segment.write_bytes(segment.read_bytes()[:-1] + b"\x00\x01"[-1:])
        found = table.verify()
        table.repair()
    rebuilt = [fields for event, fields in kept.events("idmatch.engine") if "rebuilt" in event]
    assert rebuilt == [{"table": "crm", "rows": 4, "lost_at_most": 0}]
    warned = [
        fields for event, fields in kept.events("idmatch.engine") if event == "damage was found"
    ]
    # By the verification and by the repair.
    places = [finding.place for finding in found]
    assert [fields["file"] for fields in warned] == places * 2 != []


def test_damage_is_told_where_a_repair_is_refused(kept: Kept, tmp_path: Path) -> None:
    """And each damaged file of it."""
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("crm")
        table.load(SMALL)
        segments = sorted((tmp_path / "store" / "segments").glob("*.seg"))
        for segment in segments:
            segment.write_bytes(segment.read_bytes()[:-1] + b"\x00\x01"[-1:])
        with pytest.raises(idmatch.Corrupt, match="would be lost"):
            table.repair()
    warned = [
        fields["file"] for event, fields in kept.events("idmatch.engine") if "damage" in event
    ]
    assert sorted(map(str, warned)) == [str(segment) for segment in segments] != []


def do_everything(store: idmatch.Store, home: Path) -> None:
    """Most that a store does, with identifiers that can be searched for; some of it fails."""
    ids = [f"{_MARK}{number}" for number in range(50)]
    rows = observations(*((one, f"p{one}", NOON) for one in ids))
    table = store.create_table("crm", keep="all")
    table.load(rows)
    table.upsert(rows)
    table.upsert_one(ids[0], f"{_MARK}-other")
    for question in (table.partner_ids, table.ids, table.latest_partner_id, table.lookup):
        question(ids[1])
    assert len(table.lookup_many(ids)) == len(ids)
    assert table.history(ids[0], f"p{ids[0]}") == [NOON]
    with table.begin() as session:
        session.add(rows)
    session = table.begin()
    session.add(rows)
    session.abort()
    assert table.match(pa.table({"id": ids})).rows > 0
    pq.write_table(pa.table({"id": ids}), home / "people.parquet")
    table.match(home / "people.parquet", then=["crm,by=partner-id"]).to_arrow()
    table.erase(id=ids[2])
    bad = pa.table({"id": [_MARK * 400], "partner_id": [_MARK], "seen_at": [NOON]})
    assert table.load(bad).rejected == 1
    with pytest.raises(idmatch.Error):
        table.load(bad, strict=True)
    with pytest.raises(idmatch.Error):
        table.upsert_one("", _MARK)
    assert table.scan().to_arrow().num_rows > 0
    table.alter(retention="1000mo")
    with idmatch.open(home / "copies") as copies:
        assert table.copy_to(copies, accept_lost_erasures=True).sent > 0
        assert copies.table("crm").copy_to(store, name="back", accept_lost_erasures=True).sent > 0
    assert table.verify() == []
    table.compact()
    table.repair()
    store.swap_tables("crm", "back")
    store.rename_table("crm", "other")
    store.drop_table("other")


def test_no_identifier_is_logged(kept: Kept, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        do_everything(store, tmp_path)
        table = store.table("back")
        for session in (table.begin(replace=True), table.begin(shared=True)):
            session.add(observations((_MARK, _MARK, NOON)))
            session.commit()
        store.backup(tmp_path / "backup")
        store.checkpoint(tmp_path / "checkpoint")
    idmatch.restore(tmp_path / "backup", tmp_path / "restored")
    for segment in (tmp_path / "restored" / "segments").glob("*.seg"):
        segment.write_bytes(segment.read_bytes()[:-100] + bytes(100))
    with idmatch.open(tmp_path / "restored") as store:
        found = store.table("back").verify()
        assert (len(found) > 0, _MARK in str(found)) == (True, False)
    assert len(kept.events("idmatch.engine")) > 10
    assert marked(kept) == []


def test_no_identifier_is_logged_of_servers(kept: Kept, tmp_path: Path, address: str) -> None:
    with idmatch.open(address) as store:
        do_everything(store, tmp_path)
    # One node cannot answer for three.
    failing = f"{address}&write_consistency=three&timeout=5s"
    with idmatch.open(failing) as store:
        table, rows = store.table("back"), observations((_MARK, f"p{_MARK}", NOON))
        calls: list[Callable[[], object]] = [
            lambda: table.upsert(rows),
            lambda: table.load(rows),
            lambda: table.erase(id=_MARK),
        ]
        for call in calls:
            with pytest.raises(idmatch.Error) as raised:
                call()
            assert _MARK not in str(raised.value)
    assert len(kept.events("idmatch.cql")) > 5
    assert marked(kept) == []


def marked(kept: Kept) -> list[str]:
    """The records that have an identifier."""
    return [text for record in kept.records if _MARK in (text := str(vars(record)))]


def test_nobody_waits_for_a_handler(tmp_path: Path) -> None:
    # More events than wait at most: the others are dropped, and that is said.
    program = f"""
import logging, threading, idmatch, pyarrow as pa
from idmatch import _core
going, kept = threading.Event(), []
class Slow(logging.Handler):
    def emit(self, record):
        going.wait()
        kept.append(record)
logging.getLogger("idmatch").addHandler(Slow())
logging.getLogger("idmatch").setLevel(logging.DEBUG)
with idmatch.open({str(tmp_path / "store")!r}) as store:
    table = store.create_table("crm")
    table.load(pa.table({{"id": ["a"], "partner_id": ["x"]}}), dated="2026-03-01")
    for _ in range(1000):
        table.verify()
    assert kept == []
    going.set()
    _core.flush_logs()
assert len(kept) > 1000, len(kept)
(dropped,) = (record for record in kept if "were dropped" in record.getMessage())
assert dropped.name == "idmatch" and dropped.fields["events"] > 500
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_handler_that_raises_ends_nothing(kept: Kept, tmp_path: Path) -> None:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError(record.getMessage())

    raising, logger = Raising(), logging.getLogger("idmatch.engine")
    logger.addHandler(raising)
    try:
        with idmatch.open(tmp_path / "store") as store:
            store.create_table("crm").load(SMALL)
            _core.flush_logs()
    finally:
        logger.removeHandler(raising)
    with idmatch.open(tmp_path / "store") as store:
        store.table("crm").load(SMALL)
    assert "rows were committed" in [event for event, _ in kept.events("idmatch.engine")]


def test_a_fork_logs_for_itself(kept: Kept, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "parent") as store:
        store.create_table("crm").load(SMALL)
        assert kept.events("idmatch.engine") != []
        child = os.fork()
        if child == 0:
            kept.records.clear()
            with idmatch.open(tmp_path / "child") as own:
                own.create_table("theirs").load(SMALL)
            told = {fields.get("table") for _, fields in kept.events("idmatch.engine")}
            # An event of a whole store has none.
            os._exit(0 if told - {None} == {"theirs"} else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_program_that_ends_tells_all(tmp_path: Path) -> None:
    program = f"""
import logging, idmatch, pyarrow as pa
logging.basicConfig(level=logging.INFO)
store = idmatch.open({str(tmp_path / "store")!r})
rows = pa.table({{"id": ["a"], "partner_id": ["x"]}})
store.create_table("crm").load(rows, dated="2026-03-01")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert done.returncode == 0
    assert b"rows were committed table=crm rows=1 rejected=0" in done.stderr


def test_a_program_that_asks_for_nothing_gets_nothing(tmp_path: Path) -> None:
    program = f"""
import idmatch, pyarrow as pa
with idmatch.open({str(tmp_path / "store")!r}) as store:
    table = store.create_table("crm")
    table.load(pa.table({{"id": ["", "a"], "partner_id": ["x", "x"]}}), dated="2026-03-01")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_threads_of_a_program_log_while_others_wait(kept: Kept, tmp_path: Path) -> None:
    # A bridge that takes the GIL where the event is would wait for a caller that waits for it.
    with idmatch.open(tmp_path / "store", memtable="1M") as store:
        table = store.create_table("crm")

        def write(writer: int) -> None:
            for number in range(40):
                ids = [f"{writer}-{number}-{row}" for row in range(500)]
                table.upsert(pa.table({"id": ids, "partner_id": ids}), dated=NOON)

        threads = [threading.Thread(target=write, args=[writer]) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert table.stats().rows == 4 * 40 * 500
    assert "memtables were flushed" in [event for event, _ in kept.events("idmatch.engine")]


def test_verbose_commands(loaded: Cli) -> None:
    assert loaded("compact", "store", "small").err == ""
    ran = loaded("load", "store", "small", "small.parquet", "-v", "--json")
    assert (ran.code, ran.json()["rows"]) == (0, 5)
    lines = ran.err.splitlines()
    assert all(line.split()[1] == "info" for line in lines)
    assert [line for line in lines if "rows were committed" in line] != []
    assert len(loaded("compact", "store", "small", "-vv").err.splitlines()) > 2


def test_a_log_of_documents(loaded: Cli) -> None:
    bad = loaded.home / "bad.csv"
    bad.write_text("id,partner_id,seen_at\na,x,2026-03-01\nb,y,never\n")
    ran = loaded("load", "store", "small", "bad.csv", "--log-format", "json")
    assert ran.code == 3
    document, read, said = (json.loads(line) for line in ran.err.splitlines())
    assert (read["logger"], read["level"]) == ("idmatch.cli", "info")
    assert (said["logger"], said["level"]) == ("idmatch.cli", "warning")
    assert said["event"].startswith("1 rows were rejected; ")
    assert document.pop("time").endswith("Z")
    file = document.pop("file")
    assert file in str(list((loaded.home / "store.rejects").iterdir()))
    assert document == {
        "level": "warning",
        "logger": "idmatch.load",
        "event": "rows were rejected",
        "table": "small",
        "rejected": 1,
    }
    ran = loaded("verify", "store", "-v", "--log-format", "json")
    documents = [json.loads(line) for line in ran.err.splitlines()]
    assert {one["event"] for one in documents} == {"operation began", "operation ended"}
    (failed,) = loaded("verify", "nowhere", "--log-format", "json").err.splitlines()
    assert json.loads(failed).keys() == {"time", "level", "logger", "event"}
    assert json.loads(failed)["level"] == "error"
    assert "nowhere" in json.loads(failed)["event"]


def test_secrets_of_addresses_are_not_logged(cli: Cli) -> None:
    ran = cli("tables", "cql://someone:hunter2@127.0.0.1:1/matches", "-vv")
    assert ran.code == 1
    assert "hunter2" not in ran.err
