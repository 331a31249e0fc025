"""Sizes and counts as people write them, read and shown: `400M` rows, `22.3 GB`, `1.25 s`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

_COUNT_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9}


def parse_count(text: str) -> int:
    """Reads `400M`, `2.5k` or `1000`; raises ValueError for anything else."""
    cleaned = text.strip().lower().replace("_", "").replace(",", "")
    factor = _COUNT_SUFFIXES.get(cleaned[-1:], 1)
    digits = cleaned[:-1] if factor > 1 else cleaned
    value = float(digits) * factor
    if value < 1 or value != int(value):
        raise ValueError(f"not a whole positive number: {text!r}")
    return int(value)


def show_count(count: float) -> str:
    """Shows 400000000 as `400M`; exact where three digits are enough, else rounded to three."""
    for suffix, factor in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= factor:
            return (
                f"{count / factor:.3g}{suffix}"
                if count / factor < 1000
                else f"{count / factor:.0f}{suffix}"
            )
    return f"{count:.3g}"


def show_bytes(count: float) -> str:
    """Shows bytes with decimal prefixes, as disks are sold: `22.3 GB`."""
    for suffix, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return (
                f"{count / factor:.3g} {suffix}"
                if count / factor < 1000
                else f"{count / factor:.0f} {suffix}"
            )
    return f"{count:.0f} B"


def show_seconds(seconds: float) -> str:
    """Shows a duration with three significant digits: `12.9 s`, `85 ms`, `1.42 us`."""
    if seconds >= 100:
        return f"{seconds:.0f} s"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} us"


def directory_bytes(directory: Path) -> int:
    """The disk blocks held by all files under `directory`; files that vanish meanwhile count
    nothing.
    """
    total = 0
    pending = [directory]
    while pending:
        current = pending.pop()
        try:
            entries = list(current.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            try:
                if entry.is_dir() and not entry.is_symlink():
                    pending.append(entry)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def parse_names(allowed: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Reads names with commas between them, each of those allowed."""

    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = set(names) - set(allowed)
        if unknown:
            listed = ", ".join(allowed)
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {listed}")
        return names

    return read
