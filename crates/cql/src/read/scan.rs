//! Scans a direction of a table, or some scan ranges of it. Reads the buckets by token ranges, and each hot
//! key from its bucket and its shards.
//!
//! The highest bits of the token of a key's bucket are its scan range. So consecutive scan ranges are one
//! token range.

use super::shard_merge::{self, HotKeyReader, RowSelection};
use crate::context::{DirectionRow, TableContext};
use crate::error::unexpected;
use crate::row_buffer::RowBuffer;
use crate::schema::bucket;
use crate::schema::metadata_cache::{Dates, TableMetadata};
use idmatch_model::{SeenAt, Side};
use idmatch_store::locks::Mutex;
use idmatch_store::{Call, Result, SCAN_RANGES, ScanRanges, Unit};
use scylla::routing::partitioner::{Murmur3Partitioner, Partitioner};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Average buckets of a range. Each range is read and retried by itself. Servers abort a read that
/// meets 100,000 CQL tombstones, so a range must not have many more rows.
const BUCKETS_PER_RANGE: usize = 16_000 / bucket::ROWS;
/// Token ranges that are read concurrently: a scan leaves most of the servers to other requests.
const CONCURRENT_RANGES: usize = 8;
/// Wanted rows of one batch, which may be larger by a page.
const BATCH_ROWS: usize = 10_000;

/// Tokens of a scan range: 2 to the power of this.
const SCAN_RANGE_TOKENS_BITS: u32 = u64::BITS - SCAN_RANGES.trailing_zeros();

/// The scan range of a token: its highest bits.
pub(super) fn scan_range_of_token(token: i64) -> usize {
    // Tokens are signed; scan range 0 begins at the least token.
    let from_least = token.cast_unsigned() ^ (1 << (u64::BITS - 1));
    (from_least >> SCAN_RANGE_TOKENS_BITS) as usize
}

/// The token ranges of some scan ranges, each an exclusive start and an inclusive end. They are as wide as if
/// the whole ring had `ranges_of_ring`. Consecutive scan ranges have at least one token range.
fn token_ranges(
    scan_ranges: &ScanRanges,
    ranges_of_ring: usize,
) -> impl Iterator<Item = (i64, i64)> + use<> {
    let wanted: Vec<usize> =
        (0..SCAN_RANGES).filter(|scan_range| scan_ranges.contains(*scan_range)).collect();
    let runs = wanted.chunk_by(|a, b| a + 1 == *b);
    let runs: Vec<(usize, usize)> =
        runs.filter_map(|run| Some((*run.first()?, run.len()))).collect();
    runs.into_iter().flat_map(move |(first, length)| {
        let ranges = (ranges_of_ring * length).div_ceil(SCAN_RANGES).max(1);
        let edge = move |range: usize| {
            let tokens = (length as i128) << SCAN_RANGE_TOKENS_BITS;
            let before = ((first as i128) << SCAN_RANGE_TOKENS_BITS)
                + tokens * range as i128 / ranges as i128;
            // No key has the least token; the servers reserve it.
            i64::try_from(i128::from(i64::MIN) + before - 1).unwrap_or(i64::MIN)
        };
        (0..ranges).map(move |range| (edge(range), edge(range + 1)))
    })
}

/// The call of a scan, and the name of its stage.
#[derive(Clone)]
pub(crate) struct ScanCall(pub(crate) Call, pub(crate) &'static str);

impl ScanCall {
    fn report(&self, rows: usize) -> Result<()> {
        self.0.report(self.1, rows as u64, Unit::Rows)
    }
}

/// Receives the rows of a scan.
pub(crate) trait RowVisitor: Send + Sync + 'static {
    /// Sees a row: key, value, date. Returns whether it is wanted.
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool;

    /// Takes a batch of wanted rows, as key and value.
    fn batch(&self, rows: RowBuffer) -> impl Future<Output = Result<()>> + Send;
}

/// Shows a visitor every current row of a direction: with keep="last" each pair once. Several tasks
/// call the visitor at once; one task sees all rows of a key. Cost: reads the whole direction;
/// memory: a few batches.
pub(crate) async fn scan(
    context: &Arc<TableContext>,
    by: Side,
    call: ScanCall,
    visit: impl RowVisitor,
) -> Result<()> {
    scan_ranges(context, (by, &ScanRanges::all()), call, visit).await
}

/// Scans the keys of some scan ranges, as `scan` does. Cost: reads these ranges of the direction, and the
/// list of hot keys.
pub(crate) async fn scan_ranges(
    context: &Arc<TableContext>,
    (by, scan_ranges): (Side, &ScanRanges),
    call: ScanCall,
    visit: impl RowVisitor,
) -> Result<()> {
    let metadata = context.metadata_cache.current().await?;
    let visit = Arc::new(visit);
    let scanned = Scanned { by, hot: HotRows::Leave, call: call.clone() };
    let met = scan_buckets(context, &metadata, (scanned, scan_ranges), &visit).await?;
    let mut keys = shard_merge::keys(context, &metadata, by).await?;
    keys.retain(|key| scan_ranges.contains(scan_range_of_key(context, key)));
    keys.extend(met.into_keys());
    let mut batch = RowBuffer::default();
    for key in keys {
        let which = RowSelection::Counting(Dates::ALL);
        let mut partitions = HotKeyReader::new(context, &metadata, (by, &key), None, which).await?;
        while let Some(rows) = partitions.next().await? {
            call.report(rows.len())?;
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
    call: ScanCall,
    visit: impl RowVisitor,
) -> Result<BTreeMap<String, u64>> {
    let metadata = context.metadata_cache.current().await?;
    let scanned = Scanned { by, hot: HotRows::Take, call };
    scan_buckets(context, &metadata, (scanned, &ScanRanges::all()), &Arc::new(visit)).await
}

/// The scan range of a key.
pub(crate) fn scan_range_of_key(context: &TableContext, key: &str) -> usize {
    scan_range_of_bucket(context.buckets.of(key))
}

fn scan_range_of_bucket(bucket: i32) -> usize {
    scan_range_of_token(Murmur3Partitioner.hash_one(&bucket.to_be_bytes()).value())
}

/// The arguments that the tasks of a scan share.
#[derive(Clone)]
struct Scanned {
    by: Side,
    hot: HotRows,
    call: ScanCall,
}

/// How a scan of buckets shows the rows of keys that are recorded as hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HotRows {
    /// Shows them like other rows.
    Take,
    /// Leaves them out: they are shown together with the other rows of their key.
    Leave,
}

/// Scans buckets; returns keys with their row counts. With `Leave` they are the keys that are recorded as
/// hot, with `Take` all keys with more than `hot_key_rows` rows.
async fn scan_buckets<V: RowVisitor>(
    context: &Arc<TableContext>,
    metadata: &Arc<TableMetadata>,
    (scanned, scan_ranges): (Scanned, &ScanRanges),
    visit: &Arc<V>,
) -> Result<BTreeMap<String, u64>> {
    let buckets = context.buckets.number.unsigned_abs() as usize;
    let ranges = buckets.div_ceil(BUCKETS_PER_RANGE).max(CONCURRENT_RANGES);
    let ranges = Arc::new(Mutex::new(token_ranges(scan_ranges, ranges)));
    let mut tasks = JoinSet::new();
    for _ in 0..CONCURRENT_RANGES {
        let ranges = Arc::clone(&ranges);
        let mut task = Task {
            context: Arc::clone(context),
            metadata: Arc::clone(metadata),
            scanned: scanned.clone(),
            visit: Arc::clone(visit),
            batch: RowBuffer::default(),
            met: BTreeMap::new(),
            key: String::new(),
            rows: 0,
            is_hot: false,
        };
        tasks.spawn(async move {
            loop {
                let Some(tokens) = next_of(&ranges) else {
                    task.visit.batch(task.batch).await?;
                    return Ok(task.met);
                };
                task.read(tokens).await?;
            }
        });
    }
    let mut met = BTreeMap::new();
    while let Some(done) = tasks.join_next().await {
        met.extend(done.unwrap_or_else(|e| Err(unexpected(&context.what(), e)))?);
    }
    Ok(met)
}

fn next_of<T>(items: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    items.lock().next()
}

/// A task that reads ranges.
struct Task<V> {
    context: Arc<TableContext>,
    metadata: Arc<TableMetadata>,
    scanned: Scanned,
    visit: Arc<V>,
    batch: RowBuffer,
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
        let statement = &context.by(self.scanned.by).range;
        let mut pages = context.pages(statement, tokens);
        while let Some(page) = pages.next().await? {
            self.scanned.call.report(page.len())?;
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

    fn take(&mut self, (key, value, seen_at): DirectionRow<'_>) {
        if key != self.key {
            self.end_key();
            key.clone_into(&mut self.key);
            self.is_hot = self.metadata.hot.shards(self.scanned.by, key).is_some();
        }
        self.rows += 1;
        if self.scanned.hot == HotRows::Leave && self.is_hot {
            return;
        }
        if self.visit.row(key, value, seen_at) {
            self.batch.push(key, value, seen_at);
        }
    }

    fn end_key(&mut self) {
        let wanted = match self.scanned.hot {
            HotRows::Leave => self.rows > 0 && self.is_hot,
            HotRows::Take => self.rows > self.context.client.settings().hot_key_rows,
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

    fn ranges(scan_ranges: &ScanRanges, ranges: usize) -> Vec<(i64, i64)> {
        token_ranges(scan_ranges, ranges).collect()
    }

    #[test]
    fn the_ranges_are_the_whole_ring() {
        for count in [1, 16, 1_000, 1_024] {
            let ranges = ranges(&ScanRanges::all(), count);
            assert_eq!(ranges.len(), count);
            assert_eq!((ranges[0].0, ranges[count - 1].1), (i64::MIN, i64::MAX));
            assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0));
        }
    }

    #[test]
    fn the_token_ranges_of_scan_ranges_are_their_tokens() {
        assert_eq!(ranges(&ScanRanges::of(|_| false), 16), []);
        let scan_ranges = ScanRanges::of(|scan_range| {
            scan_range < 512 || (1_000..1_002).contains(&scan_range) || scan_range == 4_095
        });
        for (count, least) in [(1, 3), (16, 4), (100_000, 12_574)] {
            let ranges = ranges(&scan_ranges, count);
            assert_eq!(ranges.len(), least, "{count}");
            for (start, end) in &ranges {
                assert!(start < end);
                // The first token is after the start.
                assert!(
                    [start + 1, *end]
                        .map(scan_range_of_token)
                        .iter()
                        .all(|scan_range| scan_ranges.contains(*scan_range))
                );
            }
            // 515 of 4,096 scan ranges, without the least token.
            let tokens = |(start, end): &(i64, i64)| i128::from(*end) - i128::from(*start);
            assert_eq!(ranges.iter().map(tokens).sum::<i128>(), (515 << 52) - 1);
        }
    }

    #[test]
    fn a_scan_range_is_the_share_of_the_ring_that_its_token_is_in() {
        // Murmur3 tokens of the ints 0 and 1, as Cassandra's token() returns them.
        let token = |bucket: i32| Murmur3Partitioner.hash_one(&bucket.to_be_bytes()).value();
        assert_eq!(token(0), -3_485_513_579_396_041_028);
        assert_eq!(token(1), -4_069_959_284_402_364_209);
        // One bucket: all keys are in the scan range of token(0), which is 5,737,858,457,458,734,780 above
        // the least.
        assert_eq!(scan_range_of_bucket(0), (5_737_858_457_458_734_780_u64 >> 52) as usize);
        assert!((0..1_000).all(|n| scan_range_of_bucket(n) < SCAN_RANGES));
    }
}
