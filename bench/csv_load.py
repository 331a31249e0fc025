"""What a load of CSV costs beside pyarrow's reading of the file and a load of its rows from memory.

    python bench/csv_load.py --rows 10M

The rows are those of `data.py`. Each round reads the file with pyarrow, loads the rows from memory,
and loads the file, each into a new store. The figure is the median of the file's load over the sum
of the other two; the file is in the page cache.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import data as data_sets
import idmatch
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from progress import log
from units import parse_count, show_bytes, show_count, show_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from idmatch._types import Source

_ROUNDS = 3


def main() -> int:
    """Measures, and prints each round and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=parse_count, default=10_000_000)
    parser.add_argument("--dir", type=Path, default=data_sets.DEFAULT_DIRECTORY)
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    made = data_sets.prepare(options.dir, options.rows)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        path, store = Path(folder) / "rows.csv", Path(folder) / "store"
        rows = pa.concat_tables([pq.read_table(file) for file in made.files])
        pc.write_csv(rows, path)
        log(f"{show_count(rows.num_rows)} rows, {show_bytes(path.stat().st_size)} of CSV")
        text = pa.table({name: rows[name].cast(pa.string()) for name in rows.column_names})
        del rows
        ratios = []
        for number in range(1, _ROUNDS + 1):
            read = _seconds(lambda: pc.read_csv(path))
            memory = _load(store, text)
            file = _load(store, path)
            ratios.append(file / (read + memory))
            log(
                f"round {number}: pyarrow reads in {show_seconds(read)}, a load from memory takes "
                f"{show_seconds(memory)}, of the file {show_seconds(file)}"
            )
    print(f"{statistics.median(ratios):.3f} ({min(ratios):.3f} - {max(ratios):.3f})")
    return 0


def _load(place: Path, source: Source) -> float:
    shutil.rmtree(place, ignore_errors=True)
    with idmatch.open(place) as store:
        table = store.create_table("rows")
        return _seconds(lambda: table.load(source, columns=("id", "partner_id", "seen_at")))


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
