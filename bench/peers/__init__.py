"""The systems: one module each, all with the interface of `peers.base.Peer`.

A system is imported only in the process that runs it, so that one which is not installed stops
only itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peers.base import Peer

_MODULES = {
    "idmatch": "peers.idmatch_store",
    "duckdb": "peers.duckdb_parquet",
    "duckdb-native": "peers.duckdb_native",
    "polars": "peers.polars_parquet",
    "clickhouse": "peers.clickhouse_parquet",
}

TITLES = {
    "idmatch": "idmatch",
    "duckdb": "DuckDB on Parquet",
    "duckdb-native": "DuckDB, its own table",
    "polars": "Polars on Parquet",
    "clickhouse": "ClickHouse (chdb) on Parquet",
    "rocksdb": "RocksDB MultiGet",
}


def peer_class(name: str) -> type[Peer]:
    """The class of the system called `name`."""
    found: type[Peer] = importlib.import_module(_MODULES[name]).PEER
    return found
