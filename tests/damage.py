"""Damage to the files of a store."""

from pathlib import Path


def overwrite_segments(store: Path, count: int) -> None:
    """Overwrites so many bytes in the middle of each segment."""
    for segment in (store / "segments").glob("*.seg"):
        with open(segment, "r+b") as file:
            file.seek(segment.stat().st_size // 2)
            file.write(b"\xff" * count)
