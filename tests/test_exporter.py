"""`idmatch exporter`: what it tells Prometheus about a store beside its writer."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as pa
import pytest
from conftest import DAY, NOON, SMALL, Cli, observations
from idmatch._runs import Recorder, runs_folder
from idmatch._watch import _exporter
from idmatch._watch._exporter import OTHERS, StoreFigures
from idmatch._watch._recent import RecentRuns
from idmatch._watch._server import Listen, serving
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from scraped import Samples, exporting, scrape


def figures(store: Path | str) -> Samples:
    """What an exporter of a store tells now."""
    registry = CollectorRegistry()
    registry.register(StoreFigures(str(store)))
    return Samples(generate_latest(registry).decode())  # type: ignore[no-untyped-call]


def test_an_exporter_answers_beside_a_writer(loaded: Cli) -> None:
    with (
        exporting(loaded, "exporter", "store") as url,
        idmatch.open(loaded.home / "store") as store,
    ):
        table = store.table("small")
        assert scrape(url).of("idmatch_table_journal_rows", table="small") == 0
        table.upsert_one("new", "x", NOON + DAY)
        found = scrape(url)
        stats = table.stats()
        assert found.of("idmatch_table_rows", table="small") == stats.rows
        assert found.of("idmatch_table_bytes", table="small") == stats.bytes
        assert found.of("idmatch_table_segments", table="small") == stats.segments
        assert found.of("idmatch_table_journal_rows", table="small") == 1
        newest = found.of("idmatch_table_newest_observation_seconds", table="small")
        assert newest == (NOON + DAY).timestamp()
        oldest = found.of("idmatch_table_oldest_observation_seconds", table="small")
        assert oldest == (NOON - 400 * DAY).timestamp()
        # Both partner_ids and ids have a key with two pairs.
        assert found.of("idmatch_table_largest_key_rows", table="small") == 2
        table.erase(id="b")
        store.create_table("other")
        found = scrape(url)
        assert found.of("idmatch_table_erasures", table="small") == 1
        assert found.of("idmatch_store_tables") == 2
        store.drop_table("other")
        found = scrape(url)
        assert set(found.by("idmatch_table_rows", "table")) == {"small"}
        assert found.of("process_resident_memory_bytes") > 0


def test_checkpoints_sessions_and_the_journal_are_told(loaded: Cli) -> None:
    home = loaded.home / "store"
    found = figures(home)
    assert found.of("idmatch_store_checkpoints") == 0
    with idmatch.open(home) as store:
        store.table("small").upsert_one("new", "x")
        store.checkpoint()
        session = store.table("small").begin()
        session.add(SMALL)
        found = figures(home)
        assert found.of("idmatch_store_checkpoints") == 1
        journal = sum(file.stat().st_size for file in (home / "journal").iterdir())
        assert found.of("idmatch_store_journal_bytes") == journal > 0
        assert found.of("idmatch_store_scratch_folders") == 1
        session.abort()
    assert found.of("idmatch_store_disk_free_bytes") > 0


def test_runs_are_told(loaded: Cli) -> None:
    assert loaded("match", "store", "small", "people.parquet").code == 0
    (loaded.home / "bad.csv").write_text("id,partner_id,seen_at\na,x,2026-03-01\n,y,2026-03-01\n")
    assert loaded("load", "store", "small", "bad.csv").code == 3
    assert loaded("load", "store", "small", "missing.csv").code == 1
    found = figures(loaded.home / "store")
    assert found.of("idmatch_match_population_rows", table="small") == 3
    assert found.of("idmatch_match_matched_rows", table="small") == 2
    assert found.of("idmatch_taken_rows_last_day", table="small") == 6
    assert found.of("idmatch_rejected_rows_last_day", table="small") == 1
    assert found.of("idmatch_runs_last_day", kind="load", outcome="done") == 2
    assert found.of("idmatch_runs_last_day", kind="load", outcome="failed") == 1
    assert found.of("idmatch_runs_last_day", kind="erase", outcome="done") == 0
    ended = found.of("idmatch_run_last_end_seconds", kind="load", outcome="failed")
    assert time.time() - ended < 600
    assert found.of("idmatch_run_last_failed", kind="load", table="small") == 1
    assert found.of("idmatch_run_last_failed", kind="match", table="small") == 0


def test_a_failed_match_leaves_the_rate_of_the_last_one(loaded: Cli) -> None:
    assert loaded("match", "store", "small", "people.parquet").code == 0
    assert loaded("match", "store", "small", "missing.parquet").code == 1
    found = figures(loaded.home / "store")
    assert found.of("idmatch_match_matched_rows", table="small") == 2
    assert found.of("idmatch_run_last_end_seconds", kind="match", outcome="failed") > 0


def test_the_writer_is_told(tmp_path: Path) -> None:
    home = tmp_path / "store"
    with idmatch.open(home) as store:
        store.create_table("crm")
    assert figures(home).of("idmatch_store_has_writer") == 0
    with idmatch.open(home, record=True) as store:
        store.table("crm").upsert_one("a", "x")
        while (found := figures(home)).of("idmatch_store_has_writer") == 0:
            time.sleep(0.05)
        assert found.of("idmatch_journal_rows_total") == 1
        assert found.of("idmatch_call_duration_seconds_count", call="upsert") == 1
    assert figures(home).of("idmatch_store_has_writer") == 0


def test_a_writer_whose_note_has_no_room_for_figures(loaded: Cli) -> None:
    """As on a full disk."""
    note = {"time": "2026-03-01T12:00:00.000Z", "pid": 1, "host": "here", "metrics": ""}
    text = json.dumps({**note, "last_background_error": None})
    (loaded.home / "store.runs" / "writer.json").write_text(text)
    found = figures(loaded.home / "store")
    assert found.of("idmatch_store_has_writer") == 1
    assert found.of("idmatch_store_disk_free_bytes") > 0


def test_a_store_that_goes_and_comes_back(loaded: Cli, tmp_path: Path) -> None:
    home = loaded.home / "store"
    registry = CollectorRegistry()
    registry.register(StoreFigures(str(home)))

    def now() -> Samples:
        return Samples(generate_latest(registry).decode())  # type: ignore[no-untyped-call]

    assert now().of("idmatch_store_readable") == 1
    home.rename(tmp_path / "away")
    found = now()
    assert found.of("idmatch_store_readable") == 0
    assert "idmatch_table_rows" not in found.names()
    # What was run is still known.
    assert found.of("idmatch_runs_last_day", kind="load", outcome="done") == 1
    (tmp_path / "away").rename(home)
    assert now().of("idmatch_table_rows", table="small") == 4


def test_small_tables_are_one_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_exporter, "MOST_TABLES", 2)
    with idmatch.open(tmp_path / "store", record=True) as store:
        for number in range(4):
            rows = [(f"id{n}", "p", NOON - number * DAY) for n in range(number + 1)]
            store.create_table(f"t{number}").load(observations(*rows))
            store.table(f"t{number}").match(pa.table({"id": ["id0"]}))
    found = figures(tmp_path / "store")
    assert found.by("idmatch_table_rows", "table") == {"t3": 4, "t2": 3, OTHERS: 3}
    newest = found.by("idmatch_table_newest_observation_seconds", "table")
    assert newest[OTHERS] == NOON.timestamp()
    assert found.by("idmatch_taken_rows_last_day", "table") == {"t3": 4, "t2": 3, OTHERS: 3}
    # Of the last match of each table.
    assert found.by("idmatch_match_population_rows", "table") == {"t3": 1, "t2": 1, OTHERS: 2}
    assert found.by("idmatch_match_matched_rows", "table") == {"t3": 1, "t2": 1, OTHERS: 2}


def test_times_of_the_runs_of_small_tables_are_one_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_exporter, "MOST_TABLES", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    address = "cql://127.0.0.1/ids"
    folder = runs_folder(address, True)
    folder.mkdir(parents=True)
    now = datetime.now(UTC)
    file = folder / f"runs-{now:%Y%m%d}.jsonl"
    lines = [
        {**_GOOD, "time": (now - timedelta(minutes=n)).isoformat(), "table": f"t{n}", "rows": n}
        for n in (3, 2, 1)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = figures(address)
    took = found.by("idmatch_run_last_duration_seconds", "table")
    assert took == {"t3": 1.5, OTHERS: 3}
    ended = found.by("idmatch_run_last_end_seconds", "table")
    assert ended[OTHERS] == (now - timedelta(minutes=1)).timestamp()


def test_runs_of_a_table_that_is_gone_have_no_series(loaded: Cli) -> None:
    assert loaded("match", "store", "small", "people.parquet").code == 0
    home = loaded.home / "store"
    with Recorder(str(home), False).run("load", "mistyped") as run:
        run.rows = 10
    registry = CollectorRegistry()
    registry.register(StoreFigures(str(home)))

    def now() -> Samples:
        return Samples(generate_latest(registry).decode())  # type: ignore[no-untyped-call]

    of_runs = ("run_last_failed", "run_last_end_seconds", "run_last_duration_seconds")
    of_rows = ("match_population_rows", "match_matched_rows", "taken_rows_last_day")
    found = now()
    for name in of_runs + of_rows:
        assert set(found.by(f"idmatch_{name}", "table")) == {"small"}
    # The number of runs has no name of a table.
    assert found.of("idmatch_runs_last_day", kind="load", outcome="done") == 2
    assert loaded("drop", "store", "small", "--yes").code == 0
    found = now()
    for name in of_runs + of_rows:
        assert found.by(f"idmatch_{name}", "table") == {}


def test_a_store_on_servers_is_known_by_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    address = "cql://127.0.0.1,127.0.0.2/ids"
    with Recorder(address, True).run("load", "crm") as run:
        run.rows, run.rejected, run.newest = 10, 1, datetime.now(UTC) - timedelta(hours=5)
    for rows, largest in ((100, 7), (50, 3)):
        with Recorder(address, True).run("count", "crm") as run:
            run.rows, run.largest_key_rows = rows, largest
    # The same servers in another order, and other options.
    found = figures("cql://127.0.0.2,127.0.0.1/ids?timeout=5s")
    age = time.time() - found.of("idmatch_table_newest_observation_seconds", table="crm")
    assert 5 * 3600 <= age < 5 * 3600 + 600
    assert found.of("idmatch_taken_rows_last_day", table="crm") == 9
    # Of the last count.
    assert found.of("idmatch_table_rows", table="crm") == 50
    assert found.of("idmatch_table_largest_key_rows", table="crm") == 3
    assert "idmatch_store_readable" not in found.names()
    other = figures("cql://127.0.0.1,127.0.0.2/other")
    assert other.by("idmatch_taken_rows_last_day", "table") == {}


def test_each_figure_is_explained(loaded: Cli) -> None:
    abouts = figures(loaded.home / "store").abouts()
    assert all(name.startswith("idmatch_") and about for name, about in abouts.items())


def test_no_figure_has_an_identifier_or_a_path(cli: Cli) -> None:
    (cli.home / "zqfile.csv").write_text("id,partner_id,seen_at\nzqid,zqother,2026-03-01\n")
    assert cli("load", "store", "crm", "zqfile.csv").code == 0
    assert cli("erase", "store", "crm", "--id", "zqid").code == 0
    text = figures(cli.home / "store").text
    assert "zq" not in text
    assert str(cli.home) not in text


def test_a_place_that_is_taken_is_an_error(loaded: Cli) -> None:
    with exporting(loaded, "exporter", "store") as url:
        place = url.removeprefix("http://").removesuffix("/metrics")
        refused = loaded("exporter", "store", "--listen", place)
    assert refused.code == 1
    assert f"cannot listen on {place}" in refused.err


def test_an_exporter_needs_a_store(cli: Cli) -> None:
    refused = cli("exporter", "store", "--listen", "127.0.0.1:0")
    assert refused.code == 1
    assert "there is no store at store" in refused.err
    assert not (cli.home / "store").exists()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:7301", ("127.0.0.1", 7301)),
        ("7301", ("127.0.0.1", 7301)),
        (":7301", ("127.0.0.1", 7301)),
        ("[::1]:7301", ("::1", 7301)),
        ("exporter.lan:0", ("exporter.lan", 0)),
    ],
)
def test_places(text: str, place: tuple[str, int]) -> None:
    assert Listen.parse(text) == place


@pytest.mark.parametrize("text", ["", "here", "127.0.0.1", "1:2:x", "h:70000", "h:-1", "h:١"])
def test_wrong_places(text: str) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="is no place to listen"):
        Listen.parse(text)


def test_ipv6(loaded: Cli) -> None:
    with serving(StoreFigures(str(loaded.home / "store")), Listen("::1", 0)) as place:
        assert scrape(f"http://{place}/metrics").of("idmatch_store_tables") == 1


_GOOD: dict[str, Any] = {
    "time": "2026-03-01T12:00:00.000Z",
    "kind": "load",
    "table": "t",
    "outcome": "done",
    "seconds": 1.5,
}
_AT = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()


_FOREIGN = [
    json.dumps({key: value for key, value in _GOOD.items() if key != "seconds"}),
    *(
        json.dumps({**_GOOD, key: value})
        for key, value in [
            ("time", 1),
            ("time", "0001-01-01"),
            ("seconds", "1"),
            ("kind", "other"),
            ("kind", []),
            ("table", ["t"]),
            ("outcome", None),
            ("rows", "many"),
            ("newest", "today"),
        ]
    ),
]


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", '{"time": "x"}', "\xff", *_FOREIGN])
def test_a_cut_record_is_left_out(tmp_path: Path, line: str) -> None:
    lines = f"{line}\n{json.dumps(_GOOD)}\n{line}"
    (tmp_path / "runs-20260301.jsonl").write_text(lines, encoding="latin-1")
    recent = RecentRuns(tmp_path)
    recent.read(_AT)
    assert list(recent.today) == [_GOOD]


def test_records_are_read_once_and_whole(tmp_path: Path) -> None:
    recent, file = RecentRuns(tmp_path / "runs"), tmp_path / "runs" / "runs-20260301.jsonl"
    recent.read(_AT)
    assert not recent.today
    file.parent.mkdir()
    line = json.dumps(_GOOD)
    with open(file, "w") as growing:
        for written, known in [(f"{line}\n{line[:20]}", 1), (line[20:], 1), ("\n", 2)]:
            growing.write(written)
            growing.flush()
            recent.read(_AT)
            assert len(recent.today) == known
    # A day later they are no longer of today, and still the last.
    recent.read(_AT + 86_401)
    assert not recent.today
    assert recent.latest["load", "t"] == _GOOD
    file.unlink()
    recent.read(_AT)
    assert recent.last["load", "t", True] == _GOOD


def test_runs_of_90_days_ago_are_gone(tmp_path: Path) -> None:
    (tmp_path / "runs-20260301.jsonl").write_text(json.dumps(_GOOD) + "\n")
    recent = RecentRuns(tmp_path)
    recent.read(_AT + 91 * 86_400)
    assert not recent.latest


def test_a_running_exporter_forgets_them_too(tmp_path: Path) -> None:
    file = tmp_path / "runs-20260301.jsonl"
    file.write_text(json.dumps({**_GOOD, "newest": "2026-03-01T12:00:00Z"}) + "\n")
    recent = RecentRuns(tmp_path)
    recent.read(_AT)
    assert recent.newest == {"t": _AT}
    later = {**_GOOD, "time": "2026-03-11T12:00:00Z", "kind": "match", "table": "u"}
    with open(file, "a") as growing:
        growing.write(json.dumps(later) + "\n")
    recent.read(_AT + 91 * 86_400)
    assert list(recent.latest) == [("match", "u")]
    assert list(recent.last) == [("match", "u", True)]
    assert list(recent.rows) == ["u"]
    assert recent.newest == {}
