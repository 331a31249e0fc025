"""Test parameters of which each commit tries one."""

import os
from collections.abc import Sequence
from typing import Any

import pytest

_SEED = int(os.environ.get("IDMATCH_SEED", "7"))


def one_of(values: Sequence[Any]) -> list[Any]:
    """These values: one that the seed of the commit chooses, the others for the long forms."""
    chosen = _SEED // 4 % len(values)
    return [
        value if number == chosen else pytest.param(value, marks=pytest.mark.slow)
        for number, value in enumerate(values)
    ]
