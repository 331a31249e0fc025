"""Objects and column types that can be loaded and matched."""

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import duckdb
import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import NOON, SMALL
from hidden import needs_numpy
from idmatch._types import Source

UUIDS = [uuid.UUID(int=n) for n in range(5)]
TEXTS = SMALL.column("id").combine_chunks()
STRINGS: list[str] = [value.as_py() for value in TEXTS]
NUMBERS = ["7", "-1", "0", "9223372036854775807", "42"]


@pytest.fixture
def empty(store: idmatch.Store) -> idmatch.Table:
    return store.create_table("loaded")


OBJECTS: dict[str, Callable[[], Source]] = {
    "pyarrow table": lambda: SMALL,
    "pyarrow batch": lambda: SMALL.to_batches()[0],
    "pyarrow reader": SMALL.to_reader,
    "duckdb": lambda: duckdb.arrow(SMALL),
    "list": lambda: [SMALL.slice(0, 2), SMALL.slice(2)],
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects(empty: idmatch.Table, kind: str) -> None:
    assert empty.load(OBJECTS[kind]()).rows == 5
    assert empty.latest_partner_id("a") == ("x", NOON)
    assert empty.match(OBJECTS[kind](), column="id").rows == 8


def test_polars(empty: idmatch.Table) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.from_arrow(SMALL)
    assert empty.load(frame).rows == 5
    assert empty.match(frame["id"]).population == 5
    assert pl.DataFrame(empty.match(frame["id"])).height == 8


@needs_numpy
def test_pandas(empty: idmatch.Table) -> None:
    pytest.importorskip("pandas")
    frame = SMALL.to_pandas()
    assert empty.load(frame).rows == 5
    assert empty.match(frame[["id"]]).population == 5


@pytest.mark.parametrize("population", [TEXTS, pa.chunked_array([TEXTS, TEXTS])])
def test_a_column_is_a_population(table: idmatch.Table, population: Any) -> None:
    assert table.match(population).population == len(population)


@pytest.mark.parametrize("wrong", [5, None, {"a": 1}, [], ["a", 5], [b"bytes"]])
def test_what_is_no_source(table: idmatch.Table, wrong: Any) -> None:
    with pytest.raises((idmatch.InvalidArgument, idmatch.SourceError)):
        table.load(wrong)


IDS: "dict[str, tuple[pa.Array[pa.Scalar[pa.DataType]], list[str]]]" = {
    "string": (TEXTS, STRINGS),
    "large_string": (TEXTS.cast(pa.large_string()), STRINGS),
    "string_view": (TEXTS.cast(pa.string_view()), STRINGS),
    "binary": (TEXTS.cast(pa.binary()), STRINGS),
    "large_binary": (TEXTS.cast(pa.large_binary()), STRINGS),
    "dictionary": (TEXTS.dictionary_encode(), STRINGS),
    "int64": (pa.array([int(n) for n in NUMBERS]), NUMBERS),
    "int8": (pa.array([7, -1, 0, 127, -128], pa.int8()), ["7", "-1", "0", "127", "-128"]),
    "uint64": (pa.array([2**64 - 1] * 5, pa.uint64()), ["18446744073709551615"] * 5),
    "uuid": (pa.array([n.bytes for n in UUIDS], pa.uuid()), [str(n) for n in UUIDS]),
}


@pytest.mark.parametrize("kind", IDS)
def test_id_columns(empty: idmatch.Table, kind: str) -> None:
    column, texts = IDS[kind]
    rows = pa.table({"id": column, "partner_id": column, "seen_at": [NOON] * 5})
    assert empty.load(rows).rejected == 0
    for text in texts:
        assert empty.latest_partner_id(text) == (text, NOON)
        assert empty.latest_id(text) == (text, NOON)
    assert empty.match(pa.table({"id": column})).matched == 5


HASHES = [b"0123456789abcdef", bytes(range(240, 256)), bytes(16)]
HEX = ["30313233343536373839616263646566", "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff", "00" * 16]


@pytest.mark.parametrize("by", ["id", "partner_id"])
@pytest.mark.parametrize("form", ["table", "reader", "dictionary", "parquet", "ipc"])
def test_fixed_size_binary_is_hex(
    empty: idmatch.Table, tmp_path: Path, form: str, by: Literal["id", "partner_id"]
) -> None:
    other = "partner_id" if by == "id" else "id"
    hashes = pa.array(HASHES, pa.binary(16))
    column = hashes.dictionary_encode() if form == "dictionary" else hashes
    rows = pa.table({by: column, other: ["x", "y", "z"], "seen_at": [NOON] * 3})

    def source(table: pa.Table) -> Source:
        if form == "parquet":
            pq.write_table(table, path := tmp_path / "rows.parquet")
            return path
        if form == "ipc":
            with pa.ipc.new_stream(sink := pa.BufferOutputStream(), table.schema) as stream:
                stream.write_table(table)
            return pa.ipc.open_stream(sink.getvalue())
        return table.to_reader() if form == "reader" else table

    for add in (empty.load, empty.upsert):
        report = add(source(rows), columns=["id", "partner_id", "seen_at"])
        assert (report.rows, report.rejected, report.hex_columns) == (3, 0, [by])
    matched = empty.match(source(rows.select([by])), by=by)
    assert (matched.population, matched.matched, matched.hex_columns) == (3, 3, [by])
    found = matched.to_arrow()
    assert found.schema.field(by).type == pa.string()
    assert set(found[by].to_pylist()) == set(HEX)
    assert [value for value, _ in empty.lookup(HEX[0], by=by)] == ["x"]
    targets = rows.select([by]).slice(0, 2)
    erased = empty.erase_from(source(targets), columns={by: by})
    assert (erased.targets, erased.rejected, erased.by_id, erased.hex_columns) == (2, 0, 2, [by])
    assert empty.match(source(rows.select([by])), by=by).to_arrow()[by].to_pylist() == HEX[2:]


@pytest.mark.parametrize("width", [0, 513])
def test_fixed_size_binary_that_is_no_identifier(empty: idmatch.Table, width: int) -> None:
    ids = pa.array([bytes(width)], pa.binary(width))
    with pytest.raises(idmatch.InvalidArgument, match=f'"id" has values of {width} bytes'):
        empty.load(pa.table({"id": ids, "partner_id": ["x"], "seen_at": [NOON]}))
    with pytest.raises(idmatch.InvalidArgument, match="1 to 512 bytes"):
        empty.match(pa.table({"id": ids}))


def test_uuids_are_not_hex(empty: idmatch.Table) -> None:
    ids = pa.array([UUIDS[1].bytes], pa.uuid())
    rows = pa.table({"id": ids, "partner_id": ["x"], "seen_at": [NOON]})
    assert empty.load(rows).hex_columns == []


INSTANT = datetime(2026, 3, 1, 12, 30, 15, 250_000, UTC)
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
DATES = {
    "s": (pa.array([INSTANT.replace(microsecond=0)], pa.timestamp("s")), None),
    "ms": (pa.array([INSTANT], pa.timestamp("ms")), INSTANT),
    "us": (pa.array([INSTANT], pa.timestamp("us")), INSTANT),
    "ns": (pa.array([INSTANT], pa.timestamp("ns")), INSTANT),
    "us of a zone": (pa.array([INSTANT], pa.timestamp("us", "Europe/Berlin")), INSTANT),
    "date32": (pa.array([date(2026, 3, 1)], pa.date32()), MIDNIGHT),
    "date64": (pa.array([date(2026, 3, 1)], pa.date64()), MIDNIGHT),
    "text": (pa.array(["2026-03-01T12:30:15.250Z"]), INSTANT),
    "text of an offset": (pa.array(["2026-03-01T13:30:15.250+01:00"]), INSTANT),
    "text of a date": (pa.array(["2026-03-01"]), MIDNIGHT),
}


@pytest.mark.parametrize("kind", DATES)
def test_date_columns(empty: idmatch.Table, kind: str) -> None:
    column, expected = DATES[kind]
    empty.load(pa.table({"id": ["a"], "partner_id": ["x"], "seen_at": column}))
    assert empty.last_seen("a", "x") == (expected or INSTANT.replace(microsecond=0))


@pytest.mark.parametrize(
    ("column", "values"),
    [("id", [1.5]), ("partner_id", [{"x": 1}]), ("seen_at", [1.5]), ("seen_at", [[1.5]])],
)
def test_types_that_cannot_be_read(empty: idmatch.Table, column: str, values: list[Any]) -> None:
    rows = {"id": ["a"], "partner_id": ["x"], "seen_at": [NOON], column: values}
    with pytest.raises(idmatch.InvalidArgument, match=column):
        empty.load(pa.table(rows), columns=["id", "partner_id", "seen_at"])


def test_large_batches_are_sliced(empty: idmatch.Table) -> None:
    count = (1 << 18) + 5
    ids = pa.array(range(count))
    rows = pa.table({"id": ids, "partner_id": ids, "seen_at": [NOON] * count})
    assert empty.load(rows).rows == count
    assert empty.match(rows.select(["id"])).matched == count


@pytest.mark.parametrize(
    "columns",
    [
        ["k1", "k2", "k3"],
        ["k1", "", "k3"],
        ("k1", None, "k3"),
        ["k1", "k2"],
        {"id": "k1", "seen_at": "k3"},
        {"id": "k1", "partner_id": None, "seen_at": ""},
    ],
)
def test_columns_by_name(empty: idmatch.Table, columns: list[str] | dict[str, str]) -> None:
    report = empty.load(SMALL.rename_columns(["k1", "k2", "k3"]), columns=columns)
    assert report.columns == {"id": ["k1"], "partner_id": ["k2"], "seen_at": ["k3"]}
    assert empty.latest_partner_id("a") == ("x", NOON)


def test_columns_whose_names_are_other_roles(empty: idmatch.Table) -> None:
    for write in (empty.upsert, empty.load):
        report = write(SMALL, columns=["partner_id", "id", "seen_at"])
        assert (report.rows, report.rejected) == (SMALL.num_rows, 0)
        assert empty.latest_partner_id("x") == ("a", NOON)


def test_rows_of_bytes_that_are_no_text_are_rejected(empty: idmatch.Table) -> None:
    ids = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    rows = pa.table({"date": [NOON] * 3, "uid": ["x", "y", "z"], "cookie": ids})
    for write in (empty.upsert, empty.load):
        report = write(rows, columns=["cookie", "uid", "date"])
        assert (report.rows, report.rejected) == (3, 1)
        assert empty.match(pa.table({"id": ["a", "c"]})).matched == 2
    assert empty.match(pa.table({"uid": ["x", "y", "z"]}), by="partner_id").matched == 2


def test_nulls_where_a_field_says_there_are_none(empty: idmatch.Table) -> None:
    text = pa.field("id", pa.string(), nullable=False)
    schema = pa.schema([text, text.with_name("partner_id"), SMALL.schema.field("seen_at")])
    # Text that is not UTF-8 takes another way than text that is.
    for id in (b"a", b"\xff"):
        ids = pa.array([b"b", None, id]).view(pa.string())
        rows = pa.table([ids, pa.array(["x", "y", "z"]), [NOON] * 3], schema=schema)
        for write in (empty.upsert, empty.load):
            report = write(rows)
            assert (report.rows, report.rejected) == (3, 1 if id == b"a" else 2)


@pytest.mark.parametrize(
    "columns", ["id", ["a", "b", "c", "d"], {"uid": "k1"}, [1], 1, {"id": 1}, None]
)
def test_what_names_no_columns(empty: idmatch.Table, columns: object) -> None:
    with pytest.raises(idmatch.InvalidArgument, match="id, partner_id, seen_at"):
        empty.load(SMALL, columns=columns)  # type: ignore[arg-type]  # wrong on purpose


def test_sources_with_different_columns(empty: idmatch.Table) -> None:
    report = empty.load([SMALL, SMALL.rename_columns(["cookie", "uid", "date"])])
    assert report.columns["id"] == ["id", "cookie"]
    assert empty.match(pa.table({"email": ["a"]})).columns == ["email"]
