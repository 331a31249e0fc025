"""The peers of the live write benchmark: one module each, all with the interface of
`live_peers.base.LivePeer`.

A peer is imported only in a process that runs it, so that one which is not installed stops only
itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from live_peers.base import LivePeer

_MODULES = {
    "idmatch": "live_peers.idmatch_store",
    "rocksdb": "live_peers.rocksdb",
    "sqlite": "live_peers.sqlite",
    "lmdb": "live_peers.lmdb_store",
    "postgresql": "live_peers.postgresql",
    "redis": "live_peers.redis_server",
}

TITLES = {
    "idmatch": "idmatch, from Python",
    "rocksdb": "RocksDB",
    "sqlite": "SQLite",
    "lmdb": "LMDB",
    "postgresql": "PostgreSQL",
    "redis": "Redis",
}


def peer_class(name: str) -> type[LivePeer]:
    """The class of the peer called `name`; ImportError where a package is missing."""
    found: type[LivePeer] = importlib.import_module(_MODULES[name]).PEER
    return found
