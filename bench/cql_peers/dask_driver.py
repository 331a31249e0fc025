"""Dask with the Python `cassandra-driver`: partitions of a population, and in each of them
`execute_concurrent_with_args`, one request for each id.

Settings: as many worker processes as there are processors, because the driver is bound to one;
512 requests in flight in each; rows as tuples, which is its cheapest form; prepared statements.
A worker keeps its session from one run to the next. What comes back to Dask are counts and sums
of dates, not the rows, which would have to be pickled.

Load: one partition for each match file, one INSERT a row and direction.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import cassandra
import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from cassandra import ConsistencyLevel
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    PreparedStatement,
    Session,
)
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import RoundRobinPolicy, TokenAwarePolicy
from cassandra.query import tuple_factory
from dask.distributed import Client, LocalCluster

from cql_peers.base import (
    IN_FLIGHT,
    REQUEST_SECONDS,
    START_MILLIS,
    Answer,
    CqlPeer,
    Place,
    one_row_statements,
)

_SELECT = "SELECT partner_id, seen_at FROM {}.by_id WHERE id = ?"
_INSERTS = (
    "INSERT INTO {}.by_id (id, partner_id, seen_at) VALUES (?, ?, ?) USING TIMESTAMP ?",
    "INSERT INTO {}.by_partner_id (id, partner_id, seen_at) VALUES (?, ?, ?) USING TIMESTAMP ?",
)
_META = {"rows": "int64", "dates": "int64"}
# Few, because 512 requests in flight run dry at the end of each.
_CHUNKS_PER_WORKER = 2
_START = pd.Timestamp(START_MILLIS, unit="ms").to_pydatetime()


class DaskDriver(CqlPeer):
    """A Dask cluster of processes on this machine, each with a session."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._workers = os.cpu_count() or 1
        self._cluster = LocalCluster(
            n_workers=self._workers, threads_per_worker=1, dashboard_address=None
        )
        self._client = Client(self._cluster)

    def version(self) -> str:
        return f"{dask.__version__}, cassandra-driver {cassandra.__version__}"

    def settings(self) -> Mapping[str, str]:
        return {
            "workers": f"{self._workers} processes, {IN_FLIGHT} requests in flight in each",
            "event loop": Cluster.connection_class.__name__,
            "compiled": "yes" if _is_compiled() else "no",
        }

    def make(self) -> None:
        session = _session(self.place.address)
        for statement in one_row_statements(self.place.keyspace):
            session.execute(statement)

    def load(self, files: Sequence[Path]) -> None:
        parts = dd.from_map(_load, list(files), place=self.place, meta=_META)
        self._sum(parts)

    def match(self, population: Path) -> Answer:
        groups = list(range(pq.ParquetFile(population).num_row_groups))
        chunks = min(len(groups), self._workers * _CHUNKS_PER_WORKER)
        parts = [groups[number::chunks] for number in range(chunks)]
        look_up = partial(_look_up, population=population)
        found = self._sum(dd.from_map(look_up, parts, place=self.place, meta=_META))
        return Answer(int(found["rows"]), int(found["dates"]))

    def lookup(self, key: str) -> int:
        session, statement = _prepared(self.place, _SELECT)
        return len(session.execute(statement, (key,)).all())

    def close(self) -> None:
        self._client.close()
        self._cluster.close()

    def _sum(self, parts: dd.DataFrame) -> pd.Series:
        return parts.sum().compute()


def _look_up(groups: list[int], population: Path, place: Place) -> pd.DataFrame:
    """The matches of some row groups of the population, counted."""
    ids = pq.ParquetFile(population).read_row_groups(groups, columns=["id"])["id"].to_pylist()
    session, statement = _prepared(place, _SELECT)
    rows = dates = 0
    for result in execute_concurrent_with_args(
        session,
        statement,
        [(key,) for key in ids],
        concurrency=IN_FLIGHT,
        raise_on_first_error=True,
        results_generator=True,
    ):
        for _partner_id, seen_at in result.result_or_exc:
            rows += 1
            dates += _millis(seen_at)
    return pd.DataFrame({"rows": [rows], "dates": [dates]})


def _load(file: Path, place: Place) -> pd.DataFrame:
    """Inserts the rows of a match file."""
    columns = pq.read_table(file, columns=["id", "partner_id", "seen_at"])
    ids, partner_ids = columns["id"].to_pylist(), columns["partner_id"].to_pylist()
    millis: list[Any] = columns["seen_at"].cast(pa.int64()).to_pylist()
    rows = [
        (key, value, date, date * 1000)
        for key, value, date in zip(ids, partner_ids, millis, strict=True)
    ]
    for insert in _INSERTS:
        session, statement = _prepared(place, insert)
        for _ in execute_concurrent_with_args(
            session,
            statement,
            rows,
            concurrency=IN_FLIGHT,
            raise_on_first_error=True,
            results_generator=True,
        ):
            pass
    return pd.DataFrame({"rows": [len(rows)], "dates": [0]})


def _millis(seen_at: datetime) -> int:
    passed: timedelta = seen_at - _START
    return (passed.days * 86_400 + passed.seconds) * 1000 + passed.microseconds // 1000


@cache
def _session(address: str) -> Session:
    """The session of this process."""
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        request_timeout=REQUEST_SECONDS,
        row_factory=tuple_factory,
    )
    return Cluster([address], execution_profiles={EXEC_PROFILE_DEFAULT: profile}).connect()


@cache
def _prepared(place: Place, statement: str) -> tuple[Session, PreparedStatement]:
    session = _session(place.address)
    return session, session.prepare(statement.format(place.keyspace))


def _is_compiled() -> bool:
    try:
        from cassandra import cmurmur3, row_parser  # noqa: F401
    except ImportError:
        return False
    return True


PEERS = {"dask": DaskDriver}
