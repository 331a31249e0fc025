"""Tables are made, altered, renamed, swapped and dropped: from Python and on the command line."""

import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DAY, NOON, SMALL, Cli, Ran, observations
from idmatch._types import Keep

ROWS = observations(("a", "x", NOON), ("b", "x", NOON))
MISSING = pytest.raises(idmatch.TableNotFound)


def ids(table: idmatch.Table, partner_id: str = "x") -> list[str]:
    """The ids of a partner_id, ascending."""
    return sorted(id for id, _ in table.lookup(partner_id, by="partner_id"))


def names(cli: Cli) -> list[str]:
    """The tables of the store."""
    return [table["name"] for table in cli("tables", "store", "--json").json()["tables"]]


def files(cli: Cli) -> dict[Path, bytes]:
    """Every file of the store with its content."""
    return {file: file.read_bytes() for file in cli.home.rglob("store/**/*") if file.is_file()}


def on_a_terminal(cli: Cli, answer: str, *arguments: str) -> Ran:
    """What a command does whose stdin and stderr are a terminal, where this is typed."""
    ours, theirs = pty.openpty()
    command = cli.command(*arguments)
    with subprocess.Popen(
        command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True, cwd=cli.home
    ) as running:
        os.close(theirs)
        os.write(ours, answer.encode())
        assert running.stdout
        out, shown = running.stdout.read(), b""
        try:
            while read := os.read(ours, 10_000):
                shown += read
        except OSError:
            # Linux ends the output of a terminal that nobody has open so.
            pass
        code = running.wait(60)
    os.close(ours)
    return Ran(code, out, shown.decode())


def test_a_renamed_table_is_the_same_table(store: idmatch.Store) -> None:
    table = store.create_table("old", keep="all", retention="999mo")
    table.load(ROWS)
    table.upsert_one("c", "x", NOON)
    with store.snapshot() as snapshot:
        store.rename_table("old", "new")
        assert snapshot.tables() == ["old"]
        assert len(snapshot.table("old").lookup("x", by="partner_id")) == 3
    new = store.table("new")
    assert (store.tables(), ids(new)) == (["new"], ["a", "b", "c"])
    assert (new.keep, new.retention) == ("all", "999mo")
    # The handle is a name, which another table can take.
    with MISSING:
        table.upsert_one("d", "x", NOON)
    store.create_table("old")
    assert (ids(table), table.keep) == ([], "last")
    assert new.verify() == table.verify() == []


def test_swapped_tables_have_each_others_names(store: idmatch.Store) -> None:
    a, b = store.create_table("a"), store.create_table("b", keep="all")
    a.load(ROWS)
    store.swap_tables("a", "b")
    assert (a.keep, ids(a), b.keep, ids(b)) == ("all", [], "last", ["a", "b"])
    store.swap_tables("a", "a")
    assert ids(b) == ["a", "b"]


def test_a_load_follows_its_table(store: idmatch.Store) -> None:
    store.create_table("b")
    first, second = ROWS.to_batches()[0].slice(0, 1), ROWS.to_batches()[0].slice(1)

    def batches() -> Iterator[pa.RecordBatch]:
        yield first
        store.swap_tables("a", "b")
        yield second

    table = store.create_table("a")
    table.load(pa.RecordBatchReader.from_batches(ROWS.schema, batches()))
    assert (ids(table), ids(store.table("b"))) == ([], ["a", "b"])


def test_a_load_into_a_table_that_is_dropped_fails(store: idmatch.Store) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        store.drop_table("a")

    table = store.create_table("a")
    with MISSING:
        table.load(pa.RecordBatchReader.from_batches(ROWS.schema, batches()))
    assert store.tables() == []


def test_errors_of_the_catalog(store: idmatch.Store) -> None:
    store.create_table("a").load(ROWS)
    store.create_table("b")
    with pytest.raises(idmatch.TableExists):
        store.rename_table("a", "b")
    calls: list[Callable[[], object]] = [
        lambda: store.rename_table("none", "new"),
        lambda: store.swap_tables("a", "none"),
        lambda: store.swap_tables("none", "a"),
        lambda: store.drop_table("none"),
    ]
    for call in calls:
        with MISSING:
            call()
    wrong: list[Callable[[], object]] = [
        lambda: store.rename_table("a", "bad/name"),
        lambda: store.swap_tables("bad/name", "a"),
        lambda: store.drop_table(""),
    ]
    for call in wrong:
        with pytest.raises(idmatch.InvalidArgument):
            call()
    assert (store.tables(), ids(store.table("a"))) == (["a", "b"], ["a", "b"])
    with pytest.raises(TypeError):
        store.table("a").alter("1d")  # type: ignore[call-arg]  # wrong on purpose


@pytest.mark.parametrize("leave", ["drop", "rename", "swap"])
def test_erasures_outlive_tables_and_backups_have_them(tmp_path: Path, leave: str) -> None:
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("t")
        table.load(ROWS)
        table.erase(id="a")
        if leave == "drop":
            store.drop_table("t")
        elif leave == "rename":
            store.rename_table("t", "other")
        else:
            store.create_table("other")
            store.swap_tables("t", "other")
        store.backup(tmp_path / "backup")
    idmatch.restore(tmp_path / "backup", tmp_path / "restored")
    for place in ("store", "restored"):
        with idmatch.open(tmp_path / place) as store:
            table = store.create_table("t")
            assert ids(table) == []
            table.load(ROWS)
            table.upsert(ROWS)
            assert ids(table) == ["b"]
            if leave != "drop":
                other = store.table("other")
                other.upsert(ROWS)
                assert ids(other) == ["b"]
            assert table.verify() == []


def test_a_retention_set_back_within_a_day_shows_all_again(store: idmatch.Store) -> None:
    table = store.create_table("t", keep="all")
    table.load(SMALL)
    before = table.match(pa.table({"id": ["a", "b", "c"]})).rows
    table.alter(retention="1d")
    assert table.match(pa.table({"id": ["a", "b", "c"]})).rows == 0
    table.compact()
    table.alter(retention=None)
    assert table.retention is None
    assert table.match(pa.table({"id": ["a", "b", "c"]})).rows == before == 4
    assert table.history("a", "y") == [NOON - 10 * DAY, NOON - 20 * DAY]


@pytest.mark.parametrize("keep", ["last", "all"])
def test_dry_runs_have_exact_numbers_and_change_nothing(cli: Cli, keep: Keep) -> None:
    now = datetime.now(UTC)
    # Ages end in half a day: none is on the edge of a retention of whole days.
    rows = [
        (f"i{n % 40}", f"p{n % 9}", now - timedelta(days=n * 37 % 500, hours=12))
        for n in range(900)
    ]
    with idmatch.open(cli.home / "store") as store:
        table = store.create_table("t", keep=keep, retention="300d")
        table.load(observations(*rows[:500]))
        table.upsert(observations(*rows[300:]))
        table.erase(id="i3")
    newest = {(id, partner_id): at for id, partner_id, at in sorted(rows, key=lambda row: row[2])}
    kept = [(*pair, at) for pair, at in newest.items()] if keep == "last" else list(set(rows))
    ages = [(now - at) / DAY for id, _, at in kept if id != "i3"]
    visible = sum(age < 300 for age in ages)
    hidden = sum(90 < age < 300 for age in ages)
    assert 0 < hidden < visible < len(kept)

    before = files(cli)
    ran = cli("alter", "store", "t", "--retention", "90d", "--dry-run", "--json")
    assert ran.json() == {
        "name": "t",
        "dry_run": True,
        "hidden": hidden,
        "retention_before": "300d",
        "retention": "90d",
    }
    told = cli("alter", "store", "t", "--retention", "90d", "--dry-run").out
    assert f"would be 90d; {hidden:,} observations would be hidden" in told
    for longer in ("300d", "301d", "none"):
        ran = cli("alter", "store", "t", "--retention", longer, "--dry-run", "--json")
        assert ran.json()["hidden"] == 0
    ran = cli("drop", "store", "t", "--dry-run", "--json")
    assert ran.json() == {"name": "t", "dry_run": True, "removed": visible}
    assert f"{visible:,} observations" in cli("drop", "store", "t", "--dry-run").out
    refused = cli("alter", "store", "t", "--retention", "23h", "--dry-run")
    assert (refused.code, "shorter than a day" in refused.err) == (2, True)
    assert files(cli) == before


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_without_a_terminal_and_yes_nothing_changes(loaded: Cli, json: list[str]) -> None:
    before = files(loaded)
    for command in (["drop"], ["alter", "--retention", "90d"]):
        refused = loaded(command[0], "store", "small", *command[1:], *json)
        assert (refused.code, refused.has_no_result(), refused.err.count("\n")) == (2, True, 1)
        assert "4 observations" in refused.err
        assert "add --yes to do it" in refused.err
    assert files(loaded) == before
    # What hides nothing needs no confirmation.
    for harmless in ("999mo", "9999mo", "none"):
        assert loaded("alter", "store", "small", "--retention", harmless, *json).code == 0


def test_json_never_asks(loaded: Cli) -> None:
    for command in (["drop"], ["alter", "--retention", "90d"]):
        ran = on_a_terminal(loaded, "y\n", command[0], "store", "small", *command[1:], "--json")
        assert (ran.code, ran.json()["error"]["type"]) == (2, "invalid-argument")
        assert "[y/N]" not in ran.err
    assert names(loaded) == ["small"]
    assert loaded("alter", "store", "small", "--retention", "90d", "--json", "--yes").json() == {
        "name": "small",
        "dry_run": False,
        "retention_before": None,
        "retention": "90d",
    }
    dropped = loaded("drop", "store", "small", "--json", "--yes")
    assert dropped.json() == {"name": "small", "dry_run": False}
    assert names(loaded) == []


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04", "yess\n"])
def test_a_question_on_a_terminal_that_is_not_answered_with_yes(loaded: Cli, answer: str) -> None:
    before = files(loaded)
    for command in (["drop"], ["alter", "--retention", "90d"]):
        ran = on_a_terminal(loaded, answer, command[0], "store", "small", *command[1:])
        assert (ran.code, ran.out) == (1, "")
        assert "4 observations" in ran.err
        assert "nothing was changed" in ran.err
    assert files(loaded) == before


def test_a_question_on_a_terminal(loaded: Cli) -> None:
    ran = on_a_terminal(loaded, "y\n", "alter", "store", "small", "--retention", "90d")
    assert (ran.code, ran.out) == (0, "small: retention was none, is 90d\n")
    assert "retention 90d hides 4 observations of table small. Set it? [y/N]" in ran.err
    ran = on_a_terminal(loaded, "", "alter", "store", "small", "--retention", "99mo")
    assert (ran.code, ran.err) == (0, "")
    ran = on_a_terminal(loaded, "YES\n", "drop", "store", "small")
    assert (ran.code, ran.out.startswith("small: dropped")) == (0, True)
    assert "table small has about 4 observations. Drop it for good? [y/N]" in ran.err
    assert names(loaded) == []


def test_create(cli: Cli) -> None:
    chosen = ["--keep", "all", "--retention", "13mo", "--json"]
    made = {"name": "t", "keep": "all", "retention": "13mo"}
    assert cli("create", "store", "t", *chosen).json() == {**made, "created": True}
    assert cli("create", "store", "t", *chosen).json() == {**made, "created": False}
    refused = cli("create", "store", "t")
    assert (refused.code, refused.out) == (1, "")
    assert cli("create", "store", "u").out == "u: created\n"
    assert cli("create", "store", "u").out == "u: is there already, with these options\n"
    assert cli("create", "store", "v", "--retention", "1h").code == 2
    assert names(cli) == ["t", "u"]


def test_rename_and_swap(loaded: Cli) -> None:
    assert loaded("rename", "store", "small", "new").out == "renamed small to new\n"
    loaded("create", "store", "other", "--keep", "all")
    swapped = loaded("rename", "store", "--swap", "new", "other", "--json")
    assert swapped.json() == {"from": "new", "to": "other", "swapped": True}
    assert loaded("lookup", "store", "other", "--id", "b", "--json").json()["matches"]
    taken = loaded("rename", "store", "new", "other")
    assert (taken.code, taken.out, taken.err.count("\n")) == (1, "", 1)
    assert loaded("rename", "store", "new").code == 2
    assert names(loaded) == ["new", "other"]


def test_the_catalog_has_one_writer(loaded: Cli) -> None:
    with idmatch.open(loaded.home / "store") as writer:
        writer.table("small").upsert_one("w", "x", NOON)
        for arguments in (
            ["rename", "store", "small", "new"],
            ["drop", "store", "small", "--yes"],
            ["create", "store", "new"],
            ["load", "store", "new", "small.parquet"],
        ):
            refused = loaded(*arguments)
            assert (refused.code, f"process {os.getpid()} (" in refused.err) == (75, True)
        assert writer.tables() == ["small"]


@pytest.mark.parametrize("edited", ["smal", "smmall", "smell", "samll", "mall", "smalls"])
def test_a_name_within_one_edit_is_suggested(loaded: Cli, edited: str) -> None:
    expected = f"idmatch: error: no table `{edited}`; did you mean `small`?\n"
    assert loaded("lookup", "store", edited, "--id", "a").err == expected
    with (
        idmatch.open(loaded.home / "store") as store,
        store.snapshot() as snapshot,
        pytest.raises(idmatch.TableNotFound, match="did you mean `small`"),
    ):
        snapshot.table(edited)


def test_every_command_suggests_a_name(loaded: Cli) -> None:
    loaded("create", "store", "sma1l")
    arguments = [
        ["upsert", "store", "smalk", "small.parquet"],
        ["erase", "store", "smalk", "--id", "a"],
        ["match", "store", "smalk", "people.parquet"],
        ["alter", "store", "smalk", "--retention", "none"],
        ["rename", "store", "smalk", "new"],
        ["rename", "store", "--swap", "small", "smalk"],
        ["drop", "store", "smalk", "--yes"],
        ["verify", "store", "smalk"],
        ["compact", "store", "smalk"],
        ["copy", "store", "there", "smalk"],
    ]
    for command in arguments:
        ran = loaded(*command)
        assert (ran.code, "`smalk`; did you mean `small`?" in ran.err) == (1, True), command
    both = loaded("drop", "store", "smal1", "--yes").err
    assert "did you mean `sma1l` or `small`?" in both
    far = loaded("lookup", "store", "sm", "--id", "a").err
    assert "did you mean" not in far
    assert "has no table sm; it has sma1l, small" in far


def test_upsert_makes_a_table_only_if_asked(cli: Cli) -> None:
    one = ["--id", "a", "--partner-id", "x"]
    refused = cli("upsert", "store", "t", *one)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.endswith("; --create makes it\n")
    assert not (cli.home / "store").exists()
    made = cli("upsert", "store", "t", *one, "--create")
    assert (made.code, made.err) == (0, "idmatch: made table t\n")
    again = cli("upsert", "store", "t", *one, "--create", "--json")
    assert (again.code, again.err, again.json()["created"]) == (0, "", False)
    assert cli("upsert", "store", "u", *one, "--create", "--json").json()["created"] is True
    failed = cli("upsert", "store", "v", "missing.parquet", "--create")
    assert failed.code == 1
    assert failed.err.endswith("; the new table v stays\n")
    assert names(cli) == ["t", "u", "v"]


def test_a_load_makes_its_table_and_a_failed_one_leaves_it_empty(loaded: Cli) -> None:
    made = loaded("load", "store", "new", "small.parquet", "--columns", "id")
    assert (made.code, made.err.splitlines()[0]) == (0, "idmatch: made table new")
    again = loaded("load", "store", "new", "small.parquet", "--json")
    assert (again.err, again.json()["created"]) == ("", False)
    assert loaded("load", "store", "u", "small.parquet", "--json").json()["created"] is True

    (loaded.home / "bad.csv").write_text("id,partner_id,seen_at\nq,x,2026-03-01\n,x,2026-03-01\n")
    failed = loaded("load", "store", "v", "bad.csv", "--strict", "--keep", "all")
    assert (failed.code, failed.err.splitlines()[0]) == (1, "idmatch: made table v")
    assert failed.err.endswith("; the new table v stays, empty\n")
    failed = loaded("load", "store", "w", "missing.parquet", "--json")
    assert (failed.code, failed.has_no_result(), failed.err.count("\n")) == (1, True, 1)
    assert failed.err.endswith("; the new table w stays, empty\n")
    failed = loaded("load", "store", "small", "missing.parquet")
    assert "stays" not in failed.err
    tables = loaded("tables", "store", "--json").json()["tables"]
    listed = {table["name"]: (table["keep"], table["rows"]) for table in tables}
    assert (listed["v"], listed["w"]) == (("all", 0), ("last", 0))


def test_erasures_outlive_a_table_on_the_command_line(loaded: Cli) -> None:
    assert loaded("erase", "store", "small", "--id", "a").code == 0
    assert loaded("drop", "store", "small", "--yes").code == 0
    assert loaded("backup", "store", "saved").code == 0
    assert loaded("restore", "saved", "again").code == 0
    pq.write_table(SMALL, loaded.home / "again.parquet")
    for place in ("store", "again"):
        assert loaded("load", place, "small", "again.parquet").code == 0
        assert loaded("lookup", place, "small", "--id", "a", "--json").json() == {"matches": []}
        assert loaded("lookup", place, "small", "--id", "b", "--json").json()["matches"]
