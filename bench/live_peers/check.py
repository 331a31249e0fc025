"""Asks a peer for a sample of what was written, in both directions, and holds the answers against a
model in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from live_peers.base import Batch, Client, Found
from live_peers.rows import Keyed, Numbers, Rows, id_texts, partner_id_texts

_CHUNK_ROWS = 1_000_000
_STALE_SINGLES = 100


class WrongAnswer(Exception):
    """A peer does not have what it acknowledged, or has something else."""


@dataclass(frozen=True)
class Acknowledged:
    """How many rows of one writer in one phase the peer acknowledged."""

    phase: int
    writer: int
    rows: int


class Model:
    """What a right store has for a sample of ids and as many partner ids: a third of the fill, the
    rest of the writes.
    """

    def __init__(self, rows: Rows, written: list[Acknowledged], keys: int) -> None:
        self._rows = rows
        self._written = [part for part in written if part.rows]
        self._sample(keys)
        wanted_k, wanted_j = np.unique(self._sampled.k), np.unique(self._sampled.j)
        newest: dict[tuple[int, int], int] = {}
        for chunk in self._chunks():
            part = chunk.only(np.isin(chunk.k, wanted_k) | np.isin(chunk.j, wanted_j))
            for k, j, seen_at in zip(
                part.k.tolist(), part.j.tolist(), part.seen_at.tolist(), strict=True
            ):
                newest[k, j] = max(newest.get((k, j), 0), seen_at)
        pairs = list(newest)
        self._by_id = _grouped(
            wanted_k, [k for k, _ in pairs], [j for _, j in pairs], list(newest.values())
        )
        self._by_partner_id = _grouped(
            wanted_j, [j for _, j in pairs], [k for k, _ in pairs], list(newest.values())
        )

    def _sample(self, keys: int) -> None:
        chance = np.random.default_rng(self._rows.seed)
        of_fill = keys // 3 if self._written else keys
        parts = [self._rows.filled(chance.integers(0, self._rows.fill, of_fill, dtype=np.uint64))]
        total = sum(part.rows for part in self._written)
        left = keys - of_fill
        for part in self._written:
            share = min(left, -(-(keys - of_fill) * part.rows // total))
            rows = self._rows.written(part.phase, part.writer, 0, part.rows)
            parts.append(rows.only(chance.integers(0, part.rows, share)))
            left -= share
        self._sampled = Keyed(
            self._rows.seed,
            np.concatenate([part.k for part in parts]),
            np.concatenate([part.j for part in parts]),
            np.concatenate([part.seen_at for part in parts]),
        )

    def _chunks(self) -> Iterator[Keyed]:
        """All rows that the peer has."""
        for start in range(0, self._rows.fill, _CHUNK_ROWS):
            yield self._rows.filled(
                np.arange(start, min(start + _CHUNK_ROWS, self._rows.fill), dtype=np.uint64)
            )
        for part in self._written:
            yield self._rows.written(part.phase, part.writer, 0, part.rows)

    def write_older(self, client: Client) -> int:
        """Writes sampled pairs once more with older dates, which must change nothing; returns how
        many rows.
        """
        ids = id_texts(self._rows.seed, self._sampled.k)
        partner_ids = partner_id_texts(self._rows.seed, self._sampled.j)
        seen_at = (self._sampled.seen_at - np.uint64(1)).tolist()
        client.upsert(Batch(ids * 2, partner_ids * 2, seen_at + [date - 1 for date in seen_at]))
        for one, other, date in zip(ids[:_STALE_SINGLES], partner_ids, seen_at, strict=False):
            client.upsert(Batch([one], [other], [date]))
        return 2 * len(ids) + min(len(ids), _STALE_SINGLES)

    def compare(self, client: Client) -> dict[str, int]:
        """Raises WrongAnswer at the first answer that is not the model's; returns how many there
        were.
        """
        seed = self._rows.seed
        pairs = _compare(
            "partner_ids", client.partner_ids, self._by_id, seed, id_texts, partner_id_texts
        )
        pairs += _compare("ids", client.ids, self._by_partner_id, seed, partner_id_texts, id_texts)
        return {"ids": len(self._by_id), "partner_ids": len(self._by_partner_id), "pairs": pairs}


def _grouped(
    wanted: Numbers, first: list[int], second: list[int], dates: list[int]
) -> dict[int, list[tuple[int, int]]]:
    groups: dict[int, list[tuple[int, int]]] = {key: [] for key in wanted.tolist()}
    for one, other, date in zip(first, second, dates, strict=True):
        if one in groups:
            groups[one].append((other, date))
    return groups


def _compare(
    question: str,
    ask: Callable[[str], Found],
    groups: dict[int, list[tuple[int, int]]],
    seed: int,
    key_texts: Callable[[int, Numbers], list[str]],
    other_texts: Callable[[int, Numbers], list[str]],
) -> int:
    pairs = 0
    for key, text in zip(
        groups, key_texts(seed, np.array(list(groups), dtype=np.uint64)), strict=True
    ):
        others = other_texts(seed, np.array([other for other, _ in groups[key]], dtype=np.uint64))
        expected = sorted(zip(others, (date for _, date in groups[key]), strict=True))
        found = ask(text)
        dates = [date for _, date in found]
        if sorted(found) != expected:
            raise WrongAnswer(f"{question}({text!r}) gives {sorted(found)}, not {expected}")
        if dates != sorted(dates, reverse=True):
            raise WrongAnswer(f"{question}({text!r}) is not newest first: {found}")
        pairs += len(found)
    return pairs
