//! Scans a whole direction of a table by token ranges.

use super::shard_merge::{self, HotRows, Which};
use crate::context::{Row, TableContext};
use crate::error::unexpected;
use crate::row_buffer::Rows;
use crate::schema::bucket;
use crate::schema::metadata_cache::{Dates, TableMetadata};
use idmatch_model::{SeenAt, Side};
use idmatch_store::Result;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::task::JoinSet;

/// Average buckets of a range. Each range is read and retried by itself. Servers abort a read that
/// meets 100,000 CQL tombstones, so a range must not have many more rows.
const BUCKETS_PER_RANGE: usize = 16_000 / bucket::ROWS;
/// Token ranges that are read concurrently: a scan leaves most of the servers to other requests.
const CONCURRENT_RANGES: usize = 8;
/// Wanted rows of one batch, which may be larger by a page.
const BATCH_ROWS: usize = 10_000;

/// A token range: exclusive start, inclusive end.
fn tokens(range: usize, ranges: usize) -> (i64, i64) {
    let edge = |n: usize| {
        let width = (1_i128 << 64) / ranges.max(1) as i128;
        let edge = match n == ranges {
            true => i128::from(i64::MAX),
            false => i128::from(i64::MIN) + width * n as i128,
        };
        i64::try_from(edge).unwrap_or(i64::MAX)
    };
    // No key has the least token; the servers reserve it.
    (edge(range), edge(range + 1))
}

/// Receives the rows of a scan.
pub(crate) trait RowVisitor: Send + Sync + 'static {
    /// Sees a row: key, value, date. Returns whether it is wanted.
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool;

    /// Takes a batch of wanted rows, as key and value.
    fn batch(&self, rows: Rows) -> impl Future<Output = Result<()>> + Send;
}

/// Shows a visitor every current row of a direction: with keep="last" each pair once. Several tasks
/// call the visitor at once; one task sees all rows of a key. Cost: reads the whole direction;
/// memory: a few batches.
pub(crate) async fn scan(
    context: &Arc<TableContext>,
    by: Side,
    visit: impl RowVisitor,
) -> Result<()> {
    let metadata = context.metadata_cache.current().await?;
    let visit = Arc::new(visit);
    let met = scan_buckets(context, &metadata, by, &visit, Hot::Leave).await?;
    let mut keys = shard_merge::keys(context, &metadata, by).await?;
    keys.extend(met.into_keys());
    let mut batch = Rows::default();
    for key in keys {
        let which = Which::Counting(Dates::ALL);
        let mut places = HotRows::new(context, &metadata, (by, &key), None, which).await?;
        while let Some(rows) = places.next().await? {
            for (value, seen_at) in rows {
                if visit.row(&key, &value, seen_at) {
                    batch.push(&key, &value, seen_at);
                }
            }
            if batch.len() >= BATCH_ROWS {
                visit.batch(std::mem::take(&mut batch)).await?;
            }
        }
    }
    visit.batch(batch).await
}

/// Shows a visitor every stored row of the buckets, current or not. Returns the hot keys that it
/// meets there, with their row counts.
pub(crate) async fn scan_stored(
    context: &Arc<TableContext>,
    by: Side,
    visit: impl RowVisitor,
) -> Result<BTreeMap<String, u64>> {
    let metadata = context.metadata_cache.current().await?;
    scan_buckets(context, &metadata, by, &Arc::new(visit), Hot::Take).await
}

/// The bucket rows of keys that are recorded as hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hot {
    /// Shown as others are.
    Take,
    /// Shown together with the other rows of their key.
    Leave,
}

/// Returns the keys that are hot, recorded or not.
async fn scan_buckets<V: RowVisitor>(
    context: &Arc<TableContext>,
    metadata: &Arc<TableMetadata>,
    by: Side,
    visit: &Arc<V>,
    hot: Hot,
) -> Result<BTreeMap<String, u64>> {
    let buckets = metadata.definition.buckets.unsigned_abs() as usize;
    let ranges = buckets.div_ceil(BUCKETS_PER_RANGE).max(CONCURRENT_RANGES);
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CONCURRENT_RANGES {
        let next = Arc::clone(&next);
        let mut task = Task {
            context: Arc::clone(context),
            metadata: Arc::clone(metadata),
            by,
            visit: Arc::clone(visit),
            hot,
            batch: Rows::default(),
            met: BTreeMap::new(),
            key: String::new(),
            rows: 0,
            is_hot: false,
        };
        tasks.spawn(async move {
            loop {
                let range = next.fetch_add(1, Relaxed);
                if range >= ranges {
                    task.visit.batch(task.batch).await?;
                    return Ok(task.met);
                }
                task.read(tokens(range, ranges)).await?;
            }
        });
    }
    let mut met = BTreeMap::new();
    while let Some(done) = tasks.join_next().await {
        met.extend(done.unwrap_or_else(|e| Err(unexpected(&context.what(), e)))?);
    }
    Ok(met)
}

/// A task that reads ranges.
struct Task<V> {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    by: Side,
    visit: Arc<V>,
    hot: Hot,
    batch: Rows,
    /// Hot keys, with their row counts.
    met: BTreeMap<String, u64>,
    /// The last key, and the number of its rows so far.
    key: String,
    rows: u64,
    is_hot: bool,
}

impl<V: RowVisitor> Task<V> {
    async fn read(&mut self, tokens: (i64, i64)) -> Result<()> {
        let context = Arc::clone(&self.context);
        let statement = &context.by(self.by).range;
        let mut pages = context.pages(statement, tokens);
        while let Some(page) = pages.next().await? {
            context.each_row(&page, |row| {
                self.take(row);
                Ok(())
            })?;
            if self.batch.len() >= BATCH_ROWS {
                self.visit.batch(std::mem::take(&mut self.batch)).await?;
            }
        }
        self.end_key();
        Ok(())
    }

    fn take(&mut self, (key, value, seen_at): Row<'_>) {
        if key != self.key {
            self.end_key();
            key.clone_into(&mut self.key);
            self.is_hot = self.metadata.hot.shards(self.by, key).is_some();
        }
        self.rows += 1;
        if self.hot == Hot::Leave && self.is_hot {
            return;
        }
        if self.visit.row(key, value, seen_at) {
            self.batch.push(key, value, seen_at);
        }
    }

    fn end_key(&mut self) {
        let wanted = match self.hot {
            Hot::Leave => self.rows > 0 && self.is_hot,
            Hot::Take => self.rows > self.context.client.settings().hot_key_rows,
        };
        if wanted {
            self.met.insert(std::mem::take(&mut self.key), self.rows);
        }
        (self.rows, self.key) = (0, String::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_are_the_whole_ring() {
        for ranges in [1, 16, 1_000, 1_024] {
            assert_eq!(tokens(0, ranges).0, i64::MIN);
            assert_eq!(tokens(ranges - 1, ranges).1, i64::MAX);
            assert!((1..ranges).all(|n| tokens(n - 1, ranges).1 == tokens(n, ranges).0));
        }
    }
}
