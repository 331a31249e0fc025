"""A table to export, and the rows that SQL selects of it by windows."""

from datetime import timedelta

import duckdb
import pyarrow as pa
from conftest import NOON, answer_schema, observations

ROWS = observations(
    # Each pair twice, with two dates.
    *((f"i{n % 50}", f"p{n % 7}", NOON - n % 30 * timedelta(hours=12)) for n in range(700))
)
"""350 pairs of 15 days, two dates a day."""
SINCE, UNTIL = "2026-02-20T12:00:00Z", "2026-02-27T00:00:00Z"
"""Rows have both dates."""


def selected(since: str | None, until: str | None) -> pa.Table:
    """The newest dates of pairs in a window."""
    with duckdb.connect() as sql:
        sql.execute("SET TimeZone = 'UTC'")
        sql.register("input", ROWS)
        conditions = [f"seen_at >= '{since}'"] if since else []
        conditions += [f"seen_at < '{until}'"] if until else []
        rows = sql.sql(f"""
            SELECT * FROM (SELECT id, partner_id, max(seen_at) AS seen_at FROM input GROUP BY ALL)
            WHERE {" AND ".join(conditions) or "true"} ORDER BY ALL
        """)
        assert rows is not None
        table: pa.Table = rows.to_arrow_table()
    return table.cast(answer_schema("id", "partner_id"))


def window(since: str | None, until: str | None) -> list[str]:
    """The options of a command."""
    return [*(["--since", since] if since else []), *(["--until", until] if until else [])]
