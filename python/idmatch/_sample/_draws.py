"""Random numbers that depend only on a seed, a purpose and a key.

All arithmetic uses whole numbers, so the same seed gives the same bytes on every machine. The
version of NumPy, the number of threads and the size of a chunk do not matter.
"""

import hashlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.uint64]
"""Unsigned 64-bit numbers, one for each key."""

Counts: TypeAlias = NDArray[np.int64]
"""A count for each key, or the index of its first item."""

DAY_MILLIS = 86_400_000

_SPAN_MILLIS = 395 * DAY_MILLIS
_FRACTION_BITS = np.uint64(24)


def draw(seed: int, purpose: str, keys: Numbers, bits: int = 64) -> Numbers:
    """Uniform numbers below 2**bits; distinct keys below 2**bits get distinct numbers."""
    digest = hashlib.blake2b(f"{seed}:{purpose}".encode(), digest_size=8).digest()
    mask = np.uint64(2**bits - 1)
    shift = np.uint64(bits // 2)
    mixed = keys ^ (np.uint64(int.from_bytes(digest, "little")) & mask)
    # Multiplying by an odd number and xoring with a right shift of itself are both invertible.
    for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        mixed = mixed * np.uint64(factor) & mask
        mixed ^= mixed >> shift
    return mixed


def chance(seed: int, purpose: str, keys: Numbers, percent: int) -> NDArray[np.bool_]:
    """True for about `percent` of the keys."""
    return draw(seed, purpose, keys) % np.uint64(100) < np.uint64(percent)


def heavy_tailed(seed: int, purpose: str, keys: Numbers, power: int, most: int) -> Counts:
    """Counts from 1 to `most`; one key in k**power has a count of k or more."""
    limits = np.array([2**64 // k**power for k in range(most, 1, -1)], np.uint64)
    drawn = draw(seed, purpose, keys)
    return 1 + len(limits) - np.searchsorted(limits, drawn, side="right")


def ages(seed: int, purpose: str, keys: Numbers) -> Numbers:
    """Ages in milliseconds, from 1 ms to 13 months; half are in the first quarter of that."""
    fraction = draw(seed, purpose, keys) >> (np.uint64(64) - _FRACTION_BITS)
    squared = fraction * fraction >> _FRACTION_BITS
    return (squared * np.uint64(_SPAN_MILLIS) >> _FRACTION_BITS) + np.uint64(1)


def numbered(owners: Numbers, counts: Counts, most: int) -> tuple[Numbers, Counts]:
    """Keys for `counts[i]` items of each owner, and the index of each owner's first item.

    A key is `owner * most + n`, with n from 0; `key // most` is its owner.
    """
    starts = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(starts, counts)
    return np.repeat(owners, counts) * np.uint64(most) + within.astype(np.uint64), starts
