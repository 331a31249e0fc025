//! Compares both directions of a table, and mends what only one of them has.
//!
//! First each direction is read once and summed up: the hash of every row is added to one of many
//! cells, which does not depend on the order. Only rows of cells that differ are read again and compared.
//! What differs then is asked for once more, row by row: it may have been on its way.

use crate::handle::Handle;
use crate::rows::Rows;
use crate::scan::{Visit, scan};
use crate::state::{Known, Visible};
use crate::write::write;
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{Keep, SeenAt, Side, Window};
use idmatch_store::{Error, ErrorKind, Finding, Result};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use twox_hash::XxHash3_64;

/// Cells of the comparison. A table with one difference is read again, but one row in so many is kept.
const CELLS: usize = 1 << 22;
/// Rows of differing cells that are compared in memory.
const MOST_ROWS: usize = 10_000_000;

/// Rows that are asked for once more at a time.
const AT_ONCE: usize = 32;

/// A row that the directions do not agree on, and what each has of it.
pub(crate) struct Difference {
    pub(crate) id: String,
    pub(crate) partner_id: String,
    by_id: Option<SeenAt>,
    by_partner_id: Option<SeenAt>,
}

impl Difference {
    fn newest(&self) -> Option<SeenAt> {
        self.by_id.max(self.by_partner_id)
    }

    pub(crate) fn finding(&self, handle: &Handle) -> Finding {
        let shown = |date: Option<SeenAt>| date.map_or("nothing".to_owned(), |d| d.to_string());
        Finding {
            place: format!("{}, id {:?}, partner_id {:?}", handle.what(), self.id, self.partner_id),
            problem: format!(
                "by id there is {}, by partner_id {}",
                shown(self.by_id),
                shown(self.by_partner_id)
            ),
        }
    }
}

/// What is compared: a retention that ends a row between the two readings is no difference.
#[derive(Clone)]
struct Shown {
    known: Arc<Known>,
    visible: Visible,
}

impl Shown {
    fn shows(&self, by: Side, row: (&str, &str, SeenAt)) -> bool {
        self.known.shows(&self.visible, by, row)
    }
}

type Cells = Arc<Vec<AtomicU64>>;
/// What the directions have of a row: with keep="all" each date is one.
type Found = BTreeMap<(Pair, Option<SeenAt>), (Option<SeenAt>, Option<SeenAt>)>;
/// An id and a partner_id.
type Pair = (String, String);

/// The rows that the directions do not agree on. Cost: both are read, twice where they differ; memory:
/// 64 MiB, and the rows of cells that differ.
pub(crate) async fn differences(handle: &Arc<Handle>) -> Result<Vec<Difference>> {
    let known = handle.state.refresh().await?;
    let shown = Shown { visible: known.visible(Window::ALL), known };
    let by_id = sums(handle, &shown, Side::Id).await?;
    let by_partner_id = sums(handle, &shown, Side::PartnerId).await?;
    let cell = |(n, (a, b)): (usize, (&AtomicU64, &AtomicU64))| {
        (a.load(Relaxed) != b.load(Relaxed)).then_some(n)
    };
    let differ: HashSet<usize> =
        by_id.iter().zip(by_partner_id.iter()).enumerate().filter_map(cell).collect();
    if differ.is_empty() {
        return Ok(Vec::new());
    }
    let found = Arc::new(Mutex::new(Found::new()));
    let differ = Arc::new(differ);
    for by in Side::BOTH {
        let (shown, cells, found) = (shown.clone(), Arc::clone(&differ), Arc::clone(&found));
        scan(handle, by, Collect { shown, by, cells, found }).await?;
    }
    let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
    // What was erased meanwhile is hidden, however much of it is still there.
    let known = handle.state.refresh().await?;
    let shown = Shown { known, ..shown };
    let checked: Vec<Option<Difference>> = stream::iter(found)
        .filter(|(_, (first, second))| ready(first != second))
        .map(|(((id, partner_id), date), _)| check(handle, &shown, (id, partner_id), date))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    Ok(checked.into_iter().flatten().collect())
}

/// Asks for a row once more.
async fn check(
    handle: &Arc<Handle>,
    shown: &Shown,
    (id, partner_id): Pair,
    date: Option<SeenAt>,
) -> Result<Option<Difference>> {
    let asked = date.unwrap_or(SeenAt::EPOCH);
    let known = &shown.known;
    let by_id = handle.row(known, Side::Id, (&id, &partner_id, asked)).await?;
    let by_partner_id = handle.row(known, Side::PartnerId, (&partner_id, &id, asked)).await?;
    let difference = Difference { id, partner_id, by_id, by_partner_id };
    let row = |date| (difference.id.as_str(), difference.partner_id.as_str(), date);
    let is_shown = difference.newest().is_some_and(|date| shown.shows(Side::Id, row(date)));
    Ok((is_shown && by_id != by_partner_id).then_some(difference))
}

/// Writes to both directions what one of them lacks.
pub(crate) async fn mend(handle: &Arc<Handle>, differences: &[Difference]) -> Result<()> {
    let mut rows = Rows::default();
    for difference in differences {
        if let Some(date) = difference.newest() {
            rows.push(&difference.id, &difference.partner_id, date);
        }
    }
    write(handle, rows).await
}

async fn sums(handle: &Arc<Handle>, shown: &Shown, by: Side) -> Result<Cells> {
    let cells: Cells = Arc::new((0..CELLS).map(|_| AtomicU64::new(0)).collect());
    scan(handle, by, Sum { shown: shown.clone(), by, cells: Arc::clone(&cells) }).await?;
    Ok(cells)
}

struct Sum {
    shown: Shown,
    by: Side,
    cells: Cells,
}

impl Visit for Sum {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        if self.shown.shows(self.by, (key, value, seen_at)) {
            let (cell, hash) = hash(self.by, key, value, seen_at);
            if let Some(sum) = self.cells.get(cell) {
                sum.fetch_add(hash, Relaxed);
            }
        }
        false
    }

    async fn portion(&self, _: Rows) -> Result<()> {
        Ok(())
    }
}

/// The cell of a pair, and the hash of its row.
fn hash(by: Side, key: &str, value: &str, seen_at: SeenAt) -> (usize, u64) {
    let (id, partner_id) = match by {
        Side::Id => (key, value),
        Side::PartnerId => (value, key),
    };
    // The seed keeps (ab, c) and (a, bc) apart.
    let first = XxHash3_64::oneshot(id.as_bytes());
    let pair = XxHash3_64::oneshot_with_seed(first, partner_id.as_bytes());
    let row = XxHash3_64::oneshot_with_seed(pair, &seen_at.millis().to_le_bytes());
    (pair as usize % CELLS, row)
}

/// Collects the rows of some cells.
struct Collect {
    shown: Shown,
    by: Side,
    cells: Arc<HashSet<usize>>,
    found: Arc<Mutex<Found>>,
}

impl Visit for Collect {
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool {
        self.cells.contains(&hash(self.by, key, value, seen_at).0)
            && self.shown.shows(self.by, (key, value, seen_at))
    }

    async fn portion(&self, rows: Rows) -> Result<()> {
        let each_date = self.shown.known.definition.keep == Keep::All;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for row in 0..rows.len() {
            // What a portion calls id is the key of its direction.
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
        let text = "the directions differ too much to be compared; load the table anew";
        Err(Error::new(ErrorKind::Corrupt, text))
    }
}
