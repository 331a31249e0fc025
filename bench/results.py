"""The results as one JSON document, kept after every step so that nothing is lost when a run is
stopped.

    about         machine, versions, command, date, seed, rows, sizes of the data
    counts        rows -> the count that every system gave
    checksums     rows -> a checksum of the rows that every system wrote
    contestants   name -> version, and per mode its seconds, peak memory and bytes from disk
    bare          seconds of each step of the least any join must do
    idmatch       load, ten_loads, open, lookups, lookups_rust
    skipped       what was left out, and why
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class Disagreement(Exception):
    """Two systems gave different answers to the same question."""


class Results:
    """Results of one data set; steps measured again replace what was there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        for part in ("about", "counts", "checksums", "contestants", "bare", "idmatch", "skipped"):
            self.document.setdefault(part, {})

    def save(self) -> None:
        """Writes the document."""
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.document, indent=2) + "\n")
        partial.rename(self.path)

    def put(self, part: str, *keys: str, value: dict[str, Any]) -> None:
        """Stores what a step gave, with the time, under `part` and `keys`; forgets that it was
        skipped.
        """
        place = self.document[part]
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        stamped = value | {"measured": datetime.now(UTC).isoformat(timespec="seconds")}
        if keys:
            place[keys[-1]] = stamped
        else:
            self.document[part] = stamped
        self.document["skipped"].pop(" ".join((part, *keys)), None)
        self.save()

    def skip(self, part: str, *keys: str, reason: str) -> None:
        """Notes why a step has no result, and drops an older one."""
        place = self.document[part]
        for key in keys[:-1]:
            place = place.get(key, {})
        if keys:
            place.pop(keys[-1], None)
        self.document["skipped"][" ".join((part, *keys))] = reason
        self.save()

    def agree(self, part: str, rows: int, contestant: str, answer: int) -> None:
        """Holds an answer against those given before; raises Disagreement."""
        known = self.document[part].setdefault(str(rows), {})
        for other, others_answer in known.items():
            if others_answer != answer and other != contestant:
                raise Disagreement(
                    f"{part} over {rows} rows: {contestant} gives {answer}, {other} gives"
                    f" {others_answer}"
                )
        known[contestant] = answer
        self.save()


def timing(seconds: Sequence[float], private_bytes: int) -> dict[str, Any]:
    """The figures of repeated runs."""
    return {
        "seconds": list(seconds),
        "median": statistics.median(seconds),
        "min": min(seconds),
        "max": max(seconds),
        "private_bytes": private_bytes,
    }
