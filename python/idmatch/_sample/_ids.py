"""Identifiers in common formats: one for each key, all distinct."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ._draws import Numbers, draw

Ids: TypeAlias = "pa.StringArray"
MakeIds: TypeAlias = Callable[[int, str, Numbers], Ids]

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_URL_SAFE = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
_FIRST_NAMES = "anna ben chloe daniel elif fatima george hana ivan julia kofi lena mateo nina omar"
_LAST_NAMES = "adams brown chen diaz evans fischer garcia haddad ito jones khan lopez meyer novak"
_DOMAINS = "example.com example.net example.org mail.example post.example"
_NAMED_BITS = 40


def hex32(seed: int, purpose: str, keys: Numbers) -> Ids:
    """32 hexadecimal digits."""
    return _texts(_hex_digits(_bits128(seed, purpose, keys)))


def uuid(seed: int, purpose: str, keys: Numbers) -> Ids:
    """UUIDs of version 4, as text."""
    high, _ = _bits128(seed, purpose, keys)
    low = draw(seed, f"{purpose}, low", keys, bits=62)
    high = high & np.uint64(0xFFFF_FFFF_FFFF_0FFF) | np.uint64(0x4000)
    digits = _hex_digits((high, low | np.uint64(1 << 63)))
    dash = np.full((len(keys), 1), ord("-"), np.uint8)
    parts = np.split(digits, [8, 12, 16, 20], axis=1)
    return _texts(np.hstack([piece for part in parts for piece in (part, dash)][:-1]))


def decimal19(seed: int, purpose: str, keys: Numbers) -> Ids:
    """Numbers of 19 decimal digits."""
    left = draw(seed, purpose, keys, bits=62) + np.uint64(10**18)
    digits = np.empty((len(keys), 19), np.uint8)
    for at in range(18, -1, -1):
        digits[:, at] = left % np.uint64(10) + np.uint64(ord("0"))
        left //= np.uint64(10)
    return _texts(digits)


def base64_27(seed: int, purpose: str, keys: Numbers) -> Ids:
    """20 bytes as 27 characters of URL-safe base64."""
    high, low = _bits128(seed, purpose, keys)
    rest = draw(seed, f"{purpose}, rest", keys) << np.uint64(32)
    octets = np.hstack([_octets(high), _octets(low), _octets(rest)[:, :5]])  # byte 21 is zero
    threes = octets.reshape(len(keys), 7, 3).astype(np.uint32)
    joined = threes[..., 0] << 16 | threes[..., 1] << 8 | threes[..., 2]
    sixes = np.stack([joined >> shift & 63 for shift in (18, 12, 6, 0)], axis=-1)
    return _texts(_URL_SAFE[sixes.reshape(len(keys), 28)[:, :27]])


def email(seed: int, purpose: str, keys: Numbers) -> Ids:
    """E-mail addresses; keys are below 2**40."""
    drawn = draw(seed, f"{purpose}, names", keys)
    first = _pick(_FIRST_NAMES, drawn)
    last = _pick(_LAST_NAMES, drawn >> np.uint64(16))
    domain = _pick(_DOMAINS, drawn >> np.uint64(32))
    number = pa.array(draw(seed, purpose, keys, bits=_NAMED_BITS)).cast(pa.string())
    user = pc.binary_join_element_wise(first, last, ".")
    name: Any = pc.binary_join_element_wise(user, number, "")
    emails: Ids = pc.binary_join_element_wise(name, domain, "@")
    return emails


PARTNER_KINDS: Mapping[str, MakeIds] = {
    "19-digit decimal": decimal19,
    "UUID": uuid,
    "URL-safe base64": base64_27,
    "32-digit hex": hex32,
}
"""The formats of partner IDs; partners take them in turn."""


def _bits128(seed: int, purpose: str, keys: Numbers) -> tuple[Numbers, Numbers]:
    return draw(seed, f"{purpose}, high", keys), draw(seed, f"{purpose}, low", keys)


def _octets(numbers: Numbers) -> NDArray[np.uint8]:
    return numbers.astype(">u8").view(np.uint8).reshape(-1, 8)


def _hex_digits(halves: tuple[Numbers, Numbers]) -> NDArray[np.uint8]:
    octets = np.hstack([_octets(half) for half in halves])
    nibbles = np.stack([octets >> 4, octets & 15], axis=-1)
    return _HEX[nibbles.reshape(-1, 32)]


def _texts(characters: NDArray[np.uint8]) -> Ids:
    """One text for each row of an array of ASCII characters."""
    rows, width = characters.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, _buffer(offsets), _buffer(characters))


def _buffer(numbers: NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(numbers).data)


def _pick(words: str, drawn: Numbers) -> Any:
    choices = words.split()
    return pa.array(choices).take(pa.array(drawn % np.uint64(2**16) % np.uint64(len(choices))))
