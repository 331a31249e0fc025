"""idmatch itself, through its Python package: an address is all that tells it of servers.

Settings: those that it starts with, and the number of rows that its table is made for, as its
documentation asks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import idmatch
import pyarrow as pa
import pyarrow.compute as pc

from cql_peers import hot
from cql_peers.base import START_MILLIS, Answer, CqlPeer, Place

TABLE = "matches"


class Idmatch(CqlPeer):
    """A store on servers with one table."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._plan: list[dict[str, str | int]] = []
        self._store = idmatch.open(self._address())
        self._table = self._store.table(TABLE) if TABLE in self._store.tables() else None

    def version(self) -> str:
        return idmatch.__version__

    def settings(self) -> Mapping[str, str]:
        return {
            "tables": "its own, see spec/cql: four thousand rows a partition",
            "expected_rows": str(self.place.rows),
            "all else": "as it comes",
        }

    def make(self) -> None:
        self._table = self._store.create_table(TABLE, keep="last", expected_rows=self.place.rows)

    def load(self, files: Sequence[Path]) -> None:
        report = self._known.load([str(file) for file in files])
        if report.rejected:
            raise RuntimeError(f"{report.rejected} rows were rejected")

    def match(self, population: Path) -> Answer:
        result = self._known.match(str(population), column="id")
        self._plan = [step._asdict() for step in result.plan]
        answer = _answer(result.to_arrow())
        if answer.rows != result.rows:
            raise RuntimeError(f"{answer.rows} rows came of {result.rows}")
        return answer

    def plan(self) -> list[dict[str, str | int]]:
        return self._plan

    def lookup(self, key: str) -> int:
        return self._known.partner_ids(key).num_rows

    def close(self) -> None:
        self._store.close()

    def load_hot(self, values: int) -> None:
        """Makes a table with a key of `values` values."""
        with idmatch.open(self._address()) as store:
            table = store.create_table(hot.KEY, keep="last", expected_rows=values)
            table.load(hot.rows(values))

    def newest(self, count: int) -> list[list[str | int]]:
        """The newest values of that key, with their dates in milliseconds."""
        found = self._store.table(hot.KEY).partner_ids(hot.KEY, limit=count)
        dates: list[Any] = found["seen_at"].cast(pa.int64()).to_pylist()
        partner_ids: list[Any] = found["partner_id"].to_pylist()
        return [[value, date] for value, date in zip(partner_ids, dates, strict=True)]

    @property
    def _known(self) -> idmatch.Table:
        if self._table is None:
            raise RuntimeError(f"there is no table {TABLE} in {self.place.keyspace}")
        return self._table

    def _address(self) -> str:
        place = self.place
        address = f"cql://{place.address}/{place.keyspace}?replication=1"
        return f"{address}&match_reads={os.environ.get('BENCH_MATCH_READS', 'auto')}"


def _answer(found: pa.Table) -> Answer:
    dates = pc.subtract(found["seen_at"].cast(pa.int64()), START_MILLIS)
    return Answer(found.num_rows, pc.sum(dates).as_py() or 0)


PEERS = {"idmatch": Idmatch}
