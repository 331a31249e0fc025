"""ID match tables: which `id` goes with which `partner_id`, and when they were last seen together.

A store holds tables; a table is loaded from files or Arrow data, answers questions about one
identifier in microseconds, and matches a whole population of them at once:

    store = idmatch.open("./store")
    table = store.create_table("appnexus", keep="last", retention="13mo")
    table.load("matches/*.parquet", columns=["cookie", "uid", "date"])
    table.latest_partner_id("3f1c...")
    table.match("population.parquet").write_parquet("matched.parquet")
"""

from ._core import __version__
from ._csv_options import Csv
from ._errors import (
    BadInput,
    Busy,
    Cancelled,
    Corrupt,
    Differs,
    Error,
    Expired,
    Internal,
    InvalidArgument,
    IoError,
    MissingExtra,
    NotAStore,
    RetryLater,
    SourceError,
    TableExists,
    TableNotFound,
    Unavailable,
    UnknownOutcome,
    Unsupported,
    UnsupportedFormat,
)
from ._hive_query import Hive
from ._match import MatchResult
from ._recovery import recover, restore
from ._results import (
    BackgroundError,
    Checkpoint,
    Committed,
    CopyReport,
    Detected,
    EraseReport,
    Finding,
    HopCounts,
    Latest,
    LoadReport,
    PlanStep,
    RepairReport,
    StoreStatus,
    TableStats,
)
from ._rows import CountedRows, Rows
from ._session import Session
from ._snapshot import Snapshot, TableSnapshot
from ._store import Store, open
from ._table import Table
from ._timings import Requests, Timings

__all__ = [
    "BackgroundError",
    "BadInput",
    "Busy",
    "Cancelled",
    "Checkpoint",
    "Committed",
    "CopyReport",
    "Corrupt",
    "CountedRows",
    "Csv",
    "Detected",
    "Differs",
    "EraseReport",
    "Error",
    "Expired",
    "Finding",
    "Hive",
    "HopCounts",
    "Internal",
    "InvalidArgument",
    "IoError",
    "Latest",
    "LoadReport",
    "MatchResult",
    "MissingExtra",
    "NotAStore",
    "PlanStep",
    "RepairReport",
    "Requests",
    "RetryLater",
    "Rows",
    "Session",
    "Snapshot",
    "SourceError",
    "Store",
    "StoreStatus",
    "Table",
    "TableExists",
    "TableNotFound",
    "TableSnapshot",
    "TableStats",
    "Timings",
    "Unavailable",
    "UnknownOutcome",
    "Unsupported",
    "UnsupportedFormat",
    "__version__",
    "open",
    "recover",
    "restore",
]
