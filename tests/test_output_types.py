"""Carried columns of unusual types: to Parquet, to a reader that requests types, to the screen."""

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, Cli, observations

NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, None]),
    (pa.list_(pa.struct([("a", pa.int8()), ("b", pa.bool_())])), [[{"a": 1, "b": True}], []]),
    (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], None]),
    (pa.struct([("a", pa.int32()), ("c", pa.list_(pa.date32()))]), [{"a": None, "c": []}, None]),
]


def matched(store: idmatch.Store, values: "pa.Array[Any]") -> idmatch.MatchResult:
    """A row for each value, beside it a text."""
    table = store.create_table("t")
    table.load(observations(*((f"i{n}", "x", NOON) for n in range(len(values)))))
    keys = [f"i{n}" for n in range(len(values))]
    population = pa.table({"key": keys, "value": values, "last": ["end"] * len(values)})
    return table.match(population, column="key", carry=["value", "last"])


@pytest.mark.parametrize(("kind", "values"), NESTED)
def test_nested_values_are_whole_in_parquet(
    store: idmatch.Store, tmp_path: Path, kind: pa.DataType, values: list[Any]
) -> None:
    result = matched(store, pa.array(values, kind))
    result.write(tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet").sort_by("id")
    assert found.column("value").to_pylist() == values
    assert found.column("last").to_pylist() == ["end"] * len(values)


def test_times_stay_times_in_parquet(store: idmatch.Store, tmp_path: Path) -> None:
    """Parquet has no seconds, and no days in milliseconds."""
    day = dt.date(2026, 11, 3)
    parts: list[tuple[str, pa.DataType, Any]] = [
        ("s", pa.timestamp("s"), dt.datetime(2026, 11, 3, 7)),
        ("z", pa.timestamp("s", "UTC"), dt.datetime(2026, 11, 3, 7, tzinfo=dt.UTC)),
        ("d", pa.date64(), day),
        ("t", pa.time32("s"), dt.time(7, 8, 9)),
        ("l", pa.list_(pa.timestamp("s")), [dt.datetime(1969, 1, 1)]),
    ]
    kind = pa.struct([(name, type_) for name, type_, _ in parts])
    values: dict[str, Any] = {name: value for name, _, value in parts}
    matched(store, pa.array([dict(values), None], kind)).write(tmp_path / "out.parquet")
    with duckdb.connect() as sql:
        query = f"""
            SELECT value.* REPLACE (epoch_ms(value.z) AS z)
            FROM '{tmp_path}/out.parquet' WHERE id = 'i0'"""
        values["z"] = int(values["z"].timestamp()) * 1_000
        assert sql.execute(query).fetchone() == tuple(values[name] for name, _, _ in parts)
    plain = pa.array([dt.datetime(2026, 11, 3, 7)], pa.timestamp("s"))
    store.table("t").match(pa.table({"id": ["i0"], "at": plain}), carry="all").write(
        tmp_path / "plain.parquet"
    )
    assert pq.read_schema(tmp_path / "plain.parquet").field("at").type == pa.timestamp("ms")


def test_a_time_beyond_milliseconds_is_an_error(store: idmatch.Store, tmp_path: Path) -> None:
    """No null in its place."""
    times = pa.array([1 << 62, 0], pa.int64()).view(pa.timestamp("s"))
    with pytest.raises(idmatch.InvalidArgument, match="does not fit the type") as told:
        matched(store, times).write(tmp_path / "out.parquet")
    assert str(1 << 62) not in str(told.value)
    assert list(tmp_path.glob("*.parquet")) == []


def test_a_requested_type_loses_no_value(store: idmatch.Store) -> None:
    result = matched(store, pa.array([7, 70_000, None]))
    schema = pa.schema(pa.table(result).schema)
    wide = schema.set(schema.get_field_index("value"), pa.field("value", pa.float64()))
    found = pa.table(result, schema=wide).sort_by("id")
    assert found.column("value").to_pylist() == [7.0, 70_000.0, None]
    for column, kind in [("value", pa.int8()), ("id", pa.int64())]:
        narrow = schema.set(schema.get_field_index(column), pa.field(column, kind))
        with pytest.raises(pa.ArrowException, match=f"column {column} does not fit") as told:
            pa.RecordBatchReader.from_stream(result, schema=narrow).read_all()
        assert "70000" not in str(told.value)
        assert "i0" not in str(told.value)


@pytest.mark.parametrize("kind", [pa.timestamp("s", "UTC"), pa.date32()])
def test_a_requested_type_cuts_no_time(store: idmatch.Store, kind: pa.DataType) -> None:
    """A coarser type takes times that it can hold; others are an error."""
    day = dt.datetime(2026, 11, 3, tzinfo=dt.UTC)
    for at, fits in [(day, True), (day + dt.timedelta(hours=7, milliseconds=5), False)]:
        result = matched(store, pa.array([at, None], pa.timestamp("ms", "UTC")))
        schema = pa.schema(pa.table(result).schema)
        wanted = schema.set(schema.get_field_index("value"), pa.field("value", kind))
        reader = pa.RecordBatchReader.from_stream(result, schema=wanted)
        if fits:
            read = reader.read_all().column("value").cast(pa.timestamp("ms", "UTC"))
            assert set(read.to_pylist()) == {day, None}
        else:
            with pytest.raises(pa.ArrowException, match="column value does not fit the type"):
                reader.read_all()


def test_a_requested_type_cuts_no_number(store: idmatch.Store) -> None:
    """Decimals have no place in whole numbers."""
    for kind, value, fits in [
        (pa.int64(), 2.0, True),
        (pa.int64(), 2.5, False),
        (pa.float32(), 2.0, True),
    ]:
        result = matched(store, pa.array([value, None]))
        schema = pa.schema(pa.table(result).schema)
        wanted = schema.set(schema.get_field_index("value"), pa.field("value", kind))
        reader = pa.RecordBatchReader.from_stream(result, schema=wanted)
        if fits:
            assert set(reader.read_all().column("value").to_pylist()) == {2, None}
        else:
            with pytest.raises(pa.ArrowException, match="column value does not fit the type"):
                reader.read_all()


def test_a_schema_of_other_columns_is_refused(store: idmatch.Store) -> None:
    result = matched(store, pa.array([7]))
    with pytest.raises(idmatch.InvalidArgument, match=r"partner_id \(Utf8\).*value \(Int64\)"):
        pa.RecordBatchReader.from_stream(result, schema=pa.schema([("id", pa.string())]))


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_shown(
    store: idmatch.Store, kind: pa.DataType, capsys: pytest.CaptureFixture[str]
) -> None:
    result = matched(store, pa.array([dt.date(2026, 11, 3), None], kind))
    result.show()
    assert "2026-11-03" in capsys.readouterr().out
    assert "<td>2026-11-03</td>" in result._repr_html_()


WITHOUT_PANDAS = """
from idmatch._cli import _process
_process.prepare()
import idmatch, pyarrow as pa
with idmatch.open("store") as store:
    at = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC"))
    store.table("small").match(pa.table({"id": ["a"], "at": at}), carry="all").show()
"""


def test_nanoseconds_are_shown_without_pandas(loaded: Cli) -> None:
    loaded.program = WITHOUT_PANDAS
    done = loaded()
    assert done.code == 0, done.err
    assert "2023-11-14T22:13:20.123+00:00" in done.out
