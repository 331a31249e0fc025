"""What the tests of Dask share: observations and populations."""

import os
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
from conftest import DAY, NOON

OBSERVED = pd.DataFrame(
    {
        "id": [f"i{n % 300}" for n in range(500)],
        "partner_id": [f"p{n}" for n in range(500)],
        "seen_at": [NOON - n * DAY for n in range(500)],
    }
)
"""Of 300 ids, 200 have two partner IDs."""

POPULATION = pd.DataFrame(
    {
        "cookie": [f"i{n}" for n in range(100, 600, 2)] + [None, "i100"],
        "score": [n / 4 for n in range(252)],
        "label": [f"label {n}" if n % 3 else None for n in range(252)],
        "unused": [object()] * 252,
    }
)


def population(partitions: int = 5, *without: str) -> dd.DataFrame:
    """POPULATION as a frame of Dask."""
    return dd.from_pandas(POPULATION.drop(columns=["unused", *without]), npartitions=partitions)


def rows(frame: pd.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    """The rows of these columns, sorted; what is missing is None."""
    if columns:
        frame = frame[list(columns)]
    values = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return sorted(values, key=repr)


def merged(how: Any = "inner") -> pd.DataFrame:
    """POPULATION and its observations, by pandas, where nothing goes with nothing."""
    return POPULATION.merge(OBSERVED, how=how, left_on="cookie", right_on="id")


def die_once(partition: pd.DataFrame, mark: str) -> pd.DataFrame:
    """The partition; on the last one the process dies, but not a second time."""
    if "p499" in list(partition["partner_id"]) and not os.path.exists(mark):
        Path(mark).touch()
        os._exit(1)
    return partition
