"""Results of calls that do not return Arrow data."""

from datetime import datetime
from typing import NamedTuple


class Detected(NamedTuple):
    """How a source is written: as the caller said, or as detected."""

    format: str
    """"parquet", "orc", "csv", "json lines" or "arrow"; of Hive, when a table's files are not
    read, "hive unload" or "hive rows"."""
    delimiter: str | None
    """The character between values of CSV."""
    encoding: str | None
    """The encoding of CSV."""
    dates: str | None
    """The type of the column of dates, or the format of dates that are text or whole numbers. None
    without such a column."""
    why: str | None = None
    """Why rows of Hive did not come by a faster way."""


class LoadReport(NamedTuple):
    """What a load or an upsert did."""

    rows: int
    """Rows read, rejected ones included; each value of a list counts as a row."""
    rejected: int
    """Rows that break the rules and were not taken."""
    seconds: float
    """How long it took."""
    rejects: str | None
    """The CSV file that names every rejected row; None when there is none."""
    columns: dict[str, list[str]]
    """The columns that were read as id, partner_id and seen_at: one name each, several if the
    sources differ, none if there was no source to read."""
    hex_columns: list[str]
    """Columns of fixed-size binary, whose identifiers were read as lowercase hex."""
    detected: list[Detected]
    """How the sources are written, each way once."""
    repeated: bool = False
    """Whether nothing was read, because an earlier load with the same key has succeeded. `rows` and
    `rejected` are those of the earlier load."""
    part: str | None = None
    """The receipt of the part that `Session.add` has staged, for `Session.commit`."""
    newest: datetime | None = None
    """The newest date of accepted rows, in UTC; None if there are none, or nothing was read."""


class Committed(NamedTuple):
    """The counts of a committed session."""

    rows: int
    """Rows written."""
    rejected: int
    """Rows that break the rules and were not taken."""


class Latest(NamedTuple):
    """The newest answer to a question about one identifier."""

    value: str
    """The other identifier of the pair."""
    seen_at: datetime
    """When the two were last seen together, in UTC."""


class Checkpoint(NamedTuple):
    """A version of a store in a directory, as a store that never changes."""

    path: str
    """The path that other processes open."""
    at: datetime
    """When it was made; the retention of its tables counts from this instant."""
    until: datetime
    """After this instant, the next writer of the store removes it."""
    held_bytes: int
    """Bytes on disk of files that only the checkpoint still has."""


class EraseReport(NamedTuple):
    """What an erasure did."""

    targets: int
    """Identifiers and pairs that were named, rejected ones included."""
    rejected: int
    """Targets that break the rules and were not taken."""
    by_id: int
    """Rows of the table that became hidden, found by id."""
    by_partner_id: int
    """Rows of the table that became hidden, found by partner ID."""
    seconds: float
    """How long it took."""
    rejects: str | None
    """The CSV file that names every rejected row; None when there is none."""
    hex_columns: list[str]
    """Columns of fixed-size binary, whose identifiers were read as lowercase hex."""
    detected: list[Detected]
    """How the sources are written, each way once."""
    columns: dict[str, list[str]]
    """The columns that were read, as in `LoadReport.columns`."""
    checkpoints: list[Checkpoint]
    """Checkpoints in the folder of the store that still show some of the rows, also if the table no
    longer had them. Checkpoints that cannot be read are here, too."""


class CopyReport(NamedTuple):
    """What a copy of a table did, and how both tables are in the end."""

    table: str
    """The table that was copied."""
    name: str
    """The table it was copied to."""
    rows: int
    """Observations of the source. A retention excludes rows that expire within a hundredth of it:
    they are copied, but not compared in the end."""
    sent: int
    """Observations that were sent; others were there already."""
    rows_there: int
    """Observations of the destination, read back; they are more than `rows` only after a merge."""
    checksum: str
    """The sum of the hashes of all rows, whatever their order: 32 hexadecimal digits."""
    checksum_there: str
    """The checksum of the destination. It differs only after a merge."""
    erasures: int
    """Erasures of the source that the destination remembers too."""
    erasures_lost: int
    """Erasures that the destination could not take over, with `accept_lost_erasures`."""
    seconds: float
    """How long it took."""


_OUTGROWN = 20
"""Partitions on servers take 25 times the rows that they were made for: 20 times is time to act."""


class TableStats(NamedTuple):
    """Figures about a table as it is stored, before windows and retention."""

    rows: int
    """Observations stored per direction; several loads may store a pair more than once."""
    ids: int
    """Different ids."""
    partner_ids: int
    """Different partner IDs."""
    pairs: int
    """Different pairs of the two."""
    is_exact: bool
    """Whether `ids`, `partner_ids` and `pairs` are exact. If not, in a directory they are upper
    bounds."""
    bytes: int
    """Bytes on disk, both directions."""
    segments: int
    """Segment files, both directions."""
    memtable_rows: int
    """Upserted rows that are only in the journal and in memory; `rows` includes them."""
    memtable_bytes: int
    """The memory of these rows, in bytes."""
    pending_compaction_bytes: int
    """Bytes that compactions in the background have yet to rewrite."""
    erasures: int
    """Erasures that are remembered."""
    oldest: datetime | None
    """The oldest date stored, in UTC; None in an empty table."""
    newest: datetime | None
    """The newest date stored, in UTC; None in an empty table."""
    largest_key_rows: int | None
    """The most rows of one identifier in one segment; it may have more in other segments. On
    servers, the most in the partitions that were read. None if there are no such rows."""
    expected_rows: int | None
    """How many rows the table was made for, on servers; None in a directory, where it may grow."""

    @property
    def is_outgrown(self) -> bool:
        """Whether it has over 20 times `expected_rows`: copy it into a table made for more rows."""
        return self.expected_rows is not None and self.rows > _OUTGROWN * self.expected_rows


class BackgroundError(NamedTuple):
    """Background work that fails, for which no call waits.

    It is tried again after pauses; only a sync is not.
    """

    work: str
    """ "flush", "compaction", "sync", or on servers "metadata refresh"."""
    error: str
    """Why it failed last."""
    since: datetime
    """When it began to fail, in UTC."""
    last: datetime
    """When it failed last, in UTC."""
    failures: int
    """How often it has failed since."""


class StoreStatus(NamedTuple):
    """What a store holds besides its tables, and its background work that fails."""

    pinned_bytes: int
    """Bytes of files that only open snapshots and running reads still need; 0 on servers."""
    oldest_pinned_seconds: float | None
    """How long ago the oldest version that is still read was replaced; None if there is none."""
    is_checkpoint: bool
    """Whether the store is a checkpoint of another one, which never changes."""
    is_writer: bool
    """Whether this process is the writer of the store, so that no other may write; False on
    servers."""
    last_background_error: BackgroundError | None
    """The background work of this process that fails at present; None if none fails."""


class PlanStep(NamedTuple):
    """A way in which identifiers of a population were read."""

    how: str
    """The way: in a directory "sorted probe"; on servers "single keys", "IN queries",
    "partition scans" or "hot keys"."""
    requests: int
    """Reads in this way: segments, once for each range of hashes; on servers, requests or
    buckets."""
    keys: int
    """Identifiers that were read in this way; on servers each counts once."""
    why: str
    """Why this way was chosen, with the measured values."""


class HopCounts(NamedTuple):
    """The counts of a table of a chain."""

    rows_in: int
    """Rows that came in: population rows, or the matches of the table before."""
    matched: int
    """Of these, rows with at least one match."""
    rows: int
    """Matches: the rows that go on."""


class Finding(NamedTuple):
    """A problem that a check found."""

    place: str
    """The file or other place of the problem."""
    problem: str
    """What is wrong there."""


class RepairReport(NamedTuple):
    """What a repair found and did."""

    findings: list[Finding]
    """The problems that were found. If there are none, nothing was changed."""
    lost: int
    """The largest possible number of rows that could be read in neither direction."""
