"""The answers that DuckDB gives to the questions of a table, worked out with SQL."""

from typing import Any

import duckdb
import pyarrow as pa

Rows = list[tuple[Any, ...]]
"""Answers; dates are milliseconds since 1970."""


class Oracle:
    """A table of observations in DuckDB, with the rules of idmatch written as SQL."""

    def __init__(self, observations: pa.Table, keep: str) -> None:
        self._sql = duckdb.connect()
        self._sql.execute("SET threads = 2")
        self._sql.register("input", observations)
        newest = "max(epoch_ms(seen_at))" if keep == "last" else "epoch_ms(seen_at)"
        self._sql.execute(f"""
            CREATE TABLE observations AS
            SELECT DISTINCT id, partner_id, {newest} AS seen
            FROM input {"GROUP BY id, partner_id" if keep == "last" else ""}
        """)

    def answers(self, by: str, since: int | None, until: int | None) -> dict[str, Rows]:
        """For every key of a side, its answers in a window: (answer, date), in order."""
        other = other_side(by)
        grouped: dict[str, Rows] = {}
        for key, answer, seen in self._query(
            f"""
            SELECT {by}, {other}, max(seen) AS seen FROM observations WHERE {_inside(since, until)}
            GROUP BY id, partner_id ORDER BY {by}, seen DESC, encode({other})
            """
        ):
            grouped.setdefault(key, []).append((answer, seen))
        return grouped

    def histories(self) -> dict[tuple[str, str], list[int]]:
        """The dates of every pair, newest first."""
        found = self._query(
            "SELECT id, partner_id, list(seen ORDER BY seen DESC) FROM observations GROUP BY ALL"
        )
        return {(id, partner_id): dates for id, partner_id, dates in found}

    def match(
        self, population: pa.Table, by: str, pick: str, since: int | None, until: int | None
    ) -> tuple[tuple[int, int, int], Rows]:
        """(population, matched, rows) and the rows, sorted, of a population with one column."""
        other = other_side(by)
        self._sql.register("population", population)
        rank = f"row_number() OVER (PARTITION BY {by} ORDER BY seen DESC, encode({other}))"
        self._sql.execute(f"""
            CREATE OR REPLACE TABLE matched AS
            WITH pairs AS (
                SELECT {by}, {other}, max(seen) AS seen
                FROM observations
                WHERE {_inside(since, until)} GROUP BY id, partner_id
            ), picked AS (
                SELECT *, {rank} AS rank FROM pairs
            ), numbered AS (SELECT row_number() OVER () AS row, {by} FROM population)
            SELECT row, {by}, {other}, seen FROM numbered JOIN picked USING ({by})
            {"WHERE rank = 1" if pick == "latest" else ""}
        """)
        counts = self._query(
            "SELECT (SELECT count(*) FROM population), count(DISTINCT row), count(*) FROM matched"
        )[0]
        return counts, self._query(f"SELECT {by}, {other}, seen FROM matched ORDER BY ALL")

    def _query(self, sql: str) -> Rows:
        return self._sql.execute(sql).fetchall()


def other_side(by: str) -> str:
    """The column that answers questions by this one."""
    return "partner_id" if by == "id" else "id"


def _inside(since: int | None, until: int | None) -> str:
    lower = "true" if since is None else f"seen >= {since}"
    upper = "true" if until is None else f"seen < {until}"
    return f"{lower} AND {upper}"
