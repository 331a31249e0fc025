"""Files that processes leave beside a store for monitoring: records of runs, and the writer's note.

`idmatch._watch` and `idmatch tables` read both. Must not know Prometheus.
"""

from ._records import (
    KEPT_DAYS,
    RECORDS_NAME,
    Kind,
    Record,
    Recorder,
    at,
    parsed,
    recorded,
    runs_folder,
)
from ._writer import WriterNote, WriterTold, read_note

__all__ = [
    "KEPT_DAYS",
    "RECORDS_NAME",
    "Kind",
    "Record",
    "Recorder",
    "WriterNote",
    "WriterTold",
    "at",
    "parsed",
    "read_note",
    "recorded",
    "runs_folder",
]
