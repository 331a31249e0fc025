"""Random numbers that depend on nothing but a seed, a purpose and a key.

Only whole numbers are used, so that the same seed gives the same bytes on every machine,
whatever the version of NumPy, the number of threads or the size of a chunk.
"""

import hashlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.uint64]
"""Unsigned 64-bit numbers, one for each key."""

Counts: TypeAlias = NDArray[np.int64]
"""How many of something each key has, or where its first one is."""

DAY_MILLIS = 86_400_000

_SPAN_MILLIS = 395 * DAY_MILLIS
_FRACTION_BITS = np.uint64(24)


def draw(seed: int, purpose: str, keys: Numbers, bits: int = 64) -> Numbers:
    """Evenly spread numbers below 2**bits; different for different keys below 2**bits."""
    digest = hashlib.blake2b(f"{seed}:{purpose}".encode(), digest_size=8).digest()
    mask = np.uint64(2**bits - 1)
    shift = np.uint64(bits // 2)
    mixed = keys ^ (np.uint64(int.from_bytes(digest, "little")) & mask)
    # Multiplying by an odd number and adding a right shift of itself can both be undone.
    for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        mixed = mixed * np.uint64(factor) & mask
        mixed ^= mixed >> shift
    return mixed


def chance(seed: int, purpose: str, keys: Numbers, percent: int) -> NDArray[np.bool_]:
    """True for about `percent` of the keys."""
    return draw(seed, purpose, keys) % np.uint64(100) < np.uint64(percent)


def heavy_tailed(seed: int, purpose: str, keys: Numbers, power: int, most: int) -> Counts:
    """Counts from 1 to `most`; of all keys, one in k**power has k or more."""
    limits = np.array([2**64 // k**power for k in range(most, 1, -1)], np.uint64)
    drawn = draw(seed, purpose, keys)
    return 1 + len(limits) - np.searchsorted(limits, drawn, side="right")


def ages(seed: int, purpose: str, keys: Numbers) -> Numbers:
    """Milliseconds from 1 to 13 months; half of them in the first quarter of that."""
    fraction = draw(seed, purpose, keys) >> (np.uint64(64) - _FRACTION_BITS)
    squared = fraction * fraction >> _FRACTION_BITS
    return (squared * np.uint64(_SPAN_MILLIS) >> _FRACTION_BITS) + np.uint64(1)


def numbered(owners: Numbers, counts: Counts, most: int) -> tuple[Numbers, Counts]:
    """Keys for `counts[i]` things of each owner, and where each owner's things start.

    A key is `owner * most + n`, with n from 0; owners are told from keys by `key // most`.
    """
    starts = np.cumsum(counts) - counts
    within = np.arange(counts.sum()) - np.repeat(starts, counts)
    return np.repeat(owners, counts) * np.uint64(most) + within.astype(np.uint64), starts
