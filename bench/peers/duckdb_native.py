"""DuckDB on its own table, with the ids as VARCHAR."""

from __future__ import annotations

from peers.base import Setting
from peers.duckdb_parquet import DuckDbParquet


class DuckDbNative(DuckDbParquet):
    """The match rows are loaded into a database file once; the population stays Parquet."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.database = str(setting.workspace / "matches.duckdb")

    def prepare(self) -> None:
        self.open()
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute(
            f"CREATE TABLE matches AS SELECT id, partner_id, seen_at FROM {super().matches()}"
        )
        self.connection.execute("CHECKPOINT")
        self.connection.close()

    def inputs(self) -> list[str]:
        return [self.database, str(self.data.population)]

    def matches(self) -> str:
        return "matches"


PEER = DuckDbNative
