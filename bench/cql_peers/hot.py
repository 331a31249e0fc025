"""A hot key: its values follow a rule, so its newest ones are known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

KEY = "hot"
_OLDEST_MILLIS = 1_759_276_800_000  # 2025-10-01
_SPAN_MILLIS = 390 * 86_400_000
_STRIDE = 999_983  # a prime, so that dates of neighbours are far apart and no two are the same
_PARTNER_IDS_FROM = 10**18


def rows(values: int) -> pa.Table:
    """The hot key with `values` partner ids, each seen at another time."""
    dates = _OLDEST_MILLIS + _order(values) * _step(values)
    partner_ids = (np.arange(values) + _PARTNER_IDS_FROM).astype(str)
    return pa.table(
        {
            "id": pa.repeat(KEY, values),
            "partner_id": pa.array(partner_ids.tolist(), pa.string()),
            "seen_at": pa.array(dates, pa.timestamp("ms", "UTC")),
        }
    )


def newest(values: int, count: int) -> list[list[str | int]]:
    """The newest `count` values: partner id and date in milliseconds, newest first."""
    order = _order(values)
    found = np.argsort(order)[::-1][:count]
    return [
        [str(int(number) + _PARTNER_IDS_FROM), int(_OLDEST_MILLIS + order[number] * _step(values))]
        for number in found
    ]


def _order(values: int) -> np.ndarray:
    return np.arange(values, dtype=np.int64) * _STRIDE % values


def _step(values: int) -> int:
    return _SPAN_MILLIS // values
