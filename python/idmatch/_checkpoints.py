"""Checkpoints: versions of a store in a directory that never change."""

import os

from ._results import Checkpoint
from ._times import to_datetime


def checkpoint_of(told: tuple[str, int, int, int]) -> Checkpoint:
    """One as the core tells it."""
    path, at, until, held_bytes = told
    return Checkpoint(os.fspath(path), to_datetime(at), to_datetime(until), held_bytes)
