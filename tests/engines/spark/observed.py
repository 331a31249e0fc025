"""Rows for the tests of Spark, and what a table has of them."""

import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa

START = datetime(2025, 6, 1, tzinfo=UTC)
_IDS = 3_000
_PARTNER_IDS = 2_000
_OBSERVATIONS = 12_000
_MILLISECONDS = 400 * 24 * 3600 * 1000

Pair = tuple[str, str]


def _made() -> list[tuple[str, str, datetime]]:
    chance = random.Random(7)
    pairs = [
        (f"id-{chance.randrange(_IDS)}", f"p-{chance.randrange(_PARTNER_IDS)}")
        for _ in range(_OBSERVATIONS * 3 // 4)
    ]
    # A quarter of the observations is of a pair that was seen before or after.
    pairs += chance.choices(pairs, k=_OBSERVATIONS - len(pairs))
    return [
        (*pair, START + timedelta(milliseconds=chance.randrange(_MILLISECONDS))) for pair in pairs
    ]


ROWS = _made()
OBSERVED = pa.table(
    {
        "id": [id for id, _, _ in ROWS],
        "partner_id": [partner_id for _, partner_id, _ in ROWS],
        "seen_at": pa.array([at for _, _, at in ROWS], pa.timestamp("ms", "UTC")),
    }
)

NEWEST: dict[Pair, datetime] = {}
"""What a table that keeps the last date has."""
for _id, _partner_id, _at in ROWS:
    NEWEST[_id, _partner_id] = max(_at, NEWEST.get((_id, _partner_id), _at))


def within(since: datetime | None, until: datetime | None) -> list[tuple[str, str, datetime]]:
    """The rows of that table with a date in a window, sorted."""
    return sorted(
        (*pair, at)
        for pair, at in NEWEST.items()
        if (since is None or at >= since) and (until is None or at < until)
    )
