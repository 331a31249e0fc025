"""Sources that are damaged, that change while they are read, or whose Arrow data is malformed."""

import io
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from chosen import one_of
from conftest import SMALL, Cli
from idmatch._sources import _columnar
from idmatch._types import Source

ROWS = 400_000


def big() -> pa.Table:
    """So many rows that a reader does not have them all at once."""
    generator = random.Random(7)
    ids = [f"{generator.getrandbits(128):032x}" for _ in range(ROWS)]
    return pa.table({"id": ids, "partner_id": ids, "seen_at": pa.array([1_793_700_000_000] * ROWS)})


@pytest.mark.parametrize("row_group_size", [20_000, None])
def test_a_parquet_file_that_is_truncated_while_it_is_loaded(
    store: idmatch.Store, tmp_path: Path, row_group_size: int | None
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(big(), path, row_group_size=row_group_size, compression="none")
    table = store.create_table("t")
    before = path.stat().st_size

    original = _columnar._rows_of

    def truncate(*arguments: Any) -> int:
        rows = original(*arguments)
        os.truncate(path, before // 2)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_columnar, "_rows_of", truncate)
        with pytest.raises(idmatch.SourceError, match=r"rows\.parquet"):
            table.load(path)
    assert table.stats().rows == 0


@pytest.mark.parametrize("name", one_of(["rows.parquet", "rows.orc"]))
def test_fewer_rows_than_the_footer_says(
    store: idmatch.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As of a reader that just ends where the file is cut off."""
    path = tmp_path / name
    (pq.write_table if name.endswith("parquet") else orc.write_table)(SMALL, path)
    table = store.create_table("t")
    # The same file twice is no damage.
    assert table.load([path, path]).rows == 2 * SMALL.num_rows
    before, original = table.stats(), _columnar._rows_of
    monkeypatch.setattr(_columnar, "_rows_of", lambda *given: original(*given) + 1)
    for call in (table.load, table.match):
        with pytest.raises(idmatch.SourceError, match=rf"{name} has 5 rows, and 6 by its footer"):
            call(path)
    assert table.stats() == before


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl"])
@pytest.mark.parametrize("change", ["append", "touch", "replace"])
@pytest.mark.parametrize("call", ["load", "upsert", "match"])
def test_a_source_that_changes_while_it_is_read(
    tmp_path: Path, name: str, change: str, call: str
) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(SMALL, path)
    elif name.endswith("csv"):
        path.write_text("id,partner_id,seen_at\na,x,2026-03-01\n")
    else:
        path.write_text('{"id": "a", "partner_id": "x", "seen_at": "2026-03-01"}\n')

    from idmatch._sources import Opened, _files

    original = _files.File._open

    def changed(self: _files.File, *arguments: Any) -> Opened:
        opened = original(self, *arguments)
        if change == "append":
            with open(path, "ab") as file:
                file.write(b"\n")
        elif change == "touch":
            os.utime(path, ns=(1, 1))
        else:
            other = path.with_suffix(".new")
            other.write_bytes(path.read_bytes())
            state = path.stat()
            os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
            other.rename(path)
        return opened

    with idmatch.open(tmp_path / "store") as store, pytest.MonkeyPatch.context() as patch:
        table = store.create_table("t")
        patch.setattr(_files.File, "_open", changed)
        with pytest.raises(idmatch.SourceError, match=f"{name} changed while"):
            table.match(path, column="id") if call == "match" else getattr(table, call)(path)
        # The batches of an upsert stay.
        if call != "upsert":
            assert table.stats().rows == 0


def malformed(kind: pa.DataType, offsets: list[int]) -> pa.RecordBatch:
    """A batch whose ids have these offsets into two bytes."""
    width = pa.int64() if kind in (pa.large_string(), pa.large_binary()) else pa.int32()
    buffer = pa.array(offsets, width).buffers()[1]
    ids = pa.Array.from_buffers(kind, len(offsets) - 1, [None, buffer, pa.py_buffer(b"ab")])
    rest = [pa.array(["x"] * len(ids)), pa.array(["2026-03-01"] * len(ids))]
    return pa.RecordBatch.from_arrays([ids, *rest], names=["id", "partner_id", "seen_at"])


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
@pytest.mark.parametrize("offsets", [[0, 100, 2], [0, 2, 1], [0, -7, 1]])
def test_malformed_offsets(table: idmatch.Table, kind: pa.DataType, offsets: list[int]) -> None:
    batch, before = malformed(kind, offsets), table.stats()
    whole = pa.Table.from_batches([batch])
    sources: list[Source] = [batch, whole, [batch, whole]]
    for source in sources:
        for write in (table.load, table.upsert):
            with pytest.raises(idmatch.SourceError, match=r"(?i)offset|buffer"):
                write(source)
    with pytest.raises(idmatch.SourceError):
        table.match(batch, column="id")
    assert table.stats() == before


def test_a_dictionary_with_an_index_too_many(table: idmatch.Table) -> None:
    indices = pa.array([0, 7], pa.int32())
    ids = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    rows = pa.table({"id": ids, "partner_id": ["x", "y"], "seen_at": ["2026-03-01"] * 2})
    with pytest.raises(idmatch.SourceError):
        table.upsert(rows)


def stream_of(batch: pa.RecordBatch) -> bytes:
    data = io.BytesIO()
    with pa.ipc.new_stream(data, batch.schema) as writer:
        writer.write_batch(batch)
    return data.getvalue()


FUZZED = """
import io, json, random, sys
import idmatch, pyarrow as pa
from idmatch import _operations
from idmatch._rejects import RejectsTo
from idmatch._sources import ByteStream
from idmatch._written import written

path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
good = open(path, "rb").read()
generator = random.Random(seed)
read = failed = 0
with idmatch.open(path + ".store") as store:
    table = store.create_table("t")
    for _ in range(count):
        data = bytearray(good)
        for _ in range(generator.choice((1, 1, 2, 8))):
            at = generator.randrange(len(data))
            data[at] = generator.choice((0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)))
        if generator.random() < 0.2:
            # A length, perhaps.
            at = generator.randrange(0, len(data) - 8, 4)
            data[at : at + 8] = (1 << generator.randrange(30, 63)).to_bytes(8, "little")
        if generator.random() < 0.2:
            del data[generator.randrange(len(data)) :]
        stream = ByteStream(io.BufferedReader(io.BytesIO(data)), "stream")
        try:
            report = _operations.upsert_stream(
                table._core, stream, (), False, RejectsTo("-"), written(None, None, None)
            )
            assert report.rows == stream.rows, (report, stream.rows)
            read += 1
        except idmatch.Error:
            failed += 1
print("done", read, failed, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "kind",
    one_of(
        [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    ),
)
def test_arrow_streams_with_wrong_bytes(cli: Cli, kind: pa.DataType) -> None:
    """A process that reads them does not crash, and counts each row that it reads."""
    rows = 100
    columns = {
        "id": pa.array([f"identifier-{n:030d}" for n in range(rows)]).cast(kind),
        "partner_id": pa.array([f"p{n}" for n in range(rows)]),
        "seen_at": pa.array(["2026-03-01"] * rows),
    }
    path = cli.home / "stream"
    path.write_bytes(stream_of(pa.RecordBatch.from_pydict(columns)))
    seed = os.environ.get("IDMATCH_SEED", "7")
    command = [sys.executable, "-c", FUZZED, str(path), seed, "300"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=cli.home, timeout=300)
    assert ran.returncode == 0, (seed, ran.returncode, ran.stderr[-2000:])
    assert "done" in ran.stderr
    read, failed = map(int, ran.stderr.split()[-2:])
    assert read
    assert failed


FUZZED_FILES = """
import random, sys
import idmatch

path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
good = open(path, "rb").read()
generator = random.Random(seed)
read = failed = 0
with idmatch.open(path + ".store") as store:
    for number in range(count):
        data = bytearray(good)
        for _ in range(generator.choice((1, 1, 2, 8))):
            data[generator.randrange(len(data))] = generator.randrange(256)
        if generator.random() < 0.2:
            del data[generator.randrange(len(data)) :]
        with open(path, "wb") as file:
            file.write(data)
        table = store.create_table(f"t{number}")
        try:
            report = table.load(path, columns=("id", "partner_id", "seen_at"))
            assert report.rows == 100, report
            read += 1
        except idmatch.Error:
            failed += 1
            assert table.stats().rows == 0
print("done", read, failed, file=sys.stderr)
"""


@pytest.mark.parametrize("name", ["rows.parquet", "rows.orc"])
def test_files_with_wrong_bytes(cli: Cli, name: str) -> None:
    """A process that loads them does not crash, and loads all rows or none."""
    rows = pa.table(
        {
            "id": [f"identifier-{n:030d}" for n in range(100)],
            "partner_id": [f"p{n}" for n in range(100)],
            "seen_at": pa.array([1_793_700_000_000] * 100, pa.timestamp("ms")),
        }
    )
    path = cli.home / name
    (pq.write_table if name.endswith("parquet") else orc.write_table)(rows, path)
    seed = os.environ.get("IDMATCH_SEED", "7")
    command = [sys.executable, "-c", FUZZED_FILES, str(path), seed, "100"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=cli.home, timeout=300)
    assert ran.returncode == 0, (seed, ran.returncode, ran.stderr[-2000:])
    read, failed = map(int, ran.stderr.split()[-2:])
    assert read
    assert failed


def shifted(column: Any) -> Any:
    """The same values, in buffers that start at odd addresses, as those from a network may."""
    buffers = [
        None if buffer is None else pa.py_buffer(b"?" + buffer.to_pybytes()).slice(1)
        for buffer in column.buffers()
    ]
    return pa.Array.from_buffers(column.type, len(column), buffers, offset=column.offset)


def test_memory_at_odd_addresses_is_read(store: idmatch.Store) -> None:
    """Numbers and offsets are at addresses that no word starts at."""
    table = store.create_table("t")
    columns = [shifted(pa.concat_arrays(column.chunks)) for column in SMALL.columns]
    assert columns[0].buffers()[1].address % 2 == 1
    table.upsert(pa.Table.from_arrays(columns, schema=SMALL.schema).slice(0, 2))
    table.load(pa.Table.from_arrays(columns, schema=SMALL.schema))
    ids = pa.array(["a", "c", "other", None])
    wide = shifted(ids.cast(pa.large_string()))
    coded = pa.DictionaryArray.from_arrays(shifted(pa.array([0, 1, 2, None])), shifted(ids[:3]))
    for given in (shifted(ids), wide, coded, shifted(pa.concat_arrays([ids, ids])[4:])):
        population = pa.table({"id": given, "n": shifted(pa.array([1, 2, 3, 4]))})
        found = (
            table.match(population, column="id", carry=["n"], pick="latest").to_arrow().to_pylist()
        )
        assert sorted((row["id"], row["partner_id"], row["n"]) for row in found) == [
            ("a", "x", 1),
            ("c", "z", 2),
        ]
        assert table.partition_of(given).equals(table.partition_of(ids))


def test_an_array_that_lies_has_no_parts(store: idmatch.Store) -> None:
    table = store.create_table("t")
    data = pa.py_buffer(b"\xff\xfe")
    for offsets in ([0, 1 << 30, 2], [0, 1, 2]):
        buffers = [None, pa.array(offsets, pa.int32()).buffers()[1], data]
        with pytest.raises(idmatch.SourceError, match="cannot read the array"):
            table.partition_of(pa.Array.from_buffers(pa.string(), 2, buffers))
