"""Folders of results: the names of folders and files for each kind of value."""

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, observations

NULL = "__HIVE_DEFAULT_PARTITION__"
DAY = dt.date(2026, 11, 3)


def matched(store: idmatch.Store, values: "pa.Array[Any]") -> idmatch.MatchResult:
    """A row for each value, with its number."""
    numbers = range(len(values))
    table = store.create_table("t")
    table.load(observations(*((f"i{n}", "x", NOON) for n in numbers)))
    population = pa.table(
        {"key": [f"i{n}" for n in numbers], "value": values, "n": pa.array(numbers, pa.int64())}
    )
    return table.match(population, column="key", carry=["value", "n"])


@pytest.mark.parametrize(
    ("values", "folders"),
    [
        (pa.array(["b", None, "", "b", None, NULL, "a b", "ü%", "b"]), [NULL, "a b", "b", "ü%"]),
        (pa.array([True, None, False, True]), [NULL, "false", "true"]),
        (pa.array([DAY, None, DAY]), [NULL, "2026-11-03"]),
        (pa.array([-7, None, 7, 7], pa.int16()), ["-7", "7", NULL]),
    ],
)
def test_each_value_has_a_folder(
    store: idmatch.Store, tmp_path: Path, values: "pa.Array[Any]", folders: list[str]
) -> None:
    """Null and empty text are in one; the files lack the column."""
    result = matched(store, values)
    result.write(tmp_path / "cut", partition_by="value", max_rows_per_file=2)
    names = {path.name for path in (tmp_path / "cut").iterdir()}
    assert names == {f"value={quote(name, safe=' ')}" for name in folders}
    expected = Counter(named(value) for value in values.to_pylist())
    for name in folders:
        files = sorted((tmp_path / "cut" / f"value={quote(name, safe=' ')}").iterdir())
        rows = [pq.ParquetFile(file).metadata.num_rows for file in files]
        count = expected[name]
        assert rows == [2] * (count // 2) + [1] * (count % 2)
        assert [file.name for file in files] == [
            f"part-{number:05}.parquet" for number in range(1, len(files) + 1)
        ]
        assert pq.ParquetFile(files[0]).schema_arrow.names == ["id", "partner_id", "seen_at", "n"]
    parts = f"read_parquet('{tmp_path}/cut/*/*', hive_partitioning = true, hive_types_autocast = 0)"
    with duckdb.connect() as sql:
        found = sql.execute(f"SELECT n, value FROM {parts} ORDER BY n").fetchall()
    assert [(n, value or NULL) for n, value in found] == [
        (n, named(value)) for n, value in enumerate(values.to_pylist())
    ]


def named(value: object) -> str:
    """As the folder of a value is named."""
    if value is None or value == "":
        return NULL
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_days_of_times_without_a_time(store: idmatch.Store, tmp_path: Path) -> None:
    """Their files keep the column."""
    times = pa.array([NOON, None, NOON, NOON + dt.timedelta(hours=12), None])
    matched(store, times).write(
        tmp_path / "cut", partition_by="value", max_rows_per_file=1, format="jsonl"
    )
    found = Counter(path.parent.name for path in (tmp_path / "cut").rglob("*.jsonl"))
    assert found == {
        "value_day=2026-03-01": 2,
        "value_day=2026-03-02": 1,
        f"value_day={NULL}": 2,
    }


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "+05:00", "America/New_York"])
def test_days_are_those_of_utc(store: idmatch.Store, tmp_path: Path, zone: str) -> None:
    texts = ["2026-07-01T23:30", "1969-12-31T23:00", "1970-01-01T00:00", "2026-01-01T03:00"]
    times = [dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in texts]
    matched(store, pa.array(times, pa.timestamp("us", zone))).write(
        tmp_path / "cut", partition_by="value"
    )
    for number, text in enumerate(texts):
        (folder,) = (tmp_path / "cut").glob(f"value_day={text[:10]}")
        rows = pq.read_table(folder / "part-00001.parquet", partitioning=None).to_pylist()
        assert (number, times[number]) in [(row["n"], row["value"]) for row in rows]


def test_days_beside_a_column_of_their_name_are_refused(
    store: idmatch.Store, tmp_path: Path
) -> None:
    table = store.create_table("t")
    table.load(observations(("a", "x", NOON)))
    result = table.match(pa.table({"id": ["a"], "seen_at_day": ["x"]}), carry="all")
    with pytest.raises(idmatch.InvalidArgument, match="seen_at_day"):
        result.write(tmp_path / "cut", partition_by="seen_at")


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl.gz"])
def test_what_was_cut_is_read_again(store: idmatch.Store, tmp_path: Path, format: str) -> None:
    """Null stays null, and the name of the column is what it was."""
    table = store.create_table("t")
    table.load(observations(("a", "x", NOON), ("b", "x", NOON)))
    population = pa.table({"id": ["a", "b"], "a/é": ["c d", None]})
    cut = tmp_path / "cut"
    table.match(population, carry="all").write(cut, partition_by="a/é", format=format)
    again = pa.table(table.match(cut, column="id", carry=["a/é"])).sort_by("id")
    assert again.column("a/é").to_pylist() == ["c d", None]
    lost = table.match(cut, column="a/é", unmatched=True).unmatched().to_arrow()
    assert set(lost.column("reason").to_pylist()) == {"not in table", "null"}


def test_the_name_of_a_folder_tells_the_format(store: idmatch.Store, tmp_path: Path) -> None:
    matched(store, pa.array([1])).write(tmp_path / "cut.csv", max_rows_per_file=1)
    assert [path.name for path in (tmp_path / "cut.csv").iterdir()] == ["part-00001.csv"]


def test_what_has_no_folders_is_refused(store: idmatch.Store, tmp_path: Path) -> None:
    result = matched(store, pa.array([1.5, None]))
    with pytest.raises(idmatch.InvalidArgument, match="text, whole numbers, dates, times or bool"):
        result.write(tmp_path / "cut", partition_by="value")
    assert not (tmp_path / "cut").exists()


def test_standard_output_is_no_folder(
    store: idmatch.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(idmatch.InvalidArgument, match="cannot go to standard output"):
        matched(store, pa.array([1])).write("-", max_rows_per_file=1, format="csv")
    assert not (tmp_path / "-").exists()
