"""ClickHouse in the process (chdb), joining the Parquet files as they are."""

from __future__ import annotations

import chdb
from chdb.session import Session

from peers.base import Codec, Peer


class ClickHouseParquet(Peer):
    """The population stands on the right of the join, where ClickHouse builds its hash table: its
    better order.
    """

    def version(self) -> str:
        return (
            f"{chdb.__version__} (ClickHouse"
            f" {self._run('SELECT version()').strip().strip(chr(34))})"
        )

    def open(self) -> None:
        self.session = Session(str(self.setting.workspace / "session"))

    def count(self) -> int:
        return int(self._run(f"SELECT count(m.partner_id) {self._joined()} {self._settings()}"))

    def write(self, path: str, compression: Codec) -> None:
        self._run(f"""
            INSERT INTO FUNCTION file('{path}', Parquet,
                'id String, partner_id String, seen_at DateTime64(3, \\'UTC\\')')
            SELECT m.id, m.partner_id, m.seen_at {self._joined()}
            {self._settings()}, output_format_parquet_compression_method = '{compression}',
                use_structure_from_insertion_table_in_table_functions = 0
        """)

    def _run(self, query: str) -> str:
        if not hasattr(self, "session"):
            self.open()
        return str(self.session.query(query, "CSV"))

    def _joined(self) -> str:
        matches = "{" + ",".join(file.name for file in self.data.files) + "}"
        return (
            f"FROM file('{self.data.directory}/{matches}', Parquet) m "
            f"JOIN file('{self.data.population}', Parquet) p ON p.id = m.id"
        )

    def _settings(self) -> str:
        return (
            f"SETTINGS max_threads = {self.setting.threads}, max_memory_usage ="
            f" {self.setting.memory_bytes}"
        )


PEER = ClickHouseParquet
