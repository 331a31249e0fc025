"""The memory of workers: schedulers end one that takes too much, and count mapped files."""

import subprocess
import sys
from pathlib import Path

import idmatch
import pyarrow as pa
import pytest
from conftest import NOON

_ROWS = 2_000_000
_PROGRAM = """
import sys, idmatch, pyarrow as pa
from idmatch._places import opened, place_of

def mapped():
    # The bytes of segments in the memory of this process.
    total, is_segment = 0, False
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0]:
            is_segment = line.rstrip().endswith(".seg")
        elif is_segment and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total

path, how = sys.argv[1:]
store = opened(place_of(path)) if how == "worker" else idmatch.open(path)
table = store.table("crm")
before = mapped()
found = table.match(pa.table({"id": [f"{n:032x}" for n in range(0, 2_000_000, 2)]})).to_arrow()
rows = pa.table(table.scan()).num_rows
print(found.num_rows, rows, mapped() - before)
"""


@pytest.mark.slow
def test_a_worker_gives_back_what_it_has_read(tmp_path: Path) -> None:
    with idmatch.open(tmp_path / "store") as store:
        ids = pa.array([f"{number:032x}" for number in range(_ROWS)])
        store.create_table("crm").load(pa.table({"id": ids, "partner_id": ids}), dated=NOON)
        size = store.table("crm").stats().bytes

    def measured(how: str) -> int:
        command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "store"), how]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        rows, scanned, mapped = map(int, done.stdout.split())
        assert (rows, scanned) == (_ROWS // 2, _ROWS)
        return mapped

    # Both directions are files; one of them is read.
    assert measured("process") > size // 3
    # A fault enters 64 KiB, also of what was given back: some at each end of a hash partition.
    assert measured("worker") < size // 5
