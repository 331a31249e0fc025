//! The questions a store answers. Batch-first and synchronous.

use crate::{BatchSource, Error, ErrorKind, Match, MatchQuery, ObservationSource, Result, Scan};
use idmatch_model::{ErasureKey, Period, SeenAt, Side, TableName, TableOptions, Target, Window};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A set of tables.
pub trait Store: Send + Sync {
    /// Makes a table. One that is there already with the same options is returned as it
    /// is; with others it is an error ([`crate::ErrorKind::TableExists`]).
    fn create_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>>;

    /// A table that its first load makes, so that a load that fails leaves no table behind, where a
    /// store can do that; others make it now. One that is there already is treated as by
    /// [`Store::create_table`].
    fn new_table(&self, name: &TableName, options: &TableOptions) -> Result<Arc<dyn Table>> {
        self.create_table(name, options)
    }

    /// A table that exists.
    fn table(&self, name: &TableName) -> Result<Arc<dyn Table>>;

    /// The names of all tables, ascending.
    fn tables(&self) -> Result<Vec<TableName>>;

    /// Lets this store and its tables see what other processes have published.
    fn refresh(&self) -> Result<()>;

    /// Copies a consistent point of the whole store to a new place.
    fn backup(&self, destination: &Path) -> Result<()>;

    /// Has a store whose erasures are not hashed with any secret yet use this one from now on. Returns
    /// the one that it uses: its own where it has one.
    fn adopt_erasure_key(&self, key: ErasureKey) -> Result<ErasureKey>;

    /// Closes the store for good: all that would write it from now on, through a table too, may be refused.
    fn end(&self) -> Result<()> {
        Ok(())
    }
}

/// A named set of observations. Every question holds to the table's retention.
pub trait Table: Send + Sync {
    /// Its name.
    fn name(&self) -> &TableName;

    /// What was chosen for it.
    fn options(&self) -> Result<TableOptions>;

    /// Chooses another retention. What it hides is hidden at once, and gone for good when it was
    /// compacted; what it shows again is what is still there.
    fn set_retention(&self, retention: Option<Period>) -> Result<()>;

    /// Adds observations, all or nothing where the backend can do that; else nothing of a strict source
    /// that fails.
    fn load(&self, rows: &dyn ObservationSource) -> Result<()>;

    /// Adds observations at once and for good: when this returns they are durable, and every
    /// later question has them, in both directions. Up to 100,000 rows are seen whole or not at
    /// all; more are cut into batches of that kind. After an error those before it stay. Of the
    /// store's durability and this one the stricter counts.
    fn upsert(&self, rows: &dyn ObservationSource, durability: Option<Durability>) -> Result<()>;

    /// Hides every observation with `seen_at <= at` of some identifiers or pairs, in both directions
    /// and for good: also those that arrive later. All or nothing.
    fn erase(&self, targets: &[Target], at: SeenAt) -> Result<Erased>;

    /// All that it remembers of what was erased: no identifier, but what hides it, also when it
    /// arrives late.
    fn erasures(&self) -> Result<Erasures>;

    /// Takes over what another table remembers, as if the same had been erased here at the same dates. All
    /// or nothing, and safe to repeat.
    ///
    /// # Errors
    /// `Differs` for erasures that are hashed with another secret than this store's.
    fn add_erasures(&self, erasures: &Erasures) -> Result<()>;

    /// Everything that is to be seen, to be read as a whole: of a store in files as it is now, of one on
    /// servers as it is when it is read, without what a retention hides now.
    fn scan(&self) -> Result<Box<dyn Scan>>;

    /// What goes with one key, newest first, ties by the bytes of the answer.
    fn answers(&self, by: Side, key: &str, window: Window) -> Result<Box<dyn Answers>>;

    /// The newest date of a pair.
    fn last_seen(&self, id: &str, partner_id: &str) -> Result<Option<SeenAt>>;

    /// The dates of a pair, newest first; with `keep="last"` at most one.
    fn history(&self, id: &str, partner_id: &str) -> Result<Vec<SeenAt>>;

    /// Joins a population, whose batches have one ID column, and counts the matches.
    fn match_population(
        &self,
        population: &mut dyn BatchSource,
        query: MatchQuery,
    ) -> Result<Box<dyn Match>>;

    /// Writes the table's rows anew where that makes them fewer or faster to read, without those
    /// that are older than its retention. Answers stay the same. Readers go on meanwhile.
    fn compact(&self) -> Result<()>;

    /// Reads everything there is of the table and checks it. What is wrong comes back as
    /// findings; an error means that the check itself could not be done.
    fn verify(&self) -> Result<Vec<Finding>>;

    /// Checks the table and mends what is wrong: each direction from the other. Nothing changes where
    /// some rows would be lost, because both are damaged (`Corrupt`), unless that is accepted.
    fn repair(&self, accept_loss: bool) -> Result<Repaired>;

    /// Figures about the table that are known without reading it.
    fn stats(&self) -> Result<TableStats>;

    /// How many distinct identifiers and pairs there are. Of a large table a part is read.
    fn distinct(&self) -> Result<Distinct>;

    /// The same table for a caller who may give up: where matching, erasing, compacting, verifying,
    /// repairing or a change of retention waits for servers, it ends with an error soon after the flag is
    /// set. What was sent stays, and to repeat it is safe; of a change `UnknownOutcome` says so. `None`
    /// where nothing waits for others.
    fn stopped_by(&self, _stop: &Arc<AtomicBool>) -> Option<Arc<dyn Table>> {
        None
    }
}

/// What the acknowledgement of an upsert means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Durability {
    /// It is durable.
    #[default]
    Always,
    /// It will be, within this time: a failure of power or system may lose what was acknowledged
    /// so shortly before. A failure of the process loses nothing.
    Interval(Duration),
}

/// A stream of answers to a question by one key.
pub trait Answers: Send {
    /// The next answer, or `None` after the last.
    fn next_answer(&mut self) -> Result<Option<(&str, SeenAt)>>;
}

/// Something that a check found to be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, or another place, it is in.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

/// What an erasure found, direction by direction: rows that were there and no longer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Erased {
    /// Pairs, or observations with `keep="all"`, found by their id.
    pub by_id: u64,
    /// The same, found by their partner_id.
    pub by_partner_id: u64,
}

/// What a table remembers of what was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erasures {
    /// The secret of the store, with which the targets are hashed; none where nothing was erased.
    pub key: Option<ErasureKey>,
    /// The hash of each target ([`ErasureKey::of`]), and up to when it is hidden.
    pub hashes: Vec<(u128, SeenAt)>,
}

impl Erasures {
    /// Refuses erasures that a table whose store has this secret can make nothing of.
    ///
    /// # Errors
    /// `Differs`.
    pub fn check_key(&self, key: Option<ErasureKey>, table: &TableName) -> Result<()> {
        if self.hashes.is_empty() || self.key == key {
            return Ok(());
        }
        let text =
            format!("the erasures for table {table} are hashed with the secret of another store");
        Err(Error::new(ErrorKind::Differs, text))
    }
}

/// What a repair found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// What was wrong before; empty if nothing was, and then nothing was done.
    pub findings: Vec<Finding>,
    /// Rows that could be read in neither direction: so many at most.
    pub lost_at_most: u64,
}

/// Distinct identifiers and pairs, retention aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Distinct {
    /// Different ids.
    pub ids: u64,
    /// Different partner_ids.
    pub partner_ids: u64,
    /// Different pairs of the two.
    pub pairs: u64,
    /// Whether all was counted; else some share of it, and the rest taken to be alike.
    pub is_exact: bool,
}

/// Figures about a table, as stored: before windows and retention.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableStats {
    /// Observations stored per direction. Several loads may store a pair more than once.
    pub rows: u64,
    /// Bytes on disk, both directions.
    pub bytes: u64,
    /// Segments, both directions.
    pub segments: u64,
    /// Of the rows, those that were upserted and are not in segments yet.
    pub memtable_rows: u64,
    /// The memory that these take.
    pub memtable_bytes: u64,
    /// Bytes that merges in the background are yet to write anew.
    pub pending_compaction_bytes: u64,
    /// Erasures remembered.
    pub erasures: u64,
    /// The oldest date stored.
    pub oldest: Option<SeenAt>,
    /// The newest date stored.
    pub newest: Option<SeenAt>,
    /// How many rows the table was made for, where its layout depends on that.
    pub expected_rows: Option<u64>,
}
