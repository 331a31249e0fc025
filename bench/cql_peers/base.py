"""What the benchmark on servers asks of every system that is driven from Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

IN_FLIGHT = 512  # requests of one row each
REQUEST_SECONDS = 30.0  # how long one is waited for
START_MILLIS = 1_735_689_600_000  # 2025-01-01: sums of dates count from here

_ONE_ROW = Path(__file__).with_name("one_row.cql")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tables are, and how large a table is to be."""

    address: str
    keyspace: str
    rows: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that every system has to find: rows, and the sum of their dates in
    milliseconds.

    The sum needs every row: no system can answer without receiving all.
    """

    rows: int
    dates: int


class NotAsked(Exception):
    """A system does not do this."""


class CqlPeer(ABC):
    """A client of the servers. What it does in `__init__` is not timed."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def version(self) -> str:
        """The version that is measured."""

    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """What was chosen, for the page."""

    @abstractmethod
    def match(self, population: Path) -> Answer:
        """Finds the rows of all ids of a Parquet file."""

    def make(self) -> None:
        """Makes empty tables in a keyspace that is not there yet."""
        raise NotAsked

    def load(self, files: Sequence[Path]) -> None:
        """Loads Parquet files into the empty tables, both directions, every row acknowledged."""
        raise NotAsked

    def lookup(self, key: str) -> int:
        """Asks for all rows of one id, and returns their number."""
        raise NotAsked

    def plan(self) -> list[dict[str, str | int]]:
        """How the last match was read; empty where a system has one way."""
        return []

    def close(self) -> None:  # noqa: B027
        """Closes connections."""


def one_row_statements(keyspace: str) -> list[str]:
    """What makes the tables of one row a partition, for all who have no tables of their own."""
    text = _ONE_ROW.read_text().replace("$keyspace", keyspace)
    return [statement.strip() for statement in text.split(";") if statement.strip()]
