"""Matching a population, and what becomes of the result."""

import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DAY, NOON, answer_schema
from idmatch._types import ArrowStream, Compression

POPULATION = pa.table({"id": ["a", "b", "nobody", "a", "", None, "x" * 2000]})
A_ROWS = [("a", "x", NOON), ("a", "y", NOON - 10 * DAY)]
B_ROW = ("b", "x", NOON - 30 * DAY)


def rows(result: ArrowStream) -> list[tuple[Any, ...]]:
    """Sorted rows of anything that exports an Arrow stream."""
    columns = pa.table(result).to_pydict().values()
    return sorted(zip(*columns, strict=True), key=str)


def test_all_is_what_join_gives(table: idmatch.Table) -> None:
    result = table.match(POPULATION)
    assert (result.population, result.matched, result.rows) == (7, 3, 5)
    assert result.rate == 3 / 7
    assert result.seconds >= 0
    assert rows(result) == sorted([*A_ROWS, *A_ROWS, B_ROW], key=str)


def test_latest_is_one_row_for_each(table: idmatch.Table) -> None:
    result = table.match(POPULATION, pick="latest")
    assert (result.population, result.matched, result.rows) == (7, 3, 3)
    assert rows(result) == sorted([A_ROWS[0], A_ROWS[0], B_ROW], key=str)


def test_by_partner_id(table: idmatch.Table) -> None:
    result = table.match(pa.table({"partner_id": ["x", "nothing"]}), by="partner_id")
    assert (result.population, result.matched, result.rows) == (2, 1, 2)
    assert result.to_arrow().column_names == ["partner_id", "id", "seen_at"]
    assert rows(result) == [("x", "a", NOON), ("x", "b", NOON - 30 * DAY)]


def test_a_population_without_an_identifier(table: idmatch.Table) -> None:
    wrong = pa.table({"id": [None, "", "x" * 1025]})
    with pytest.raises(idmatch.BadInput, match="2 malformed, 2 null; Table 1, row 2: id") as bad:
        table.match([wrong, wrong.slice(0, 1)])
    assert (bad.value.source, bad.value.row, bad.value.column) == ("Table 1", 2, "id")
    assert "is empty" in str(bad.value.reason)
    nulls = table.match(pa.table({"id": pa.array([None, None], pa.string())}))
    assert (nulls.population, nulls.matched) == (2, 0)
    assert table.match(pa.table({"id": pa.array([], pa.string())})).population == 0
    assert table.match([wrong, pa.table({"id": ["nobody"]})]).population == 4


def test_windows(table: idmatch.Table) -> None:
    assert table.match(POPULATION, since=NOON - 10 * DAY).rows == 4
    assert table.match(POPULATION, since=NOON - 10 * DAY, until=NOON).rows == 2
    assert table.match(POPULATION, until=NOON - 30 * DAY).rows == 0
    latest = table.match(POPULATION, pick="latest", until=NOON)
    assert rows(latest) == sorted([A_ROWS[1], A_ROWS[1], B_ROW], key=str)


def test_a_row_has_its_matches_together_and_newest_first(table: idmatch.Table) -> None:
    ids = table.match(pa.table({"id": ["a", "b"]})).to_arrow().column("partner_id").to_pylist()
    assert ids in (["x", "y", "x"], ["x", "x", "y"])


def test_schema_and_reading_twice(table: idmatch.Table) -> None:
    result = table.match(POPULATION)
    assert result.to_arrow().schema == answer_schema("id", "partner_id")
    assert rows(result) == rows(result)


def test_a_result_stays_as_it_was(store: idmatch.Store, table: idmatch.Table) -> None:
    result = table.match(POPULATION)
    before = rows(result)
    table.load(pa.table({"id": ["b"], "partner_id": ["new"], "seen_at": [NOON]}))
    assert rows(result) == before
    assert table.match(POPULATION).rows == 6


def test_an_empty_population(table: idmatch.Table) -> None:
    result = table.match(POPULATION.slice(0, 0))
    assert (result.population, result.matched, result.rate, result.rows) == (0, 0, 0.0, 0)
    assert result.to_arrow().num_rows == 0


def test_an_empty_table(store: idmatch.Store) -> None:
    assert store.create_table("empty").match(POPULATION).rows == 0


def test_results_are_populations(store: idmatch.Store, table: idmatch.Table) -> None:
    back = table.match(table.match(POPULATION), column="partner_id", by="partner_id")
    assert (back.population, back.matched) == (5, 5)
    # x is of a and b; y is of a alone.
    assert back.rows == 3 * 2 + 2 * 1


def test_results_go_where_arrow_goes(table: idmatch.Table) -> None:
    relation = duckdb.from_arrow(table.match(POPULATION))
    found = relation.aggregate("count(*), max(epoch_ms(seen_at))").fetchall()
    assert found == [(5, NOON.timestamp() * 1000)]


@pytest.mark.parametrize("compression", ["none", "snappy", "lz4", "zstd", "gzip"])
def test_written_as_parquet(table: idmatch.Table, tmp_path: Path, compression: Compression) -> None:
    result = table.match(POPULATION)
    result.write_parquet(tmp_path / "out.parquet", compression=compression)
    assert rows(pq.read_table(tmp_path / "out.parquet")) == rows(result)
    assert [file.name for file in tmp_path.glob("*out*")] == ["out.parquet"]


def test_no_rows_are_written_as_parquet(table: idmatch.Table, tmp_path: Path) -> None:
    result = table.match(POPULATION.slice(0, 0))
    result.write_parquet(tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").schema == result.to_arrow().schema


@pytest.mark.parametrize("read", ["to_arrow", "write_parquet"])
def test_damage_met_while_reading_matches(tmp_path: Path, read: str) -> None:
    store = idmatch.open(tmp_path / "store")
    table = store.create_table("t")
    table.load(pa.table({"id": ["a"], "partner_id": ["x"], "seen_at": [NOON]}))
    result = table.match(pa.table({"id": ["a"]}))
    for segment in (tmp_path / "store").rglob("*.seg"):
        whole = segment.read_bytes()
        # In place: a new file would leave the old one to those who have it open.
        with segment.open("r+b") as file:
            file.seek(len(whole) - 1)
            file.write(bytes([whole[-1] ^ 1]))
    arguments = [tmp_path / "out.parquet"] if read == "write_parquet" else []
    with pytest.raises(idmatch.Corrupt, match="offset"):
        getattr(result, read)(*arguments)
    assert not list(tmp_path.glob("*out*"))


def test_a_failed_write_leaves_the_old_file(table: idmatch.Table, tmp_path: Path) -> None:
    (tmp_path / "out.parquet").write_text("old")
    with pytest.raises(Exception, match="lzma"):
        table.match(POPULATION).write_parquet(
            tmp_path / "out.parquet",
            compression="lzma",  # type: ignore[arg-type]  # wrong on purpose
            overwrite=True,
        )
    assert (tmp_path / "out.parquet").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "store"]
    with pytest.raises(idmatch.IoError, match="nowhere"):
        table.match(POPULATION).write_parquet(tmp_path / "nowhere" / "out.parquet")
    with pytest.raises(idmatch.InvalidArgument, match="ftp://host"):
        table.match(POPULATION).write_parquet("ftp://host/out.parquet")


def test_many_rows_are_written_whole(store: idmatch.Store, tmp_path: Path) -> None:
    count = 700_000
    table = store.create_table("many")
    numbers = pa.array(range(count))
    table.load(pa.table({"id": numbers, "partner_id": numbers, "seen_at": [NOON] * count}))
    result = table.match(pa.table({"id": numbers}))
    result.write_parquet(tmp_path / "out.parquet")
    written = duckdb.execute(f"""
        SELECT count(*), count(DISTINCT id), sum((id = partner_id)::int)
        FROM '{tmp_path}/out.parquet'
    """)
    assert written.fetchall() == [(count, count, count)]


def test_one_row_with_many_matches(store: idmatch.Store) -> None:
    count = 300_000
    table = store.create_table("hot")
    numbers = pa.array(range(count))
    hot = pa.array(["hot"] * count)
    table.load(pa.table({"id": numbers, "partner_id": hot, "seen_at": [NOON] * count}))
    result = table.match(pa.table({"partner_id": ["hot"] * 3}), by="partner_id")
    assert (result.matched, result.rows) == (3, 3 * count)
    assert result.to_arrow().num_rows == 3 * count
    newest = table.ids("hot", limit=3).column("id").to_pylist()
    assert newest == ["0", "1", "10"]


class Text(bytearray):
    """Bytes of which it can be asked whether anybody still has them."""


def test_read_batches_are_freed_while_the_population_goes_on(table: idmatch.Table) -> None:
    schema = pa.schema({"id": pa.string()})
    texts: list[weakref.ref[Text]] = []

    def batch(text: Text) -> pa.RecordBatch:
        texts.append(weakref.ref(text))
        offsets = pa.array([0, len(text)], pa.int32()).buffers()[1]
        ids = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(text)])
        return pa.record_batch([ids], names=["id"])

    def batches() -> Iterator[pa.RecordBatch]:
        # Two are read before the first is matched.
        yield batch(Text(b"a"))
        yield batch(Text(b"b"))
        for _ in range(6):
            end = time.monotonic() + 60
            while any(text() is not None for text in texts) and time.monotonic() < end:
                time.sleep(0.001)
            assert not any(text() is not None for text in texts), "an earlier batch is held"
            yield batch(Text(b"b"))

    assert table.match(pa.RecordBatchReader.from_batches(schema, batches())).matched == 8


def test_wrong_arguments(table: idmatch.Table) -> None:
    for wrong in ({"by": "name"}, {"pick": "some"}, {"since": "soon"}, {"column": "nothing"}):
        with pytest.raises(idmatch.InvalidArgument):
            table.match(POPULATION, **wrong)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(idmatch.InvalidArgument):
        table.match(POPULATION, since=NOON, until=NOON - DAY)
    two = pa.table({"k1": ["a"], "k2": ["b"]})
    with pytest.raises(idmatch.InvalidArgument, match="k1, k2"):
        table.match(two)
    assert table.match(two, column="k1").matched == 1
