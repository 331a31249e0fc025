"""The rows of the live write benchmark: the same for every peer, each a pure function of the seed
and its number.

They look like those of `data.py` (which see for the shares of repeated ids):

    id          32 hex digits made from key k
    partner_id  19 decimal digits made from key j
    seen_at     milliseconds UTC: the fill before 2026-11-01, the writes in the 14 days after

Rows 0 to `fill` are the fill. Of the writes every other row is a new pair, and every other a pair
of the fill seen again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from live_peers.base import Batch

Numbers = NDArray[np.uint64]

NEWEST_OF_FILL = 1_793_491_200_000  # 2026-11-01
_FILL_SPAN = 396 * 86_400_000
_WRITE_SPAN = 14 * 86_400_000
_REPEATED_ID_PERMILLE = 100
_REPEATED_PARTNER_ID_PERMILLE = 50
_WRITERS = 64
_ROWS_PER_WRITER = 1 << 32
_UNKNOWN = 1 << 62
_CHUNK = 100_000


@dataclass(frozen=True)
class Keyed:
    """Rows before they are text: the keys of both ids, and the dates."""

    seed: int
    k: Numbers
    j: Numbers
    seen_at: Numbers

    def batch(self) -> Batch:
        """The rows as a client has them."""
        return Batch(
            id_texts(self.seed, self.k), partner_id_texts(self.seed, self.j), self.seen_at.tolist()
        )

    def only(self, wanted: NDArray[np.bool_] | NDArray[np.intp]) -> Keyed:
        """Some of the rows."""
        return Keyed(self.seed, self.k[wanted], self.j[wanted], self.seen_at[wanted])


@dataclass(frozen=True)
class Rows:
    """All rows of a run."""

    seed: int
    fill: int

    def filled(self, numbers: Numbers) -> Keyed:
        """Rows of the fill."""
        return self._made(numbers, of_fill=True)

    def chunks(self) -> Iterator[Batch]:
        """The fill, in chunks."""
        for start in range(0, self.fill, _CHUNK):
            yield self.filled(
                np.arange(start, min(start + _CHUNK, self.fill), dtype=np.uint64)
            ).batch()

    def written(self, phase: int, writer: int, start: int, stop: int) -> Keyed:
        """Rows of one writer in one phase."""
        if writer >= _WRITERS or stop > _ROWS_PER_WRITER:
            raise ValueError("too many writers or rows")
        first = self.fill + (phase * _WRITERS + writer) * _ROWS_PER_WRITER
        numbers = np.arange(first + start, first + stop, dtype=np.uint64)
        new = self._made(numbers, of_fill=False)
        draw = _mixed(self.seed, "write", numbers)
        again = self._made(draw % np.uint64(self.fill), of_fill=True)
        is_new = np.arange(start, stop) % 2 == 0
        seen_at = np.uint64(NEWEST_OF_FILL) + (draw >> np.uint64(20)) % np.uint64(_WRITE_SPAN)
        return Keyed(
            self.seed, np.where(is_new, new.k, again.k), np.where(is_new, new.j, again.j), seen_at
        )

    def batches(self, phase: int, writer: int, count: int, size: int) -> list[Batch]:
        """The first `count` batches of one writer."""
        rows = self.written(phase, writer, 0, count * size).batch()
        return [
            Batch(
                rows.ids[at : at + size],
                rows.partner_ids[at : at + size],
                rows.seen_at[at : at + size],
            )
            for at in range(0, count * size, size)
        ]

    def questions(self, count: int, known_percent: int) -> tuple[list[str], list[str]]:
        """Ids and partner ids to look up, spread over the fill; some are unknown."""
        draw = _mixed(self.seed, "question", np.arange(count, dtype=np.uint64))
        rows = self._made(draw % np.uint64(self.fill), of_fill=True)
        unknown = (draw >> np.uint64(32)) % np.uint64(100) >= known_percent
        strangers = np.arange(_UNKNOWN, _UNKNOWN + count, dtype=np.uint64)
        return (
            id_texts(self.seed, np.where(unknown, strangers, rows.k)),
            partner_id_texts(self.seed, np.where(unknown, strangers, rows.j)),
        )

    def _made(self, numbers: Numbers, of_fill: bool) -> Keyed:
        """Rows by number; those that repeat an id take it from an earlier row, or from the fill."""
        draw = _mixed(self.seed, "row", numbers)
        earlier = numbers + np.uint64(1) if of_fill else np.uint64(self.fill)
        repeats_id = draw % np.uint64(1000) < _REPEATED_ID_PERMILLE
        repeats_partner_id = (
            draw // np.uint64(1000) % np.uint64(1000) < _REPEATED_PARTNER_ID_PERMILLE
        )
        back = np.square((draw >> np.uint64(32)) / 2.0**32) * _FILL_SPAN
        return Keyed(
            self.seed,
            np.where(repeats_id, (draw >> np.uint64(16)) % earlier, numbers),
            np.where(repeats_partner_id, (draw >> np.uint64(7)) % earlier, numbers),
            np.uint64(NEWEST_OF_FILL - 1) - back.astype(np.uint64),
        )


def id_texts(seed: int, k: Numbers) -> list[str]:
    """32 hex digits for each key."""
    digits = (
        np.column_stack((_mixed(seed, "id", k), _mixed(seed, "id, second half", k)))
        .astype(">u8")
        .tobytes()
        .hex()
    )
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


def partner_id_texts(seed: int, j: Numbers) -> list[str]:
    """19 decimal digits for each key."""
    return list(
        map(
            str,
            (np.uint64(10**18) + _mixed(seed, "partner_id", j) % np.uint64(9 * 10**18)).tolist(),
        )
    )


def _mixed(seed: int, purpose: str, numbers: Numbers) -> Numbers:
    """64 bits for each number, different for each seed and purpose (splitmix64)."""
    start = int.from_bytes(blake2b(f"{seed}:{purpose}".encode(), digest_size=8).digest(), "little")
    z = (numbers ^ np.uint64(start)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
