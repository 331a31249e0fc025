"""The command line: options, output, exit codes."""

import json
import shlex
import subprocess
from typing import Any

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SMALL, Cli, rejects_file
from hidden import needs_numpy
from idmatch._cli import _commands, main
from idmatch._cli._parser import EXAMPLES, parser


def test_load(cli: Cli) -> None:
    pq.write_table(SMALL.rename_columns(["k1", "k2", "k3"]), cli.home / "a.parquet")
    columns = ["--columns", "k1,k2,k3"]
    ran = cli("load", "store", "t", "a.parquet", *columns, "--json")
    assert (ran.code, ran.err) == (0, "")
    report = ran.json()
    fields = {"rows", "rejected", "rejects", "seconds", "columns", "hex_columns", "created"}
    assert set(report) == fields | {"detected"}
    assert report["created"] is True
    assert report["hex_columns"] == []
    assert report["columns"] == {"id": ["k1"], "partner_id": ["k2"], "seen_at": ["k3"]}
    assert (report["rows"], report["rejected"]) == (5, 0)
    assert cli("load", "store", "t", "a.parquet", "a.parquet", *columns).out.startswith("10 rows")


def test_load_makes_the_table_as_asked(loaded: Cli) -> None:
    made = loaded("load", "store", "t", "small.parquet", "--keep", "all", "--retention", "999mo")
    assert made.code == 0
    listed = {
        table["name"]: table for table in loaded("tables", "store", "--json").json()["tables"]
    }
    assert (listed["t"]["keep"], listed["t"]["retention"]) == ("all", "999mo")
    assert loaded("load", "store", "t", "small.parquet").code == 0
    other = loaded("load", "store", "t", "small.parquet", "--keep", "last")
    assert other.code == 1
    assert other.err.startswith("idmatch: error: ")


def test_rejected_rows_are_exit_code_3(loaded: Cli) -> None:
    (loaded.home / "bad.csv").write_text("id,partner_id,seen_at\na,x,2026-03-01\n,x,2026-03-01\n")
    ran = loaded("load", "store", "small", "bad.csv", "--json")
    assert ran.code == 3
    assert ran.json()["rejected"] == 1
    assert f"1 rows were rejected; {ran.json()['rejects']} says" in ran.err
    assert rejects_file(loaded.home).read_text().count("\n") == 2
    ran = loaded("load", "store", "small", "bad.csv", "--rejects", "other.csv")
    assert ran.code == 3
    assert (loaded.home / "other.csv").exists()


def test_strict_is_exit_code_1(loaded: Cli) -> None:
    (loaded.home / "bad.csv").write_text("id,partner_id,seen_at\nq,x,2026-03-01\n,x,2026-03-01\n")
    ran = loaded("load", "store", "small", "bad.csv", "--strict", "--json")
    assert (ran.code, ran.json()["error"]["row"]) == (1, 2)
    assert ran.err.startswith("idmatch: error: ")
    assert "bad.csv" in ran.err
    assert loaded("lookup", "store", "small", "--id", "q", "--json").json() == {"matches": []}


def test_match(loaded: Cli) -> None:
    ran = loaded("match", "store", "small", "people.parquet", "--json")
    assert (ran.code, ran.err) == (0, "")
    result = ran.json()
    assert result.keys() >= {"timings", "verdict"}
    assert {k: v for k, v in result.items() if k not in ("timings", "verdict")} | {
        "seconds": 0
    } == {
        "population": 3,
        "matched": 2,
        "rate": 2 / 3,
        "rows": 3,
        "seconds": 0,
        "columns": ["id"],
        "hex_columns": [],
        "detected": [{"format": "parquet", "delimiter": None, "encoding": None, "dates": None}],
        "is_guess_unmatched": False,
    }
    assert "66.67%" in loaded("match", "store", "small", "people.parquet").out


def test_match_options(loaded: Cli) -> None:
    def rows(*options: str) -> Any:
        return loaded("match", "store", "small", "people.parquet", "--json", *options).json()[
            "rows"
        ]

    assert rows("--pick", "latest") == 2
    assert rows("--since", "2026-02-01") == 2
    assert rows("--since", "2026-02-01", "--until", "2026-02-25") == 1
    assert rows("--column", "id", "--by", "partner-id") == 0


def test_match_explains_itself(loaded: Cli) -> None:
    plain = json.loads(loaded("match", "store", "small", "people.parquet", "--json").out)
    ran = loaded("match", "store", "small", "people.parquet", "--json", "--explain")
    (step,) = json.loads(ran.out).pop("plan")
    assert (step["how"], step["keys"]) == ("sorted probe", plain["population"])
    assert step["requests"] > 0
    assert "plan" not in plain
    shown = loaded("match", "store", "small", "people.parquet", "--explain").out
    assert "because" in shown
    assert "sorted probe" in shown


def test_match_writes_parquet(loaded: Cli) -> None:
    ran = loaded("match", "store", "small", "people.parquet", "-o", "out.parquet", "--json")
    assert ran.code == 0
    assert pq.read_table(loaded.home / "out.parquet").num_rows == ran.json()["rows"] == 3


def test_match_that_fails_leaves_nothing(loaded: Cli) -> None:
    before = sorted(loaded.home.iterdir())
    ran = loaded("match", "store", "small", "missing.parquet", "-o", "out.parquet")
    assert (ran.code, ran.out) == (1, "")
    ran = loaded("match", "store", "small", "people.parquet", "-o", "nowhere/out.parquet")
    assert (ran.code, ran.out) == (1, "")
    assert sorted(loaded.home.iterdir()) == before


def test_control_characters_are_escaped(loaded: Cli) -> None:
    loaded("upsert", "store", "small", "--id", "odd", "--partner-id", "red\x1b[31m\nline\té")
    shown = loaded("lookup", "store", "small", "--id", "odd").out
    assert "red\\x1b[31m\\nline\\té" in shown
    (match,) = loaded("lookup", "store", "small", "--id", "odd", "--json").json()["matches"]
    assert match["partner_id"] == "red\x1b[31m\nline\té"


def test_lookup(loaded: Cli) -> None:
    matches = [
        {"partner_id": "x", "seen_at": "2026-03-01T12:00:00.000Z"},
        {"partner_id": "y", "seen_at": "2026-02-19T12:00:00.000Z"},
    ]

    def lookup(*options: str) -> Any:
        return loaded("lookup", "store", "small", "--json", *options).json()

    assert lookup("--id", "a") == {"matches": matches}
    assert lookup("--id", "a", "--limit", "1") == {"matches": matches[:1]}
    assert lookup("--id", "a", "--since", "2026-02-25") == {"matches": matches[:1]}
    assert lookup("--partner-id", "z") == {
        "matches": [{"id": "c", "seen_at": "2025-01-25T12:00:00.000Z"}]
    }
    assert lookup("--id", "a", "--partner-id", "y") == {"last_seen": matches[1]["seen_at"]}
    assert lookup("--id", "a", "--partner-id", "y", "--since", "2026-03-01") == {"last_seen": None}
    assert lookup("--id", "a", "--partner-id", "z") == {"last_seen": None}


def test_lookup_for_people(loaded: Cli) -> None:
    shown = loaded("lookup", "store", "small", "--id", "a").out.splitlines()
    assert [line.split() for line in shown] == [
        ["partner_id", "seen_at"],
        ["x", "2026-03-01T12:00:00.000Z"],
        ["y", "2026-02-19T12:00:00.000Z"],
    ]
    pair = loaded("lookup", "store", "small", "--id", "a", "--partner-id", "z")
    assert (pair.code, pair.out) == (0, "never\n")


def test_tables(loaded: Cli) -> None:
    (table,) = loaded("tables", "store", "--json").json()["tables"]
    assert table.pop("bytes") > 0
    assert table.pop("segments") > 0
    assert table == {
        "name": "small",
        "keep": "last",
        "retention": None,
        "rows": 4,
        "ids": 3,
        "partner_ids": 3,
        "pairs": 4,
        "is_exact": True,
        "memtable_rows": 0,
        "memtable_bytes": 0,
        "pending_compaction_bytes": 0,
        "erasures": 0,
        "oldest": "2025-01-25T12:00:00.000Z",
        "newest": "2026-03-01T12:00:00.000Z",
        "largest_key_rows": 2,
        "expected_rows": None,
    }
    header, line, *_ = loaded("tables", "store").out.splitlines()
    assert header.split()[0] == "table"
    assert line.split()[:3] == ["small", "last", "-"]


def test_verify(loaded: Cli) -> None:
    good = loaded("verify", "store", "--json")
    assert (good.code, good.json()) == (
        0,
        {"tables": [{"name": "small", "problems": []}], "checkpoints": []},
    )
    assert loaded("verify", "store", "small").out == "small: all is well\n"
    names = pa.array(range(100_000))
    dates = pa.array(["2026-01-01"] * len(names))
    many = pa.table({"id": names, "partner_id": names, "seen_at": dates})
    pq.write_table(many, loaded.home / "many.parquet")
    assert loaded("load", "store", "many", "many.parquet").code == 0
    biggest = max((loaded.home / "store").glob("*/*"), key=lambda file: file.stat().st_size)
    content = bytearray(biggest.read_bytes())
    content[len(content) // 2] ^= 1
    biggest.write_bytes(content)
    bad = loaded("verify", "store", "--json")
    assert bad.code == 1
    many_checked, small_checked = bad.json()["tables"]
    assert biggest.name in many_checked["problems"][0]["place"]
    assert small_checked == {"name": "small", "problems": []}
    assert "1 problems" in loaded("verify", "store", "many").out


def test_backup_and_restore(loaded: Cli) -> None:
    saved = loaded("backup", "store", "saved", "--json")
    assert saved.code == 0
    assert set(saved.json()) == {"from", "to", "seconds"}
    restored = loaded("restore", "saved", "again", "--json")
    assert (restored.code, restored.json()["verified"]) == (0, True)
    assert loaded("lookup", "again", "small", "--id", "a").out.count("\n") == 3
    assert loaded("restore", "saved", "again").code == 2
    quick = loaded("restore", "saved", "quick", "--no-verify", "--json")
    assert (quick.code, quick.json()["verified"]) == (0, False)
    assert loaded("lookup", "quick", "small", "--id", "a").out.count("\n") == 3
    said = loaded("restore", "saved", "once-more", "--no-verify")
    assert said.out.startswith("copied saved to once-more, not verified, in "), said.out


@needs_numpy
def test_sample(cli: Cli) -> None:
    ran = cli("sample", "made", "--people", "1k", "--partners", "2", "--seed", "3", "--json")
    assert ran.code == 0
    files = ran.json()["files"]
    assert set(files) == {"donors.parquet", "crm.parquet", "partner1.parquet", "partner2.parquet"}
    assert json.loads((cli.home / "made" / "truth.json").read_text())["people"] == 1000


@needs_numpy
def test_the_commands_that_sample_shows_work(cli: Cli) -> None:
    shown = cli("sample", "made", "--people", "1k", "--seed", "3").out.splitlines()
    commands = [line.split()[1:] for line in shown if line.startswith("  idmatch ")]
    assert len(commands) == 5
    for command in commands:
        ran = cli(*command)
        assert ran.code == 0, (command, ran.err)


def test_settings_of_an_address_are_shown_without_its_password(cli: Cli) -> None:
    address = "cql://ann:s3cret@10.0.0.1/idmatch?timeout=30s&datacenter=dc1"
    ran = cli("tables", address, "--explain", "--json")
    assert ran.code == 0, ran.err
    settings = {setting["name"]: setting for setting in ran.json()["settings"]}
    assert (settings["timeout"]["value"], settings["datacenter"]["value"]) == ("30s", "dc1")
    assert settings["read_consistency"]["value"] == "local_quorum"
    assert all(setting["about"] for setting in settings.values())
    shown = cli("tables", address, "--explain").out
    assert settings["timeout"]["about"] in shown
    assert "s3cret" not in ran.out + shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["load", "store"],
        ["match", "store", "small", "people.parquet", "--pick", "first"],
        ["match", "store", "small", "people.parquet", "--since", "soon"],
        ["match", "store", "small", "people.parquet", "--column", "nothing"],
        ["lookup", "store", "small"],
        ["lookup", "store", "small", "--id", "a", "--limit", "few"],
        ["lookup", "store", "small", "--id", "a", "--partner-id", "x", "--limit", "1"],
        ["load", "store", "bad/name", "small.parquet"],
        pytest.param(["sample", "made", "--people", "0"], marks=needs_numpy),
        ["tables", "mongodb://10.0.0.1/idmatch"],
        ["tables", "cql://10.0.0.1"],
        ["tables", "store", "--explain"],
    ],
)
def test_wrong_usage_is_exit_code_2(loaded: Cli, arguments: list[str]) -> None:
    ran = loaded(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "error: " in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "store", "missing", "people.parquet"],
        ["match", "nowhere", "small", "people.parquet"],
        ["lookup", "store", "missing", "--id", "a"],
        ["load", "store", "small", "missing.parquet"],
        ["backup", "nowhere", "saved"],
        ["tables", "nowhere"],
        ["verify", "nowhere"],
        ["restore", "nowhere", "again"],
        ["verify", "store", "missing"],
    ],
)
def test_failures_are_exit_code_1_and_one_line(loaded: Cli, arguments: list[str]) -> None:
    ran = loaded(*arguments, "--json")
    assert (ran.code, list(ran.json())) == (1, ["error"])
    assert ran.err.startswith("idmatch: error: ")
    assert ran.err.count("\n") == 1


def test_help_names_every_option(cli: Cli) -> None:
    assert "sample" in cli("--help").out
    shown = cli("load", "--help").out
    for option in ("--columns", "--date-format", "--keep", "--retention", "--strict"):
        assert option in shown
    assert cli("--version").out == f"idmatch {idmatch.__version__}\n"


def test_bare_command_prints_help(cli: Cli) -> None:
    ran = cli()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == cli("--help").out


@pytest.mark.parametrize("command", _commands.COMMANDS)
def test_help_has_an_example(cli: Cli, command: str) -> None:
    assert f"Example: idmatch {command} " in cli(command, "--help").out


@pytest.mark.parametrize("command", EXAMPLES)
def test_examples_are_valid(command: str) -> None:
    arguments = shlex.split(f"{command} {EXAMPLES[command]}")
    assert parser(_commands.COMMANDS).parse_args(arguments).run is not None


def test_a_population_without_an_identifier_is_said(loaded: Cli) -> None:
    pq.write_table(pa.table({"id": pa.array([b"\xff", b""])}), loaded.home / "bytes.parquet")
    ran = loaded("match", "store", "small", "bytes.parquet")
    assert (ran.code, ran.out) == (1, "")
    assert "no row of the population is an identifier: 2 malformed, 0 null; " in ran.err
    assert "bytes.parquet, row 1: id is not UTF-8" in ran.err


def test_a_reader_that_goes_away(loaded: Cli) -> None:
    rows = pa.table({"id": ["a"] * 50_000, "partner_id": map(str, range(50_000))})
    home = loaded.home / "seen_at=2026-01-01"
    home.mkdir()
    pq.write_table(rows, home / "rows.parquet")
    assert loaded("load", "store", "hot", "seen_at=2026-01-01").code == 0
    lookup = subprocess.Popen(
        loaded.command("lookup", "store", "hot", "--id", "a"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=loaded.home,
    )
    assert lookup.stdout is not None
    assert lookup.stderr is not None
    lookup.stdout.readline()
    lookup.stdout.close()
    assert lookup.stderr.read() == b""
    assert lookup.wait() == 141


def test_ctrl_c_is_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(_commands, "COMMANDS", {**_commands.COMMANDS, "tables": interrupted})
    assert main(["tables", "store"]) == 130
    assert capsys.readouterr() == ("", "idmatch: error: interrupted\n")


def test_errors_as_documents(cli: Cli) -> None:
    (cli.home / "rows.csv").write_text("id,partner_id,date\n,x,2026-03-01\n")
    bad = cli("load", "store", "t", "rows.csv", "--strict", "--json")
    error = bad.json()["error"]
    assert (bad.code, error["type"], error["row"], error["column"]) == (1, "bad-input", 1, "id")
    assert error["message"] in bad.err
    missing = cli("lookup", "store", "u", "--id", "a", "--json")
    assert (missing.code, missing.json()["error"]["type"]) == (1, "table-not-found")
    assert cli("lookup", "store", "u", "--id", "a").out == ""
