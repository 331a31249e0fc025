//! Compares both directions of a table.
//!
//! One scan of each direction sums up its rows: the hash of every row is added to one of many cells, so the
//! order of rows does not matter. Only rows of cells that differ are read again and compared. Where such rows
//! are many, as in a large table under writes, another scan first divides them into more cells. Each row that
//! still differs is read once more, because a write may have been in flight.

use crate::context::TableContext;
use crate::read::row::row;
use crate::read::scan::{RowVisitor, ScanCall, scan};
use crate::row_buffer::RowBuffer;
use crate::schema::bucket::{Buckets, expected_rows};
use crate::schema::metadata_cache::{TableMetadata, VisibleRange};
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{Call, Error, ErrorKind, Finding, Result, now};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Most cells of the comparison. A table with one difference is scanned again, but keeps one row in
/// this many.
const MOST_CELLS: u64 = 1 << 22;
/// Expected rows of a cell, in a table with fewer cells than `MOST_CELLS`.
const CELL_ROWS: u64 = 4;
/// Rows of differing cells that are compared in memory, a few hundred bytes each.
const MOST_ROWS: usize = 5_000_000;
/// Estimated rows of differing cells above which the cells are divided before their rows are compared.
const MANY_ROWS: u64 = MOST_ROWS as u64 / 10;

/// Concurrent reads of single rows that differ.
const CONCURRENT_ROW_READS: usize = 32;
/// A write reaches both directions within this time, unless servers are in trouble.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// Number of reads of a row that changes all the time.
const TRIES: usize = 5;

/// A row on which the directions differ, and its date in each of them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RowDifference {
    pub(crate) id: String,
    pub(crate) partner_id: String,
    by_id: Option<SeenAt>,
    by_partner_id: Option<SeenAt>,
}

impl RowDifference {
    pub(super) fn newest(&self) -> Option<SeenAt> {
        self.by_id.max(self.by_partner_id)
    }

    /// Names the partitions of the row. Findings go to logs, so they name no identifier.
    pub(crate) fn finding(&self, context: &TableContext) -> Finding {
        let shown = |date: Option<SeenAt>| date.map_or("nothing".to_owned(), |d| d.to_string());
        let [by_id, by_partner_id] =
            [&self.id, &self.partner_id].map(|key| context.buckets.of(key));
        Finding {
            place: format!(
                "{}, a row of bucket {by_id} by id, {by_partner_id} by partner_id",
                context.what()
            ),
            problem: format!(
                "by id there is {}, by partner_id {}",
                shown(self.by_id),
                shown(self.by_partner_id)
            ),
        }
    }
}

/// Selects the rows to compare. Both scans use one reading of the clock, so a row that expires between them
/// is no difference.
#[derive(Clone)]
struct RowFilter {
    metadata: Arc<TableMetadata>,
    visible: VisibleRange,
}

impl RowFilter {
    fn shows(&self, by: Side, row: (&str, &str, SeenAt)) -> bool {
        self.metadata.shows(&self.visible, by, row)
    }
}

type Sums = Arc<Vec<AtomicU64>>;
/// The date of each row in both directions. With keep="all" each date of a pair is a row.
type DatesByRow = BTreeMap<(Pair, Option<SeenAt>), (Option<SeenAt>, Option<SeenAt>)>;
/// An id and a partner_id.
type Pair = (String, String);

/// Selects the rows whose pair is in the chosen cells of every division. Without divisions it selects all
/// rows.
#[derive(Clone)]
struct Chosen {
    buckets: Buckets,
    /// Cells of each division: a power of two.
    cells: u64,
    divisions: Vec<Arc<HashSet<usize>>>,
}

impl Chosen {
    /// Selects all rows of a table with these buckets.
    fn all(buckets: Buckets) -> Chosen {
        let cells = expected_rows(buckets.number) / CELL_ROWS;
        let cells = cells.clamp(1, MOST_CELLS).next_power_of_two();
        Chosen { buckets, cells, divisions: Vec::new() }
    }

    /// The hashes of a pair and of its row, alike in both directions.
    fn hashes(&self, by: Side, (key, value): (&str, &str), seen_at: SeenAt) -> (u64, u64) {
        match by {
            Side::Id => self.buckets.row_hashes((key, value), seen_at),
            Side::PartnerId => self.buckets.row_hashes((value, key), seen_at),
        }
    }

    fn has(&self, pair: u64) -> bool {
        let mut divisions = self.divisions.iter().enumerate();
        divisions.all(|(division, cells)| cells.contains(&self.cell(pair, division)))
    }

    /// The cell of a pair in one of the divisions.
    fn cell(&self, pair: u64, division: usize) -> usize {
        (pair.rotate_right(self.cells.ilog2() * division as u32) % self.cells) as usize
    }
}

/// The rows on which the directions differ. Cost: a scan of each direction, a second one where they differ, a
/// third where many rows differ. Memory: 4 to 8 bytes for each row that the table was made for, up to 64 MiB,
/// and the rows of cells that differ.
///
/// # Errors
/// `Differs` where the cells that differ have too many rows to compare.
pub(crate) async fn differences(
    context: &Arc<TableContext>,
    call: &Call,
) -> Result<Vec<RowDifference>> {
    let call = &ScanCall(call.clone(), "verify");
    let metadata = context.metadata_cache.refresh().await?;
    let filter = RowFilter { visible: metadata.visible_range(Window::ALL, now()), metadata };
    let mut chosen = Chosen::all(context.buckets);
    for _ in 0..2 {
        let (cells, rows) = differing(context, &filter, &chosen, call).await?;
        if cells.is_empty() {
            return Ok(Vec::new());
        }
        let is_many = rows / chosen.cells * cells.len() as u64 > MANY_ROWS;
        chosen.divisions.push(Arc::new(cells));
        if !is_many {
            break;
        }
    }
    let found = Arc::new(Mutex::new(DatesByRow::new()));
    for by in Side::BOTH {
        let (filter, chosen, found) = (filter.clone(), chosen.clone(), Arc::clone(&found));
        scan(context, by, call.clone(), Collect { filter, by, chosen, found }).await?;
    }
    let found = std::mem::take(&mut *found.lock());
    // Rows that were erased meanwhile are hidden, even if they are still stored.
    let metadata = context.metadata_cache.refresh().await?;
    let filter = RowFilter { metadata, ..filter };
    let suspects = found.into_iter().filter(|(_, (by_id, by_partner_id))| by_id != by_partner_id);
    let suspects: Vec<_> = suspects.map(|(row, _)| row).collect();
    let first = ask(context, &filter, suspects).await?;
    if first.is_empty() {
        return Ok(Vec::new());
    }
    // A write of a row reaches one direction before the other. A row that has changed by the second read was
    // in flight.
    tokio::time::sleep(UNDER_WAY).await;
    let metadata = context.metadata_cache.refresh().await?;
    let filter = RowFilter { metadata, ..filter };
    let again = ask(context, &filter, first.iter().map(|(row, _)| row.clone()).collect()).await?;
    let before: BTreeMap<_, _> = first.into_iter().collect();
    let lasting = again.into_iter().filter(|(row, now)| before.get(row) == Some(now));
    Ok(lasting.map(|(_, difference)| difference).collect())
}

/// The cells of the next division that differ, and the number of selected rows in a direction.
async fn differing(
    context: &Arc<TableContext>,
    filter: &RowFilter,
    chosen: &Chosen,
    call: &ScanCall,
) -> Result<(HashSet<usize>, u64)> {
    let (by_id, rows) = sums(context, (filter, chosen), Side::Id, call).await?;
    let (by_partner_id, _) = sums(context, (filter, chosen), Side::PartnerId, call).await?;
    let differs = |(n, (a, b)): (usize, (&AtomicU64, &AtomicU64))| {
        (a.load(Relaxed) != b.load(Relaxed)).then_some(n)
    };
    Ok((by_id.iter().zip(by_partner_id.iter()).enumerate().filter_map(differs).collect(), rows))
}

/// A row to read again, and how the directions differ.
type Asked = ((Pair, Option<SeenAt>), RowDifference);

/// Reads rows again; returns the rows that still differ.
async fn ask(
    context: &Arc<TableContext>,
    filter: &RowFilter,
    rows: Vec<(Pair, Option<SeenAt>)>,
) -> Result<Vec<Asked>> {
    stream::iter(rows)
        .map(async |row| Ok(ask_one(context, filter, &row).await?.map(|found| (row, found))))
        .buffered(CONCURRENT_ROW_READS)
        .try_filter_map(async |found| Ok(found))
        .try_collect()
        .await
}

async fn ask_one(
    context: &Arc<TableContext>,
    filter: &RowFilter,
    ((id, partner_id), date): &(Pair, Option<SeenAt>),
) -> Result<Option<RowDifference>> {
    let asked = date.unwrap_or(SeenAt::EPOCH);
    let metadata = &filter.metadata;
    let read_by_id = || row(context, metadata, Side::Id, (id, partner_id, asked));
    let mut by_id = read_by_id().await?;
    for _ in 0..TRIES {
        let by_partner_id =
            row(context, metadata, Side::PartnerId, (partner_id, id, asked)).await?;
        if by_id == by_partner_id {
            return Ok(None);
        }
        let before = std::mem::replace(&mut by_id, read_by_id().await?);
        // Otherwise the row was written between the two reads by id.
        if before == by_id {
            let (id, partner_id) = (id.clone(), partner_id.clone());
            let found = RowDifference { id, partner_id, by_id, by_partner_id };
            let row = |date| (found.id.as_str(), found.partner_id.as_str(), date);
            let is_shown = found.newest().is_some_and(|at| filter.shows(Side::Id, row(at)));
            return Ok(is_shown.then_some(found));
        }
    }
    // Writes change the row at every read, so the directions cannot be compared.
    Ok(None)
}

/// The sums of the next division's cells, and the number of rows in them.
async fn sums(
    context: &Arc<TableContext>,
    (filter, chosen): (&RowFilter, &Chosen),
    by: Side,
    call: &ScanCall,
) -> Result<(Sums, u64)> {
    let cells: Sums = Arc::new((0..chosen.cells).map(|_| AtomicU64::new(0)).collect());
    let rows = Arc::new(AtomicU64::new(0));
    let (filter, chosen) = (filter.clone(), chosen.clone());
    let sum = SumVisitor { filter, by, chosen, cells: Arc::clone(&cells), rows: Arc::clone(&rows) };
    scan(context, by, call.clone(), sum).await?;
    let rows = rows.load(Relaxed);
    Ok((cells, rows))
}

struct SumVisitor {
    filter: RowFilter,
    by: Side,
    chosen: Chosen,
    cells: Sums,
    rows: Arc<AtomicU64>,
}

impl RowVisitor for SumVisitor {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        let (pair, row) = self.chosen.hashes(self.by, (key, value), seen_at);
        if self.chosen.has(pair) && self.filter.shows(self.by, (key, value, seen_at)) {
            self.rows.fetch_add(1, Relaxed);
            if let Some(sum) = self.cells.get(self.chosen.cell(pair, self.chosen.divisions.len())) {
                sum.fetch_add(row, Relaxed);
            }
        }
        false
    }

    async fn batch(&self, _: RowBuffer) -> Result<()> {
        Ok(())
    }
}

/// Collects the rows of some cells.
struct Collect {
    filter: RowFilter,
    by: Side,
    chosen: Chosen,
    found: Arc<Mutex<DatesByRow>>,
}

impl RowVisitor for Collect {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        self.chosen.has(self.chosen.hashes(self.by, (key, value), seen_at).0)
            && self.filter.shows(self.by, (key, value, seen_at))
    }

    async fn batch(&self, rows: RowBuffer) -> Result<()> {
        let each_date = self.filter.metadata.definition.keep == Keep::All;
        let mut found = self.found.lock();
        for row in 0..rows.len() {
            // A scan stores the key of its direction as the id.
            let (id, partner_id) = rows.pair(row, self.by);
            let (seen_at, pair) = (rows.seen_at(row), (id.to_owned(), partner_id.to_owned()));
            let dates = found.entry((pair, each_date.then_some(seen_at))).or_default();
            match self.by {
                Side::Id => dates.0 = Some(seen_at),
                Side::PartnerId => dates.1 = Some(seen_at),
            }
        }
        if found.len() <= MOST_ROWS {
            return Ok(());
        }
        let text = "the directions differ in too much to be compared: where much is written, repeat \
                    this when less is; where one direction has lost its rows, load the table again";
        Err(Error::new(ErrorKind::Differs, text))
    }
}
