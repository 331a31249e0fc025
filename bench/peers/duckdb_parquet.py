"""DuckDB, joining the Parquet files as they are."""

from __future__ import annotations

import sys

import duckdb

from peers.base import Codec, Peer


class DuckDbParquet(Peer):
    """Both sides are read from Parquet at each query; DuckDB's cache of file contents is on, as it
    is by default.
    """

    database = ":memory:"

    def version(self) -> str:
        return duckdb.__version__

    def open(self) -> None:
        self.connection = duckdb.connect(
            self.database,
            config={
                "threads": self.setting.threads,
                "memory_limit": f"{self.setting.memory_bytes // 10**6}MB",
                "temp_directory": str(self.setting.workspace / "spill"),
            },
        )

    def count(self) -> int:
        (count,) = self.connection.execute(self._question()).fetchall()[0]
        return int(count)

    def typed(self) -> list[str]:
        # Without its progress bar, which it prints before the number.
        settings = {
            "threads": self.setting.threads,
            "memory_limit": f"{self.setting.memory_bytes // 10**6}MB",
        }
        code = (
            f"import duckdb; database = duckdb.connect({self.database!r}, config={settings!r});"
            " database.execute('SET enable_progress_bar = false');"
            f" print(database.execute({self._question()!r}).fetchall()[0][0])"
        )
        return [sys.executable, "-c", code]

    def write(self, path: str, compression: Codec) -> None:
        # Rows may come in any order from every system; without this DuckDB would keep the
        # input's.
        self.connection.execute("SET preserve_insertion_order = false")
        codec = "uncompressed" if compression == "none" else compression
        self.connection.execute(f"""
            COPY (
                SELECT m.id, m.partner_id, m.seen_at
                FROM {self._population()} p JOIN {self.matches()} m ON p.id = m.id
            )
            TO '{path}' (FORMAT parquet, COMPRESSION {codec})
        """)

    def matches(self) -> str:
        """The match rows, as SQL."""
        files = ", ".join(f"'{file}'" for file in self.data.files)
        return f"read_parquet([{files}])"

    def _question(self) -> str:
        return (
            f"SELECT count(m.partner_id) FROM {self._population()} p"
            f" JOIN {self.matches()} m ON p.id = m.id"
        )

    def _population(self) -> str:
        return f"read_parquet('{self.data.population}')"


PEER = DuckDbParquet
