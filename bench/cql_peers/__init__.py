"""The systems of the benchmark on servers that are driven from Python, one module each.

A module is imported only in a process that runs it, in the virtual environment that has what it
needs: `cassandra-driver`, Spark and idmatch are never in one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cql_peers.base import CqlPeer

_MODULES = {
    "idmatch": "cql_peers.idmatch_store",
    "pyspark": "cql_peers.idmatch_spark",
    "dask": "cql_peers.dask_driver",
    "spark": "cql_peers.spark",
    "spark-scan": "cql_peers.spark",
}


def peer_class(name: str) -> type[CqlPeer]:
    """The class of the peer called `name`; ImportError where a package is missing."""
    found: type[CqlPeer] = importlib.import_module(_MODULES[name]).PEERS[name]
    return found
