"""What calls that do not answer with Arrow data return."""

from datetime import datetime
from typing import NamedTuple


class Detected(NamedTuple):
    """How a source is written: as was said, or else as was detected."""

    format: str
    """"parquet", "orc", "csv", "json lines" or "arrow"; of Hive, when a table's files are not
    read, "hive unload" or "hive rows"."""
    delimiter: str | None
    """Between values of CSV."""
    encoding: str | None
    """Of CSV."""
    dates: str | None
    """The type of a column of dates; of text and whole numbers their format. None where there is
    no such column."""
    why: str | None = None
    """Why rows of Hive did not come by a faster way."""


class LoadReport(NamedTuple):
    """What a load or an upsert did."""

    rows: int
    """Rows read, rejected ones included; of a column of lists, a row for each value."""
    rejected: int
    """Rows that break the rules and were not taken."""
    seconds: float
    """How long it took."""
    rejects: str | None
    """The CSV file that names every rejected row; None when there is none."""
    columns: dict[str, list[str]]
    """The columns that were read as id, partner_id and seen_at: one name each, more where the
    sources differ, none where there was no source to read."""
    hex_columns: list[str]
    """Columns of fixed-size binary, whose identifiers were read as lowercase hex."""
    detected: list[Detected]
    """How the sources are written, each way once."""
    repeated: bool = False
    """Whether nothing was read: an earlier load with the same key has done it, and `rows` and
    `rejected` are its own."""
    part: str | None = None
    """The receipt of what `Session.add` has staged, for `Session.commit`."""
    newest: datetime | None = None
    """The newest date of the rows that were taken, in UTC; None where there are none, and where
    nothing was read."""


class Committed(NamedTuple):
    """What a session has written."""

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
    """Where it is: what other processes open."""
    at: datetime
    """When it was made; the retention of its tables goes by this instant."""
    until: datetime
    """From when on the next writer of the store removes it."""
    held_bytes: int
    """Bytes on disk of files that only it still has."""


class EraseReport(NamedTuple):
    """What an erasure did."""

    targets: int
    """Identifiers and pairs that were named, rejected ones included."""
    rejected: int
    """Those that break the rules and were not taken."""
    by_id: int
    """Rows of the table that were there, found by id, and no longer are."""
    by_partner_id: int
    """The same, found by partner ID."""
    seconds: float
    """How long it took."""
    rejects: str | None
    """The CSV file that names every rejected row; None when there is none."""
    hex_columns: list[str]
    """Columns of fixed-size binary, whose identifiers were read as lowercase hex."""
    detected: list[Detected]
    """How the sources are written, each way once."""
    columns: dict[str, list[str]]
    """The columns that were read, as of a load."""
    checkpoints: list[Checkpoint]
    """Those in the folder of the store that still show some of the rows, whether the table had them
    or not; and those that cannot be read."""


class CopyReport(NamedTuple):
    """What a copy of a table did, and how both are in the end."""

    table: str
    """The table that was copied."""
    name: str
    """The table it was copied to."""
    rows: int
    """Observations of the source. With a retention, without those that it hides within a
    hundredth of its time: they are copied, and not compared in the end."""
    sent: int
    """Observations that were sent; others were there already."""
    rows_there: int
    """The same as `rows`, read back from the destination. More only after a merge."""
    checksum: str
    """The sum of the hashes of all rows, whatever their order: 32 hexadecimal digits."""
    checksum_there: str
    """The same of the destination. Another one only after a merge."""
    erasures: int
    """Erasures of the source that the destination remembers too."""
    erasures_lost: int
    """Those that it could not take over, which was accepted."""
    seconds: float
    """How long it took."""


_OUTGROWN = 20
"""Partitions of servers take 25 times what they were made for; a little less is a reason to act."""


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
    """Whether these three are exact; in a directory they are else the most that they can be."""
    bytes: int
    """Bytes on disk, both directions."""
    segments: int
    """Segment files, both directions."""
    memtable_rows: int
    """Of the rows, those that were upserted and are in the journal and in memory only."""
    memtable_bytes: int
    """The memory that these take."""
    pending_compaction_bytes: int
    """Bytes that compactions in the background have yet to rewrite."""
    erasures: int
    """Erasures that are remembered."""
    oldest: datetime | None
    """The oldest date stored, in UTC; None in an empty table."""
    newest: datetime | None
    """The newest date stored, in UTC; None in an empty table."""
    largest_key_rows: int | None
    """The most rows that one identifier has in one segment; it may have more in all. On servers,
    the most in the partitions that were read. None where there are no such rows."""
    expected_rows: int | None
    """How many rows the table was made for, on servers; None in a directory, where it may grow."""

    @property
    def is_outgrown(self) -> bool:
        """Whether it has so many more rows that it should be copied into a table made for more."""
        return self.expected_rows is not None and self.rows > _OUTGROWN * self.expected_rows


class BackgroundError(NamedTuple):
    """Work that nobody waits for, and that fails. It is tried again after pauses; a sync is not."""

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
    """What a store keeps besides its tables, and what fails in its background."""

    pinned_bytes: int
    """Bytes of files that only open snapshots and running reads still need; 0 on servers."""
    oldest_pinned_seconds: float | None
    """How long ago the oldest version that is still read was replaced; None if there is none."""
    is_checkpoint: bool
    """Whether the store is a checkpoint of another one, which never changes."""
    is_writer: bool
    """Whether this process writes the store, so that others may not; False on servers."""
    last_background_error: BackgroundError | None
    """The background work of this process that fails at present; None where none does."""


class PlanStep(NamedTuple):
    """A way in which identifiers of a population were read."""

    how: str
    """The way: in a directory "sorted probe"; on servers "single keys", "IN queries",
    "partition scans" or "hot keys"."""
    requests: int
    """How often: segments, once for each range of hashes; on servers, requests or buckets."""
    keys: int
    """Identifiers that were read so; on servers each counts once."""
    why: str
    """Why it was chosen, with what was measured."""


class HopCounts(NamedTuple):
    """What a table of a chain counted."""

    rows_in: int
    """Rows that came in: of the population, or what the table before gave."""
    matched: int
    """Of these, rows with at least one match."""
    rows: int
    """Matches: the rows that go on."""


class Finding(NamedTuple):
    """Something that a check found to be wrong."""

    place: str
    """The file, or another place, it is in."""
    problem: str
    """What is wrong there."""


class RepairReport(NamedTuple):
    """What a repair found and did."""

    findings: list[Finding]
    """What was wrong; empty if nothing was, and then nothing was done."""
    lost: int
    """Rows that could be read in neither direction, at most."""
