//! The copy of one table: erasures, comparison, rows, comparison.

use super::send::send;
use super::sums::{Compared, RangeSums, Sum, Summation};
use super::tombstones::TombstoneCopy;
use crate::{
    Call, Error, ErrorKind, OpenTables, Result, SCAN_RANGES, ScanRanges, Store, Table,
    TableSnapshot,
};
use idmatch_model::{TableName, TableOptions};
use std::sync::Arc;

/// Why a destination may have rows that the source lacks.
const OWN_ROWS: &str = "the destination has rows or newer dates of its own, which a copy does not \
     remove; copy to another name, or ask for a merge, which leaves the rows of both";
/// Why a destination may lack rows of the source.
const MISSING: &str = "rows are missing in the destination; if they were erased there they stay hidden, else \
     copy again, which is always safe";

/// The options of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyOptions {
    /// Rows of one load, about. At most this many rows are loaded again after a crash.
    pub batch_rows: u64,
    /// Whether the destination may have observations that the source lacks.
    pub merge: bool,
    /// Whether rows are copied when the destination cannot use the tombstones.
    pub accept_lost_erasures: bool,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions { batch_rows: 20_000_000, merge: false, accept_lost_erasures: false }
    }
}

/// The result of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// The observations of the source, without those that expire during the copy.
    pub source: Sum,
    /// The same observations of the destination, read back.
    pub destination: Sum,
    /// Observations that were sent.
    pub sent: u64,
    /// Tombstones that both stores have.
    pub erasures: u64,
    /// Tombstones that the destination cannot use.
    pub lost_erasures: u64,
}

/// Copies a table to a table of this name, which is created if it does not exist. The source is copied as it
/// was when the call began; later writes may wait for the next copy.
///
/// # Errors
/// `TableExists` for a destination with other options. `Differs` where the destination has observations that
/// the source lacks, unless merging is asked for; where the destination cannot take over erasures, unless
/// their loss is accepted; and where the tables are not equal in the end. `Cancelled`. Rows that were sent
/// stay, after any error.
pub fn copy_table(
    source: &Table,
    destination: &Arc<dyn Store>,
    name: &TableName,
    options: CopyOptions,
    call: &Call,
) -> Result<Copied> {
    let source = &source.with_call(call.clone());
    let wanted = source.options()?;
    let there = existing(destination, name, &wanted)?;
    let tombstones =
        TombstoneCopy::new(source, destination.as_ref(), options.accept_lost_erasures, call);
    let taken = tombstones.begin()?;
    let is_new = there.is_none();
    let target = match there {
        Some(table) => table,
        None => {
            let rows = source.stats()?.rows;
            destination.create_table(name, &wanted, Some(rows.max(1)), call)?;
            Table::named(destination, name)
        }
    };
    let target = target.with_call(call.clone());
    tombstones.finish(&target, &taken)?;
    let copy = Copy { target: &target, wanted, options, call };
    let (from, mut expected, compared, sent) = copy.send_what_differs(source, is_new)?;

    // Erasures of the source while rows were sent must hide these rows in the copy, too.
    let later = tombstones.begin()?;
    tombstones.finish(&target, &later)?;
    let erased = later.since(&taken);
    let after = target.snapshot()?;
    let mut now_compared = Compared::new(copy.wanted.retention.as_ref());
    if let (Some(key), false) = (later.erasures.key, erased.is_empty() || !later.is_usable) {
        now_compared = now_compared.without(key, erased);
    }
    let there = match now_compared.is_within(&compared) {
        true => copy.sums(from.as_ref(), after.as_ref(), &compared)?,
        false => {
            let both = copy.both(from.as_ref(), after.as_ref(), &now_compared)?;
            expected = both.0;
            both.1
        }
    };
    copy.check_end(&expected, &there)?;
    let count = later.erasures.hashes.len() as u64;
    Ok(Copied {
        source: expected.stable(),
        destination: there.stable(),
        sent,
        erasures: if later.is_usable { count } else { 0 },
        lost_erasures: if later.is_usable { 0 } else { count },
    })
}

/// The table of that name, if it exists. A table with other options cannot be a copy.
fn existing(
    destination: &Arc<dyn Store>,
    name: &TableName,
    wanted: &TableOptions,
) -> Result<Option<Table>> {
    if !destination.tables()?.contains(name) {
        return Ok(None);
    }
    let table = destination.table(name)?;
    let there = table.options()?;
    if there == *wanted {
        return Ok(Some(table));
    }
    Err(Error::new(
        ErrorKind::TableExists,
        format!(
            "the destination has a table {name} with {there}, the one to copy has {wanted}; \
             give both the same retention, or copy to another name"
        ),
    ))
}

/// A copy into an existing table.
struct Copy<'a> {
    target: &'a Table,
    wanted: TableOptions,
    options: CopyOptions,
    call: &'a Call,
}

/// The snapshot of the source, its sums, the rows that were compared for them, and the number of rows sent.
type SentOff = (Arc<dyn TableSnapshot>, RangeSums, Compared, u64);

impl Copy<'_> {
    fn send_what_differs(&self, source: &Table, is_new: bool) -> Result<SentOff> {
        let from = source.snapshot()?;
        let (mut before, mut ranges) = (RangeSums::none(), ScanRanges::all());
        let compared = if is_new {
            Compared::new(self.wanted.retention.as_ref())
        } else {
            let to = self.target.snapshot()?;
            let compared = Compared::new(self.wanted.retention.as_ref());
            let both = self.both(from.as_ref(), to.as_ref(), &compared)?;
            self.check_begin(&both)?;
            ranges = ScanRanges::of(|range| both.0.range(range) != both.1.range(range));
            before = both.0;
            compared
        };
        if ranges.is_empty() {
            return Ok((from, before, compared, 0));
        }
        let division = from.as_ref();
        let summation = Summation { division, compared: &compared, call: self.call, forward: None };
        let batch_rows = self.options.batch_rows;
        let sent = send(division, &ranges, summation, self.target, batch_rows)?;
        let rows = sent.all_rows();
        Ok((from, before.with(&ranges, &sent), compared, rows))
    }

    /// The sums of a table, in the ranges of the source.
    fn sums(
        &self,
        from: &dyn TableSnapshot,
        of: &dyn TableSnapshot,
        compared: &Compared,
    ) -> Result<RangeSums> {
        let summation = Summation { division: from, compared, call: self.call, forward: None };
        summation.read(of, &ScanRanges::all())
    }

    /// The sums of the source and the destination, which are read at the same time.
    fn both(
        &self,
        from: &dyn TableSnapshot,
        to: &dyn TableSnapshot,
        compared: &Compared,
    ) -> Result<(RangeSums, RangeSums)> {
        std::thread::scope(|scope| {
            let here = scope.spawn(|| self.sums(from, from, compared));
            let there = self.sums(from, to, compared);
            let here = here.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((here?, there?))
        })
    }

    /// Fails where ranges of the destination have more rows than the source's: a copy cannot make them equal.
    fn check_begin(&self, (here, there): &(RangeSums, RangeSums)) -> Result<()> {
        if self.options.merge || there.ranges_with_more_than(here) == 0 {
            return Ok(());
        }
        Err(self.differ(here, there, &format!("{OWN_ROWS}. Nothing was copied")))
    }

    fn check_end(&self, here: &RangeSums, there: &RangeSums) -> Result<()> {
        let is_missing = here.ranges_with_more_than(there) > 0;
        match (here.differing(there), is_missing, self.options.merge) {
            (0, ..) | (_, false, true) => Ok(()),
            (_, true, _) => Err(self.differ(here, there, MISSING)),
            (_, false, false) => Err(self.differ(here, there, OWN_ROWS)),
        }
    }

    fn differ(&self, here: &RangeSums, there: &RangeSums, why: &str) -> Error {
        let name = self.target.name();
        let (source, destination) = (here.stable(), there.stable());
        Error::new(
            ErrorKind::Differs,
            format!(
                "table {name} of the destination has {} rows (checksum {:032x}), the source has {} \
                 ({:032x}); {} of {SCAN_RANGES} scan ranges differ: {why}",
                destination.rows,
                destination.hash,
                source.rows,
                source.hash,
                here.differing(there),
            ),
        )
    }
}
