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


def test_what_has_no_folders_is_refused(store: idmatch.Store, tmp_path: Path) -> None:
    result = matched(store, pa.array([1.5, None]))
    with pytest.raises(idmatch.InvalidArgument, match="text, whole numbers, dates, times or bool"):
        result.write(tmp_path / "cut", partition_by="value")
    assert not (tmp_path / "cut").exists()
