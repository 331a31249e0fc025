"""The store that jobs of Dask and Spark match: a table that keeps every date, as a join of the
files gives them. It may be kept for the next bench: a load takes longer than what is measured.
"""

from __future__ import annotations

import time
from pathlib import Path

import idmatch
from data import DataSet, prepare_population
from progress import log
from units import show_seconds

TABLE = "t"
_MATCHING_PERCENT = 60


def population_of(data: DataSet, rows: int) -> Path:
    """A population of so many ids, of which 60 % are in the table."""
    if rows == data.population_rows:
        return data.population
    return prepare_population(data, rows, _MATCHING_PERCENT)


def prepare_store(path: Path, data: DataSet) -> None:
    """Loads all files into the table, unless it has their rows."""
    began = time.perf_counter()
    with idmatch.open(path) as store:
        if TABLE not in store.tables():
            store.create_table(TABLE, keep="all")
        table = store.table(TABLE)
        rows = table.stats().rows
        if rows == 0:
            table.load([str(file) for file in data.files])
            log(f"loaded in {show_seconds(time.perf_counter() - began)}")
        elif rows != data.rows:
            raise ValueError(f"{path} has {rows:,} rows, not {data.rows:,}; name another --store")
