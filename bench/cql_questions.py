"""Questions for the systems on servers, with answers computed from the data alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import data as data_sets
from cql_peers.base import START_MILLIS, Answer
from data import DataSet

# Populations, in percent of the table's rows.
PERCENTAGES = ("1", "10", "80")
_WARM_UP_PERCENT = 10
_ALL = 100


@dataclass(frozen=True)
class Question:
    """A population, and what has to be found."""

    name: str
    file: Path
    rows: int
    expected: Answer


@dataclass(frozen=True)
class Questions:
    """All that is asked of one data set."""

    data: DataSet
    matches: tuple[Question, ...]
    lookups: Question
    warm_up: Question

    def loaded(self, files: Sequence[Path]) -> Answer:
        """What a table has to have after these files were loaded."""
        return _asked(f"SELECT seen_at FROM ({_pairs(files)})")


def prepare(
    directory: Path, rows: int, seed: int, matching: int, lookups: int, percentages: Sequence[str]
) -> Questions:
    """Makes the data and the populations under `directory`, or reuses them."""
    data = data_sets.prepare(directory, rows, seed)
    matches = tuple(
        _question(data, percent, rows * int(percent) // 100, matching) for percent in percentages
    )
    warm_up = _question(data, "warm-up", rows * _WARM_UP_PERCENT // 100, matching)
    return Questions(data, matches, _question(data, "lookups", lookups, _ALL), warm_up)


def _question(data: DataSet, name: str, rows: int, matching: int) -> Question:
    file = data_sets.prepare_population(data, rows, matching)
    expected = _asked(
        f"SELECT seen_at FROM read_parquet('{file}') JOIN ({_pairs(data.files)}) USING (id)"
    )
    return Question(name, file, rows, expected)


def _pairs(files: Sequence[Path]) -> str:
    """SQL for the rows of a table: each pair once, with its newest date."""
    listed = ", ".join(f"'{file}'" for file in files)
    return (
        "SELECT id, partner_id, max(seen_at) AS seen_at "
        f"FROM read_parquet([{listed}]) GROUP BY id, partner_id"
    )


def _asked(query: str) -> Answer:
    import duckdb

    (found,) = duckdb.execute(
        f"SELECT count(*), coalesce(sum(epoch_ms(seen_at) - {START_MILLIS}), 0) FROM ({query})"
    ).fetchall()
    return Answer(int(found[0]), int(found[1]))
