//! The interface of every store. Batch-first and synchronous.
//!
//! A [`Store`] writes, and gives [`Snapshot`]s to read from. A call that can take longer than 100 ms takes a
//! [`Call`], and ends with `Cancelled` soon after it is cancelled. [`crate::Table`] has the same calls for a
//! table by its name.

use crate::{
    Admin, Answers, BatchSource, Call, Checkpoint, Committed, Counting, Durability, Erased, Error,
    ErrorKind, Lookup, Match, MatchQuery, MatchSink, NewWrite, ObservationSource, Result,
    ScanQuery, ScanRanges, ScanSplit, SessionAddress, Status, TableStats, Version, WriteSession,
};
use idmatch_model::{Period, SeenAt, TableId, TableName, TableOptions, Target};
use prometheus_client::registry::Registry;
use std::sync::Arc;

/// A set of tables.
pub trait Store: Send + Sync {
    /// All tables as they are now: one version in a directory; on servers, rows as they are when each is read.
    fn snapshot(&self, call: &Call) -> Result<Arc<dyn Snapshot>>;

    /// Makes a table, or finds the table of that name with the same options. A store on servers divides a new
    /// table by its expected rows, for its life; `None` means 10 million.
    ///
    /// # Errors
    /// `TableExists` for other options.
    fn create_table(
        &self,
        name: &TableName,
        options: &TableOptions,
        expected_rows: Option<u64>,
        call: &Call,
    ) -> Result<TableId>;

    /// Chooses another retention. It hides rows at once. In a directory, hidden rows are removed a day later
    /// at the earliest. A longer retention shows rows again that are still stored.
    fn set_retention(&self, table: TableId, retention: Option<Period>, call: &Call) -> Result<()>;

    /// Gives a table another name. Erasures stay for both names: the table keeps its own erasures, obeys the
    /// erasures of its new name from now on, and leaves a copy for the next table of the old name.
    ///
    /// # Errors
    /// `TableNotFound`; `TableExists` if the name is taken.
    fn rename_table(&self, table: &TableName, to: &TableName, call: &Call) -> Result<()>;

    /// Exchanges the names of two tables at once. Both obey the erasures of both from now on. Calls that have
    /// begun go on with the table that they have found.
    ///
    /// # Errors
    /// `TableNotFound`.
    fn swap_tables(&self, one: &TableName, other: &TableName, call: &Call) -> Result<()>;

    /// Removes a table. Its erasures stay for the next table of that name. Snapshots still have the table;
    /// writes that go on end with `TableNotFound`.
    ///
    /// # Errors
    /// `TableNotFound`.
    fn drop_table(&self, table: &TableName, call: &Call) -> Result<()>;

    /// Begins to write rows that are staged first and committed once. The commit uses the options that the
    /// table then has. With the key of a committed session, the session has that outcome at once.
    ///
    /// # Errors
    /// `TableNotFound`; `InvalidArgument` for a key that was used for another kind of write; `Busy` if another
    /// process writes, or another session replaces the table.
    fn begin(&self, write: NewWrite, call: &Call) -> Result<Box<dyn WriteSession>>;

    /// Opens a session that another process, or an earlier one, has begun as shared. A committed session has
    /// its outcome. Servers keep no list of sessions, so there any id opens one.
    ///
    /// # Errors
    /// `Expired` if there is none, or no longer; `TableNotFound`.
    fn resume(&self, session: SessionAddress, call: &Call) -> Result<Box<dyn WriteSession>>;

    /// Writes a source as one session. A directory gets all rows or none. Other stores get none only if the
    /// source is strict and has a bad row.
    ///
    /// # Errors
    /// The errors of [`Store::begin`] and of the session.
    fn load(
        &self,
        write: NewWrite,
        rows: &dyn ObservationSource,
        call: &Call,
    ) -> Result<Committed> {
        let session = self.begin(write, call)?;
        if let Some(outcome) = session.outcome() {
            return Ok(outcome);
        }
        let part = session.stage(None, rows, call)?;
        session.commit(&[part], call)
    }

    /// Adds observations at once and for good: when this returns they are durable, and every later snapshot
    /// has them, in both directions. Up to 100,000 rows are visible whole or not at all; more rows are cut
    /// into batches. After an error the batches before it stay. The stricter of the store's durability and
    /// this one counts.
    fn upsert(
        &self,
        table: TableId,
        rows: &dyn ObservationSource,
        durability: Option<Durability>,
        call: &Call,
    ) -> Result<()>;

    /// Hides every observation with `seen_at <= at` of some identifiers or pairs, in both directions and for
    /// good, including observations that arrive later. All or nothing. The erasure applies to the table that
    /// has the name at that moment. Erasures that run side by side may count the same observations. Cost: in
    /// a directory, a search in the table; then each checkpoint is opened, and searched until it shows a row.
    fn erase(
        &self,
        table: &TableName,
        targets: &[Target],
        at: SeenAt,
        call: &Call,
    ) -> Result<Erased>;

    /// Lets later snapshots show what other processes have published.
    fn refresh(&self, call: &Call) -> Result<()>;

    /// The state of the store besides its tables. Cost: microseconds; no file is read.
    fn status(&self) -> Status {
        Status::default()
    }

    /// The checkpoints in the folder of the store, oldest first.
    fn checkpoints(&self, _: &Call) -> Result<Vec<Checkpoint>> {
        Ok(Vec::new())
    }

    /// Adds the figures that this process has about the store, for Prometheus. Cost: like [`Store::status`], and a
    /// look at each table.
    fn metrics(&self, _: &mut Registry) {}

    /// Closes the store for good: all writes from now on may be refused.
    fn close(&self) -> Result<()> {
        Ok(())
    }

    /// The maintenance of the store, where this process can do it.
    fn admin(&self) -> Option<&dyn Admin>;
}

/// All tables of a store at one point.
pub trait Snapshot: Send + Sync {
    /// The version that it shows; `None` where rows are read as they are at the time.
    fn version(&self) -> Option<Version>;

    /// The names of all tables, ascending.
    fn tables(&self, call: &Call) -> Result<Vec<TableName>>;

    /// The identity of the table that has this name.
    ///
    /// # Errors
    /// `TableNotFound`.
    fn resolve(&self, name: &TableName, call: &Call) -> Result<TableId>;

    /// A table.
    ///
    /// # Errors
    /// `TableNotFound`.
    fn table(&self, id: TableId, call: &Call) -> Result<Arc<dyn TableSnapshot>>;

    /// The table that has this name.
    ///
    /// # Errors
    /// `TableNotFound`.
    fn table_named(&self, name: &TableName, call: &Call) -> Result<Arc<dyn TableSnapshot>> {
        self.table(self.resolve(name, call)?, call)
    }
}

/// A table at one point. Every answer obeys its retention, by one reading of the clock.
pub trait TableSnapshot: Send + Sync {
    /// Its identity.
    fn id(&self) -> TableId;

    /// Its name.
    fn name(&self) -> &TableName;

    /// Its options.
    fn options(&self) -> &TableOptions;

    /// The version and the clock reading that it shows.
    fn version(&self) -> (Option<Version>, SeenAt);

    /// The answers of each key, by position, newest first, ties by the bytes of the answer.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that is no identifier.
    fn lookup_many(&self, keys: &[&str], lookup: Lookup, call: &Call) -> Result<Answers>;

    /// The newest date of a pair.
    fn last_seen(&self, id: &str, partner_id: &str, call: &Call) -> Result<Option<SeenAt>>;

    /// The dates of a pair, newest first; with `keep="last"` at most one.
    fn history(&self, id: &str, partner_id: &str, call: &Call) -> Result<Vec<SeenAt>>;

    /// Joins a population, whose batches have one column of identifiers, and counts the matches.
    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
        call: &Call,
    ) -> Result<Box<dyn Match>>;

    /// The scan range that an id is in: less than [`crate::SCAN_RANGES`], and the same for every snapshot of
    /// the table.
    fn scan_range_of(&self, id: &str) -> usize;

    /// Sends the observations of some scan ranges as batches of the query's columns by id, in no particular
    /// order. It sends each observation once, with `keep="last"` the newest of each pair. Memory stays bounded.
    fn scan(
        &self,
        ranges: &ScanRanges,
        query: ScanQuery,
        sink: &dyn MatchSink,
        call: &Call,
    ) -> Result<()>;

    /// Divides the table into `count` splits, at most [`crate::SCAN_RANGES`].
    fn splits(&self, count: usize) -> Vec<ScanSplit> {
        let (version, at) = self.version();
        ScanSplit::divide(count, self.id(), version, at)
    }

    /// Scans one of the [`TableSnapshot::splits`] of this version.
    ///
    /// # Errors
    /// `Expired` for a split of another version.
    fn scan_split(
        &self,
        split: &ScanSplit,
        query: ScanQuery,
        sink: &dyn MatchSink,
        call: &Call,
    ) -> Result<()> {
        if (split.table, split.version) != (self.id(), self.version().0) {
            let text = format!(
                "the range is of another version of table {}; take the ranges of this snapshot",
                self.name()
            );
            return Err(Error::new(ErrorKind::Expired, text));
        }
        self.scan(&split.scan_ranges(), query, sink, call)
    }

    /// Figures about the table. Rows in memory are counted as of now, even rows that are newer than the
    /// snapshot, unless rows are read.
    fn stats(&self, counting: Counting, call: &Call) -> Result<TableStats>;
}
