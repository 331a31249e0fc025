"""Random changes of tables in two stores, which answer alike."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

import idmatch
import pyarrow as pa
from conftest import SMALL

THEN = datetime(2026, 1, 1, tzinfo=UTC)


class Twins:
    """Tables on the nodes and in a directory, which get the same changes."""

    def __init__(self, stores: tuple[idmatch.Store, idmatch.Store], prefix: str, seed: int) -> None:
        self.stores, self.random = stores, random.Random(seed)
        self.names = [f"{prefix}{n}" for n in range(4)]

    def both(self, change: Callable[[idmatch.Store], object]) -> None:
        """A change of both, which ends alike."""
        ended = []
        for store in self.stores:
            try:
                change(store)
                ended.append("")
            except (idmatch.TableNotFound, idmatch.TableExists) as error:
                ended.append(type(error).__name__)
        assert ended[0] == ended[1]

    def rows(self) -> pa.Table:
        """A few rows of few identifiers."""
        choose = self.random.randrange
        return pa.table(
            {
                "id": [f"i{choose(6)}" for _ in range(4)],
                "partner_id": [f"p{choose(6)}" for _ in range(4)],
                "seen_at": pa.array([THEN + timedelta(seconds=choose(100)) for _ in range(4)]),
            }
        )

    def step(self) -> None:
        """A random change."""
        one, other = self.random.sample(self.names, 2)
        rows, at = self.rows(), THEN + timedelta(seconds=self.random.randrange(100))
        match self.random.randrange(9):
            case 0 | 1:
                self.both(lambda store: store.create_table(one, expected_rows=64_000))
            case 2:
                self.both(lambda store: store.rename_table(one, other))
            case 3:
                self.both(lambda store: store.swap_tables(one, other))
            case 4:
                self.both(lambda store: store.drop_table(one))
            case 5 | 6:
                self.both(lambda store: store.table(one).upsert(rows))
            case 7:
                self.both(lambda store: store.table(one).load(rows))
            case _:
                self.both(lambda store: store.table(one).erase(id="i1", at=at))

    def compare(self) -> None:
        """Both have the same tables with the same rows, in both directions."""
        ours, reference = self.stores
        mine = [name for name in reference.tables() if name in self.names]
        assert [name for name in ours.tables() if name in self.names] == mine
        for name in mine:
            tables = [store.table(name) for store in self.stores]
            sides: list[tuple[Literal["id", "partner_id"], str]] = [
                ("id", "i"),
                ("partner_id", "p"),
            ]
            for side, letter in sides:
                keys = [f"{letter}{n}" for n in range(6)]
                found = [table.lookup_many(keys, by=side) for table in tables]
                assert found[0] == found[1], (name, side)


def answers_of_a_chain(store: idmatch.Store) -> list[list[str]]:
    """The rows of a chain, its unmatched rows and all rows of the table, each sorted."""
    population = pa.table({"p": ["x", "z", "?", None], "n": [1, 2, 3, 4]})
    table = store.create_table("small")
    table.load(SMALL)
    chain = table.match(
        population,
        column="p",
        by="partner_id",
        carry="all",
        how="left",
        then=["small,since=2026-02-20"],
    )
    rows = (chain, chain.unmatched(), table.scan())
    assert [len(chain), len(chain.unmatched()), chain.matched] == [4, 3, 1]
    return [sorted(map(str, one.to_arrow().to_pylist())) for one in rows]
