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
import os, resource, sys
import pyarrow as pa
import idmatch
store = idmatch.open(sys.argv[1], read_only=True)
table = store.table("many")
result = table.match(pa.table({"id": [f"i{n}" for n in range(20_000)]}))
joined = table.match(pa.table({"id": [f"i{n}" for n in range(20_000)]}), unmatched=True)
pa.set_cpu_count(1)
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
for rows in (result, joined):
    for read in (pa.table, rows.__class__.to_arrow, pa.RecordBatchReader.from_stream):
        try:
            got = read(rows)
            got = got.read_all() if hasattr(got, "read_all") else got
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
    command = [sys.executable, "-c", _WITHOUT_THREADS, str(tmp_path / "store")]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stdout == "ended\n", ran.stderr
    assert "panic" not in ran.stderr


_LONG_WORK = """
import signal, sys, time
import idmatch
signal.signal(signal.SIGINT, signal.default_int_handler)
store = idmatch.open(sys.argv[1])
table = store.table("many")
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
        "table.match(table.scan(), column='id', carry='all', how='left').to_arrow()",
        "table.scan().to_arrow()",
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
