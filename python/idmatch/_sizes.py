"""Counts and sizes as people write them: G is 10**9, Gi is 2**30."""

import re
from fractions import Fraction

from ._errors import InvalidArgument

_FACTORS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?|[KMGT]i)")


def parse_size(text: str) -> int:
    """Reads "1M", "1.5G" or "512Mi"; raises InvalidArgument for what is no whole number."""
    found = _SIZE.fullmatch(text.strip())
    size = Fraction(found[1]) * _FACTORS[found[2]] if found else None
    if size is None or size.denominator != 1:
        raise InvalidArgument(f"{text!r} is no whole size; write it like 200000, 1M, 1.5G or 512Mi")
    return int(size)


def show_size(size: int) -> str:
    """Three digits and a factor of 1,000: "1.23G"."""
    for suffix in ("T", "G", "M", "k"):
        if size >= _FACTORS[suffix]:
            return f"{size / _FACTORS[suffix]:.3g}{suffix}"
    return str(size)
