"""Files of JSON lines."""

import gzip
import json

import idmatch
import pytest
from conftest import Cli, rejects_file

LINES = [
    {"cookie": "a", "uid": 12, "at": "2026-11-03"},
    {"cookie": "a", "uid": "x", "at": 1795000000000, "more": [1]},
    {"uid": "x", "cookie": "b", "at": "2026-11-03"},
    {"cookie": "c"},
]
COLUMNS = ["--columns", "cookie,uid,at"]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.ndjson.gz", "rows.json"])
def test_a_load_and_a_match(cli: Cli, name: str) -> None:
    data = "\n".join([*map(json.dumps, LINES), "{", "", "[]"]).encode()
    (cli.home / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    ran = cli("load", "store", "t", name, *COLUMNS, "--json")
    # One object lacks columns, and two lines are none.
    assert (ran.code, ran.json()["rows"], ran.json()["rejected"]) == (3, 6, 3), ran.err
    with idmatch.open(cli.home / "store") as store:
        assert [partner_id for partner_id, _ in store.table("t").lookup("a")] == ["x", "12"]
    rejects = rejects_file(cli.home).read_text().splitlines()[1:]
    assert sorted(line.split(",")[1] for line in rejects) == ["4", "5", "6"]
    strict = cli("load", "store", "t", name, *COLUMNS, "--strict")
    assert (strict.code, "row" in strict.err) == (1, True), strict.err
    # A population with lines that are no rows cannot be counted.
    assert cli("match", "store", "t", name, "--column", "cookie").code == 1
    (cli.home / "population.jsonl").write_text('{"id": "a"}\n{"id": "z"}\n{"id": null}\n')
    matched = cli("match", "store", "t", "population.jsonl", "--json").json()
    assert (matched["population"], matched["matched"], matched["rows"]) == (3, 1, 2)


def test_files_without_rows(cli: Cli) -> None:
    (cli.home / "empty.jsonl").write_text("\n\n")
    ran = cli("load", "store", "t", "empty.jsonl")
    assert (ran.code, "there were no rows" in ran.err) == (0, True), ran.err
