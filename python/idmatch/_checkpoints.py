"""Checkpoints: versions of a store in a directory that never change."""

import os

from ._results import Checkpoint
from ._times import to_datetime


def checkpoint_of(told: tuple[str, int, int, int]) -> Checkpoint:
    """A checkpoint from the core's tuple: path, time, end of its life, bytes."""
    path, at, until, held_bytes = told
    return Checkpoint(os.fspath(path), to_datetime(at), to_datetime(until), held_bytes)
