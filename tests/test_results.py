"""What users do with results: files of each format, frames, notebooks, and other processes."""

import gzip
import io
import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import duckdb
import idmatch
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from campaign import run_and_compare_campaign
from conftest import SMALL, Cli
from exported import ROWS, SINCE, UNTIL, selected, window
from idmatch._formats import FORMATS

POPULATION = pa.table(
    {
        "key": ["a", "b", "nobody", None],
        "campaign": ["spring, early", 'say "hi"', None, "autumn"],
        "n": [1, 2, 3, 4],
    }
)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """SMALL in a directory."""
    with idmatch.open(tmp_path / "store") as store:
        made = store.create_table("small")
        made.load(SMALL)
        yield made


@pytest.fixture
def result(table: idmatch.Table) -> idmatch.MatchResult:
    """Four rows with a match and two without."""
    return table.match(POPULATION, column="key", carry="all", how="left")


def as_text(rows: pa.Table) -> list[tuple[str, ...]]:
    """Rows as text, sorted, null as nothing; times in milliseconds."""
    columns = []
    for column in rows.columns:
        if pa.types.is_timestamp(column.type):
            millis = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
            columns.append(["" if at is None else str(at) for at in millis])
        else:
            columns.append(["" if v is None else str(v) for v in column.to_pylist()])
    return sorted(zip(*columns, strict=True))


def read(path: Path) -> pa.Table:
    """A file, by its name; text stays text."""
    name = path.name
    if name.endswith(".parquet"):
        return pq.read_table(path)
    if name.endswith(".arrow"):
        return ipc.open_file(str(path)).read_all()
    if ".csv" in name.lower():
        text = dict.fromkeys(["id", "partner_id", "campaign"], pa.string())
        options = pc.ConvertOptions(column_types=text, strings_can_be_null=True)
        with pa.input_stream(str(path), compression="detect") as stream:
            return pc.read_csv(io.BytesIO(stream.read()), convert_options=options)
    rows = duckdb.connect().sql(f"from read_json('{path}', format='newline_delimited')")
    assert rows is not None
    table: pa.Table = rows.to_arrow_table()
    return table


def asked(query: str) -> duckdb.DuckDBPyConnection:
    """What DuckDB answers."""
    return duckdb.connect().execute(query)


@pytest.mark.parametrize(
    "name",
    [
        "o.parquet",
        "o.csv",
        "o.CSV.gz",
        "o.csv.zst",
        "o.jsonl",
        "o.jsonl.gz",
        "o.jsonl.zst",
        "o.arrow",
    ],
)
def test_each_format_has_every_row(result: idmatch.MatchResult, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    result.write(path)
    assert as_text(read(path)) == as_text(result.to_arrow())
    with pytest.raises(idmatch.InvalidArgument, match="exists"):
        result.write(path)
    result.unmatched().write(path, overwrite=True)
    assert read(path).num_rows == 2


@pytest.mark.parametrize(
    "name", ["o.csv", "o.csv.gz", "o.csv.zst", "o.jsonl.gz", "o.parquet", "o.arrow"]
)
def test_a_result_without_rows_is_a_file_of_its_format(
    table: idmatch.Table, tmp_path: Path, name: str
) -> None:
    empty = table.match(pa.table({"id": ["nobody"]}))
    empty.write(tmp_path / name)
    if name.endswith("jsonl.gz"):
        assert gzip.decompress((tmp_path / name).read_bytes()) == b""
    else:
        assert read(tmp_path / name).column_names == ["id", "partner_id", "seen_at"]


def test_names_that_tell_no_format_are_refused(result: idmatch.MatchResult, tmp_path: Path) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="does not tell a format"):
        result.write(tmp_path / "out.txt")
    with pytest.raises(idmatch.InvalidArgument, match="format is 'xml'"):
        result.write(tmp_path / "out.csv", format="xml")
    result.write(tmp_path / "out.txt", format="csv.gz")
    assert gzip.decompress((tmp_path / "out.txt").read_bytes()).startswith(
        b"id,partner_id,seen_at,campaign"
    )


def test_columns_that_a_format_cannot_hold_are_an_error(
    table: idmatch.Table, tmp_path: Path
) -> None:
    population = pa.table({"key": ["a"], "tags": [[1, 2]]})
    result = table.match(population, column="key", carry=["tags"])
    with pytest.raises(idmatch.InvalidArgument, match="write Parquet"):
        result.write(tmp_path / "out.csv")
    assert list(tmp_path.glob("*out*")) == []
    result.write(tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])["tags"] == [1, 2]


def test_a_folder_has_each_row_once(result: idmatch.MatchResult, tmp_path: Path) -> None:
    result.write(tmp_path / "cut", format="csv.gz", max_rows_per_file=4)
    files = sorted((tmp_path / "cut").iterdir())
    assert [file.name for file in files] == ["part-00001.csv.gz", "part-00002.csv.gz"]
    assert [read(file).num_rows for file in files] == [4, 1]
    result.write(tmp_path / "by", partition_by="campaign")
    names = {path.parent.name for path in (tmp_path / "by").rglob("*.parquet")}
    assert "campaign=__HIVE_DEFAULT_PARTITION__" in names
    assert "campaign=say %22hi%22" in names
    parts = f"read_parquet('{tmp_path}/by/*/*', hive_partitioning=true)"
    found = asked(f"select id, partner_id, campaign, n from {parts}").fetchall()
    expected = result.to_arrow().select(["id", "partner_id", "campaign", "n"]).to_pylist()
    assert sorted(map(str, found)) == sorted(str(tuple(row.values())) for row in expected)
    # The reader of idmatch takes such folders, too.
    with idmatch.open(tmp_path / "other") as store:
        again = store.create_table("t").match(tmp_path / "by", column="id", carry=["campaign"])
        assert again.population == len(result)


def test_a_folder_appears_whole_or_not_at_all(result: idmatch.MatchResult, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"path": tmp_path / "there", "partition_by": "campaign"}, "exists"),
        ({"path": tmp_path / "new", "partition_by": "missing"}, "columns: id, partner_id"),
        ({"path": tmp_path / "new", "max_rows_per_file": 0}, "is 0"),
        ({"path": tmp_path / "new", "partition_by": "n", "format": "xml"}, "xml"),
        ({"path": tmp_path / "store" / "new", "partition_by": "n"}, "inside the store"),
    ]
    for arguments, text in refused:
        with pytest.raises(idmatch.InvalidArgument, match=text):
            result.write(**arguments)
    assert not (tmp_path / "new").exists()
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_frames_and_length(result: idmatch.MatchResult) -> None:
    assert len(result) == 5
    assert len(result.unmatched()) == 2
    assert isinstance(result.to_pandas(), pd.DataFrame)
    assert isinstance(result.to_polars(), pl.DataFrame)
    assert len(result.to_pandas()) == result.to_polars().height == len(pl.DataFrame(result)) == 5


def test_a_stream_takes_the_requested_schema(table: idmatch.Table) -> None:
    result = table.match(pa.table({"id": ["a"]}))
    schema = pa.RecordBatchReader.from_stream(result).schema
    wanted = schema.set(0, pa.field("id", pa.large_string(), nullable=False))
    reader = pa.RecordBatchReader.from_stream(result, schema=wanted)
    assert reader.read_all().schema.field("id").type == pa.large_string()


def test_rows_are_shown(result: idmatch.MatchResult, capsys: pytest.CaptureFixture[str]) -> None:
    result.show(1)
    assert len(capsys.readouterr().out.splitlines()) == 2
    with pytest.raises(idmatch.InvalidArgument, match="-1 rows"):
        result.show(-1)
    html = result._repr_html_()
    assert html.count("<tr>") == 6
    assert "say &quot;hi&quot;" in html


def test_scans_are_the_table(table: idmatch.Table) -> None:
    rows = table.scan(since="2026-02-01").to_arrow()
    assert sorted(zip(*rows.select(["id", "partner_id"]).to_pydict().values(), strict=True)) == [
        ("a", "x"),
        ("a", "y"),
    ]
    with pytest.raises(TypeError):
        len(table.scan())  # type: ignore[arg-type]


def test_a_store_that_is_read_only_must_be_there(tmp_path: Path) -> None:
    for how in ({"read_only": True}, {"create": False}):
        with pytest.raises(idmatch.NotAStore, match="there is no store at"):
            idmatch.open(tmp_path / "typo", **how)  # type: ignore[arg-type]


def test_a_store_that_is_read_only_refuses_changes(table: idmatch.Table, tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store", read_only=True, create=False) as store:
        read = store.table("small")
        assert read.partner_ids("a").num_rows == 2
        for change in (
            lambda: read.load(SMALL),
            lambda: read.upsert(SMALL),
            lambda: read.upsert_one("a", "b"),
            lambda: read.erase(id="a"),
            lambda: read.alter(retention="90d"),
            lambda: read.begin(),
            lambda: read.compact(),
            lambda: read.repair(),
            lambda: store.create_table("new"),
            lambda: store.rename_table("small", "new"),
            lambda: store.swap_tables("small", "small"),
            lambda: store.drop_table("small"),
            lambda: table.copy_to(store, name="new"),
        ):
            with pytest.raises(idmatch.Unsupported, match="read"):
                change()
    assert table.partner_ids("a").num_rows == 2


def test_a_store_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in ("nothing", "empty"):
        with pytest.raises(idmatch.NotAStore, match="no store"):
            idmatch.open(tmp_path / place, create=False)
    with pytest.raises(idmatch.InvalidArgument, match="create"):
        idmatch.open("cql://127.0.0.1/keyspace", create=False)


def _partner_ids(table: idmatch.Table, key: str) -> list[str]:
    return [value for value, _ in table.lookup(key)]


def test_another_process_opens_what_is_pickled(table: idmatch.Table, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        found = pool.starmap(_partner_ids, [(table, key) for key in ("a", "b", "c", "a")])
    assert found == [["x", "y"], ["x"], ["z"], ["x", "y"]]
    again = pickle.loads(pickle.dumps(table))
    assert again.name == "small"
    store = pickle.loads(pickle.dumps(idmatch.open(tmp_path / "store", read_only=True)))
    with pytest.raises(idmatch.Unsupported):
        store.create_table("t")
    store.close()
    assert pickle.loads(pickle.dumps(store)).tables() == ["small"]


def test_match_and_export_write_what_they_say(cli: Cli, tmp_path: Path) -> None:
    with idmatch.open(cli.home / "store") as store:
        store.create_table("small").load(SMALL)
    pq.write_table(POPULATION, cli.home / "people.parquet")
    match = ["match", "store", "small", "people.parquet", "--column", "key"]
    ran = cli(
        *match,
        "--carry",
        "campaign,n as number",
        "--how",
        "left",
        "-o",
        "out.csv",
        "--unmatched",
        "lost.jsonl",
        "--json",
    )
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    assert (document["rows"], document["written"], document["matched"]) == (3, 5, 2)
    assert (cli.home / "out.csv").read_text().startswith("id,partner_id,seen_at,campaign,number\n")
    lost = [json.loads(line) for line in (cli.home / "lost.jsonl").read_text().splitlines()]
    assert [row["reason"] for row in lost] == ["not in table", "null"]
    ran = cli(
        *match,
        "--then",
        "small,by=partner-id",
        "--with-hops",
        "--limit",
        "1",
        "-o",
        "-",
        "--format",
        "jsonl",
    )
    assert json.loads(ran.out.splitlines()[0])["hop_1_partner_id"] == "x"
    assert "rows in" in ran.err
    assert cli("export", "store", "small", "-o", "all.arrow").code == 0
    assert ipc.open_file(str(cli.home / "all.arrow")).read_all().num_rows == 4
    assert cli("export", "store", "small", "-o", "all.jsonl", "--json").json()["rows"] == 4
    ran = cli("export", "store", "small", "-o", "days", "--partition-by", "seen_at")
    assert ran.out.startswith("small: wrote 4 rows in ")
    assert len(list((cli.home / "days").iterdir())) == 4
    for words in (
        [*match, "-o", "new.xml"],
        [*match, "-o", "new.csv", "--unmatched", "new.csv"],
        [*match, "--partition-by", "n"],
        [*match, "-o", "new", "--partition-by", "n", "--overwrite"],
        [*match, "--carry", "id as id"],
        [*match, "--then", "small,by=email"],
        ["export", "store", "small", "-o", "-", "--json", "--format", "csv"],
    ):
        assert cli(*words).code == 2, words
    assert not (cli.home / "new").exists()


def test_a_carried_name_with_a_comma(cli: Cli) -> None:
    with idmatch.open(cli.home / "store") as store:
        store.create_table("small").load(SMALL)
    people = pa.table({"key": ["a"], "x, y": [1], 'say "z"': [2], "n": [3]})
    pq.write_table(people, cli.home / "people.parquet")
    match = ["match", "store", "small", "people.parquet", "--column", "key", "--limit", "1"]
    named = '"x, y", say "z" as z, "x, y as w",n'
    ran = cli(*match, "--carry", named, "-o", "-", "--format", "jsonl")
    row = json.loads(ran.out)
    assert {name: row[name] for name in ("x, y", "z", "w", "n")} == {
        "x, y": 1,
        "z": 2,
        "w": 1,
        "n": 3,
    }


@pytest.mark.parametrize(
    ("format", "since", "until"),
    [*((format, SINCE, UNTIL) for format in FORMATS), ("csv", SINCE, None), ("csv", None, UNTIL)],
)
def test_an_export_has_the_rows_that_sql_selects(
    cli: Cli, format: str, since: str | None, until: str | None
) -> None:
    with idmatch.open(cli.home / "store") as store:
        store.create_table("t").load(ROWS)
    ran = cli("export", "store", "t", "-o", f"out.{format}", *window(since, until))
    assert ran.code == 0, ran.err
    expected = selected(since, until)
    assert 0 < expected.num_rows < selected(None, None).num_rows
    assert as_text(read(cli.home / f"out.{format}")) == as_text(expected)


def test_the_example_of_a_campaign(tmp_path: Path) -> None:
    run_and_compare_campaign("./store", tmp_path)
