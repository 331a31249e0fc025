"""Progress of a benchmark, on standard error."""

from __future__ import annotations

import sys


def log(text: str) -> None:
    """Prints one line."""
    print(text, file=sys.stderr, flush=True)
