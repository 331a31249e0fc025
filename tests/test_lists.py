"""Columns of lists, and columns that were guessed wrong."""

import json
from pathlib import Path
from typing import Any

import duckdb
import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SMALL, Cli, rejects_file

ROWS: list[dict[str, Any]] = [
    {"id": "a", "partner_id": ["x", "y"], "seen_at": "2026-03-01"},
    {"id": "b", "partner_id": [], "seen_at": "2026-03-01"},
    {"id": "c", "partner_id": None, "seen_at": "2026-03-01"},
    {"id": "d", "partner_id": ["z", None, "", "w"], "seen_at": "2026-03-01"},
    {"id": "", "partner_id": ["x"], "seen_at": "2026-03-01"},
    {"id": "e", "partner_id": ["v"], "seen_at": "soon"},
]
# Rows of the file, and the column of each rejected value.
REJECTED = [("4", "partner_id"), ("4", "partner_id"), ("5", "id"), ("6", "seen_at")]


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.string()), "json"])
def test_a_row_for_each_value(cli: Cli, kind: pa.DataType | str) -> None:
    if kind == "json":
        name = "rows.jsonl"
        lines = [json.dumps(row) for row in ROWS if row["partner_id"] is not None]
        # Without a list it is one value, which is missing here.
        (cli.home / name).write_text("\n".join(lines) + "\n")
    else:
        name = "rows.parquet"
        assert isinstance(kind, pa.DataType)
        schema = pa.schema({"id": pa.string(), "partner_id": kind, "seen_at": pa.string()})
        pq.write_table(pa.Table.from_pylist(ROWS, schema), cli.home / name, row_group_size=2)
    ran = cli("load", "store", "t", name, "--json")
    assert (ran.code, ran.json()["rows"], ran.json()["rejected"]) == (3, 8, 4), ran.err
    lines = rejects_file(cli.home).read_text().splitlines()[1:]
    shift = kind == "json"
    expected = [(str(int(row) - shift), column) for row, column in REJECTED]
    assert sorted(tuple(line.split(",")[1:3]) for line in lines) == sorted(expected)
    with idmatch.open(cli.home / "store") as store:
        got = sorted((id, p) for id in "abcde" for p, _ in store.table("t").lookup(id))
    if kind != "json":
        unnested = duckdb.execute(
            f"select id, p from (select id, unnest(partner_id) as p, seen_at "
            f"from '{cli.home / name}') where p <> '' and id <> '' and seen_at <> 'soon'"
        )
        assert got == sorted(unnested.fetchall())
    assert got == [("a", "x"), ("a", "y"), ("d", "w"), ("d", "z")]


def test_two_columns_of_lists(store: idmatch.Store) -> None:
    rows = pa.table({"id": [["a"]], "partner_id": [["x"]], "seen_at": ["2026-03-01"]})
    for write in (store.create_table("t").load, store.table("t").upsert):
        with pytest.raises(idmatch.Error, match="two columns"):
            write(rows)


def test_rows_of_two_tables_are_told_apart(store: idmatch.Store, tmp_path: Path) -> None:
    date = "2026-03-01"
    plain = pa.table({"id": ["a", ""], "partner_id": ["x", "y"], "seen_at": [date] * 2})
    lists = pa.table({"id": ["b", "c"], "partner_id": [["x", "y"], [""]], "seen_at": [date] * 2})
    table = store.create_table("t")
    for write in ("load", "upsert"):
        rejects = tmp_path / f"{write}.csv"
        report = getattr(table, write)([plain, lists], rejects=rejects)
        assert (report.rows, report.rejected) == (5, 2)
        lines = [line.split(",")[:3] for line in rejects.read_text().splitlines()[1:]]
        # Threads reject them in any order.
        assert sorted(lines) == [["Table 1", "2", "id"], ["Table 2", "2", "partner_id"]]


def test_a_population_of_lists(table: idmatch.Table) -> None:
    result = table.match(pa.table({"id": [["a", "b"], [], ["nobody"]]}))
    assert (result.population, result.matched) == (3, 2)


def test_a_guess_that_matches_nothing_warns(loaded: Cli) -> None:
    many = [f"nobody{n}" for n in range(10_000)]
    for name, ids, warns in (
        ("none.parquet", many, True),
        ("late.parquet", [*many, "a"], True),
        ("first.parquet", ["a", *many], False),
        ("last.parquet", [*many[1:], "a"], False),
    ):
        pq.write_table(pa.table({"id": ids}), loaded.home / name)
        ran = loaded("match", "store", "small", name)
        assert (ran.code, "name another with --column" in ran.err) == (0, warns), name
        named = loaded("match", "store", "small", name, "--column", "id", "--json")
        assert named.json()["is_guess_unmatched"] is False
        document = loaded("match", "store", "small", name, "--json")
        assert (document.json()["is_guess_unmatched"], document.err) == (warns, "")
    assert loaded("create", "store", "empty").code == 0
    assert "--column" not in loaded("match", "store", "empty", "none.parquet").err


def test_a_guess_in_memory(table: idmatch.Table, tmp_path: Path) -> None:
    assert table.match(pa.table({"id": ["nobody"]})).is_guess_unmatched
    assert not table.match(pa.table({"id": ["nobody"]}), column="id").is_guess_unmatched
    assert not table.match(SMALL.select(["id"])).is_guess_unmatched
    assert not table.match(pa.table({"id": pa.array([], pa.string())})).is_guess_unmatched
