"""How long work ends early: without threads, and by Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON

_WITHOUT_THREADS = """
import contextlib, io, os, resource, sys
import pyarrow as pa
import pyarrow.parquet as pq
import idmatch
store = idmatch.open(sys.argv[1], read_only=True)
table = store.table("many")
result = table.match(pa.table({"id": [f"i{n}" for n in range(20_000)]}))
joined = table.match(pa.table({"id": [f"i{n}" for n in range(20_000)]}), unmatched=True)
pa.set_cpu_count(1)
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))

def file(rows):
    rows.write(f"{sys.argv[2]}/rows.parquet", overwrite=True)
    return pq.ParquetFile(f"{sys.argv[2]}/rows.parquet")

def parquet(rows):
    rows.write_parquet(f"{sys.argv[2]}/rows.parquet", overwrite=True)
    return pq.ParquetFile(f"{sys.argv[2]}/rows.parquet")

def folder(rows):
    place = f"{sys.argv[2]}/{id(rows)}"
    rows.write(place, format="parquet", max_rows_per_file=10**6)
    return pq.ParquetFile(f"{place}/part-00001.parquet")

def first(rows):
    with contextlib.redirect_stdout(io.StringIO()):
        rows.show(1)
    return pa.table(rows)

reads = (
    pa.table, idmatch.Rows.to_arrow, pa.RecordBatchReader.from_stream, file, parquet, folder, first
)
for rows in (result, joined, table.scan()):
    for read in reads:
        try:
            got = read(rows)
            got = got.read_all() if hasattr(got, "read_all") else got
            got = got.read(use_threads=False) if hasattr(got, "read_row_group") else got
            assert got.num_rows == 20_000, got.num_rows
        except (idmatch.Error, OSError, pa.ArrowException) as error:
            assert "thread" in str(error), error
print("ended")
"""


def test_without_threads_a_stream_has_all_rows_or_an_error(tmp_path: Path) -> None:
    ids = pa.array([f"i{n}" for n in range(20_000)])
    dates = pa.array([NOON] * len(ids), pa.timestamp("ms", "UTC"))
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("many")
        table.load(pa.table({"id": ids, "partner_id": ids, "seen_at": dates}))
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    outputs.chmod(0o777)
    command = [sys.executable, "-c", _WITHOUT_THREADS, str(tmp_path / "store"), str(outputs)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stdout == "ended\n", ran.stderr
    assert "panic" not in ran.stderr


_LONG_WORK = """
import signal, sys, time
import idmatch
signal.signal(signal.SIGINT, signal.default_int_handler)
store = idmatch.open(sys.argv[1])
table = store.table("many")
# An interrupt inside an import that runs a text, as of a data class, ends Python by SIGINT also
# where it is caught.
WORK
print("started", flush=True)
try:
    while True:
        WORK
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert table.verify() == []
"""


@pytest.mark.parametrize(
    "work",
    [
        "table.compact()",
        "table.verify()",
        "table.match(table.scan(), column='id', carry=['seen_at as at'], how='left').to_arrow()",
        "table.scan().to_arrow()",
        "table.repair()",
        "table.copy_to(store, name=f't{time.monotonic_ns()}')",
        "store.backup(f'{sys.argv[1]}-{time.monotonic_ns()}')",
    ],
)
def test_ctrl_c_ends_long_work(tmp_path: Path, work: str) -> None:
    ids = pa.array([f"i{n}" for n in range(200_000)])
    dates = pa.array([NOON] * len(ids), pa.timestamp("ms", "UTC"))
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("many")
        table.load(pa.table({"id": ids, "partner_id": ids, "seen_at": dates}))
    program = _LONG_WORK.replace("WORK", work)
    command = [sys.executable, "-c", program, str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
    assert process.returncode == 0


# What is read never ends, so a call that ends does so before its work is done.
_ENDLESS = """
import itertools, signal, sys
import pyarrow as pa
import idmatch
signal.signal(signal.SIGINT, signal.default_int_handler)

def batches():
    for n in itertools.count():
        if n == 20:
            print("started", flush=True)
        ids = [f"i{n}-{k}" for k in range(1_000)]
        dates = pa.array([NOON] * len(ids), pa.timestamp("ms", "UTC"))
        yield pa.record_batch([pa.array(ids), pa.array(ids), dates], schema)

NOON = 1_770_000_000_000
schema = pa.schema(
    {"id": pa.string(), "partner_id": pa.string(), "seen_at": pa.timestamp("ms", "UTC")}
)
source = pa.RecordBatchReader.from_batches(schema, batches())
store = idmatch.open(sys.argv[1])
table = store.table("many")
try:
    WORK
except KeyboardInterrupt:
    print("interrupted", table.verify(), table.stats().rows, flush=True)
"""


def _interrupted(program: str, store: Path) -> str:
    """What a program prints that gets SIGINT when it says that it has started."""
    command = [sys.executable, "-c", program, str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 0
    return rest


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A store with a table of 200,000 rows, more than the buffer of a FIFO takes."""
    ids = pa.array([f"i{n}" for n in range(200_000)])
    dates = pa.array([NOON] * len(ids), pa.timestamp("ms", "UTC"))
    with idmatch.open(tmp_path / "store") as store:
        table = store.create_table("many")
        table.load(pa.table({"id": ids, "partner_id": ids, "seen_at": dates}))
    return tmp_path / "store"


@pytest.mark.parametrize(
    "work",
    [
        "table.load(source)",
        "table.load(source, replace=True)",
        "table.erase_from(source, columns=['id'])",
        "table.match(source, column='id')",
        "table.match(source, column='id', carry=['seen_at as at'], how='left')",
        "table.match(source, column='id', then=['many,by=partner-id'])",
    ],
)
def test_ctrl_c_ends_what_reads_without_end(many: Path, work: str) -> None:
    ended = _interrupted(_ENDLESS.replace("WORK", work), many)
    assert ended == "interrupted [] 200000\n"


def test_ctrl_c_ends_upserts_without_end(many: Path) -> None:
    ended = _interrupted(_ENDLESS.replace("WORK", "table.upsert(source)"), many)
    # Batches of 100,000 rows were upserted whole, or not at all.
    name, problems, rows = ended.split()
    assert (name, problems, int(rows) % 100_000) == ("interrupted", "[]", 0)


# The reader takes some bytes and no more, or there is none.
_BLOCKED = """
import os, signal, sys, threading
import idmatch
signal.signal(signal.SIGINT, signal.default_int_handler)
table = idmatch.open(sys.argv[1]).table("many")
rows = table.match(table.scan(), column="id") if MATCHED else table.scan()
fifo = f"{sys.argv[1]}.FORMAT"
os.mkfifo(fifo)

def read():
    if HAS_READER:
        reader.append(os.open(fifo, os.O_RDONLY))
        os.read(reader[0], 10)
    print("started", flush=True)

reader = []
# Kept: where it were freed, its callback of a weak reference would swallow an interrupt.
thread = threading.Thread(target=read)
try:
    thread.start()
    rows.write(fifo)
except KeyboardInterrupt:
    print("interrupted", table.verify(), flush=True)
"""


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl", "arrow", "csv.gz"])
def test_ctrl_c_ends_a_write_whose_reader_waits(many: Path, format: str) -> None:
    program = _BLOCKED.replace("FORMAT", format).replace("HAS_READER", "True")
    assert _interrupted(program.replace("MATCHED", "False"), many) == "interrupted []\n"


@pytest.mark.parametrize("is_matched", ["True", "False"])
def test_ctrl_c_ends_a_write_without_a_reader(many: Path, is_matched: str) -> None:
    program = _BLOCKED.replace("FORMAT", "csv").replace("HAS_READER", "False")
    assert _interrupted(program.replace("MATCHED", is_matched), many) == "interrupted []\n"
