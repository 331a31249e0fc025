"""RocksDB, through the `db_bench` of Debian's `rocksdb-tools`: random keys in batches of 100.

It answers a simpler question than the others: every key is there, keys and values have the size of
an id and of a partner id with its date, nothing is decoded from Parquet, and nothing is verified.
It is a floor for what a key-value store needs, not a system that gives a count.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sampling import Peak, Sampler, private_bytes
from units import directory_bytes

_KEY_BYTES = 32
_VALUE_BYTES = 27  # 19 digits and a date of 8 bytes
_BATCH = 100
BYTES_PER_ROW = 75  # on disk, with room to spare


class RocksDbFailed(Exception):
    """db_bench is not there or did not work; the text says which."""


@dataclass(frozen=True)
class RocksDb:
    """A RocksDB of `rows` rows in `directory`."""

    directory: Path
    rows: int
    threads: int

    def measure(self, keys: int, runs: int) -> dict[str, object]:
        """Fills the store, reads `keys` keys once to warm up and then `runs` times; the store is
        removed afterwards.
        """
        if not shutil.which("db_bench"):
            raise RocksDbFailed("db_bench is not installed: apt-get install rocksdb-tools")
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        try:
            _, fill_seconds, _ = self._run("fillseq", threads=1, extra=["--disable_wal=1"])
            size = directory_bytes(self.directory)
            reading = [
                f"--reads={keys // self.threads}",
                f"--batch_size={_BATCH}",
                "--use_existing_db=1",
                "--readonly=1",
            ]
            measured = [
                self._run("multireadrandom", self.threads, reading) for _ in range(runs + 1)
            ][1:]
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
        return {
            "rows": self.rows,
            "keys": keys,
            "batch": _BATCH,
            "threads": self.threads,
            "store_bytes": size,
            "fill_seconds": fill_seconds,
            "seconds": [seconds for _, seconds, _ in measured],
            "private_bytes": max(peak for _, _, peak in measured),
            "version": measured[0][0],
            "assertions": (
                "Debian's build has assertions enabled, which db_bench itself calls unnecessarily"
                " slow"
            ),
        }

    def _run(self, benchmark: str, threads: int, extra: list[str]) -> tuple[str, float, int]:
        """Version, seconds and peak memory of one run of db_bench."""
        command = [
            "db_bench",
            f"--benchmarks={benchmark}",
            f"--db={self.directory}",
            f"--num={self.rows}",
            f"--threads={threads}",
            f"--key_size={_KEY_BYTES}",
            f"--value_size={_VALUE_BYTES}",
            "--compression_type=none",
            "--bloom_bits=10",
            f"--cache_size={8 * 10**9}",
            *extra,
        ]
        peak = Peak()
        with (
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as process,
            Sampler(lambda: peak.see(private_bytes(process.pid)), 0.02),
        ):
            output, _ = process.communicate()
        line = re.search(rf"{benchmark}\s*:.*?([0-9.]+) seconds", output)
        version = re.search(r"RocksDB:\s+version ([0-9.]+)", output)
        if process.returncode or not line:
            raise RocksDbFailed(f"db_bench ended with status {process.returncode}: {output[-500:]}")
        return version.group(1) if version else "unknown", float(line.group(1)), peak.value
