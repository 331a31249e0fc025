//! Statistics of a table, from a sample of its buckets.

use super::shard_merge;
use crate::client::paging::Pages;
use crate::context::TableContext;
use crate::schema::hot_keys::steps;
use crate::schema::metadata_cache::{Dates, TableMetadata};
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Counting, Result};
use std::collections::HashSet;

/// Most buckets of a direction that a sample reads.
const SAMPLE_BUCKETS: i32 = 16;
/// Hot keys that are read.
const SAMPLE_HOT_KEYS: usize = 64;
/// Buckets that are read concurrently.
const CONCURRENT_BUCKETS: usize = 8;

/// The sums over some buckets of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) rows: u64,
    pub(crate) keys: u64,
    /// Rows of the largest key.
    pub(crate) largest_key: u64,
    pub(crate) pairs: u64,
    /// The bytes of identifiers and dates.
    pub(crate) bytes: u64,
    pub(crate) oldest: Option<SeenAt>,
    pub(crate) newest: Option<SeenAt>,
}

impl Sample {
    fn add(&mut self, other: &Sample) {
        self.rows += other.rows;
        self.keys += other.keys;
        self.largest_key = self.largest_key.max(other.largest_key);
        self.pairs += other.pairs;
        self.bytes += other.bytes;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
        self.newest = self.newest.max(other.newest);
    }

    fn scaled(self, read: i64, of: i64) -> Sample {
        let scale = |n: u64| match read == of {
            true => n,
            false => (n as f64 * of as f64 / read.max(1) as f64).round() as u64,
        };
        Sample {
            rows: scale(self.rows),
            keys: scale(self.keys),
            pairs: scale(self.pairs),
            bytes: scale(self.bytes),
            ..self
        }
    }
}

/// Whether the sample covers all rows.
pub(crate) fn is_exact(metadata: &TableMetadata, counting: Counting) -> bool {
    let (buckets, _) = limits(counting);
    metadata.definition.buckets <= buckets && metadata.hot.is_empty()
}

/// The most buckets and hot keys that are read.
fn limits(counting: Counting) -> (i32, usize) {
    match counting {
        Counting::Metadata | Counting::Sample => (SAMPLE_BUCKETS, SAMPLE_HOT_KEYS),
        Counting::All => (i32::MAX, usize::MAX),
    }
}

/// Reads evenly spaced buckets and extrapolates. Cost of a sample: 16 partitions, one or two for each of at
/// most 64 hot keys, and the list of hot keys. Even `Counting::All` reads only a share of the rows of a hot
/// key.
pub(crate) async fn sample(
    context: &TableContext,
    metadata: &TableMetadata,
    by: Side,
    counting: Counting,
) -> Result<Sample> {
    let (buckets, hot_keys) = limits(counting);
    let all = metadata.definition.buckets;
    let read = all.min(buckets);
    let buckets = (0..read).map(|n| {
        // Lossless: less than `all`.
        (i64::from(n) * i64::from(all) / i64::from(read)) as i32
    });
    let samples: Vec<Sample> = stream::iter(buckets)
        .map(|bucket| sample_bucket(context, by, bucket))
        .buffer_unordered(CONCURRENT_BUCKETS)
        .try_collect()
        .await?;
    let mut sum = Sample::default();
    samples.iter().for_each(|sample| sum.add(sample));
    let mut sum = sum.scaled(i64::from(read), i64::from(all));
    sum.add(&sample_hot(context, metadata, by, hot_keys).await?);
    Ok(sum)
}

async fn sample_bucket(context: &TableContext, by: Side, bucket: i32) -> Result<Sample> {
    let statement = &context.by(by).bucket;
    sum(context, context.pages(statement, (bucket,))).await
}

/// Reads one shard of each of some hot keys, and extrapolates to all shards of all hot keys.
async fn sample_hot(
    context: &TableContext,
    metadata: &TableMetadata,
    by: Side,
    most: usize,
) -> Result<Sample> {
    let statement = &context.hot().shard;
    let mut all = Sample::default();
    let keys = shard_merge::keys(context, metadata, by).await?;
    let read = keys.len().min(most);
    for key in keys.iter().take(read) {
        let mut of_key = Sample::default();
        for shards in steps(metadata.hot.shards(by, key).unwrap_or_default()) {
            let values = shard_merge::shard_values(context, (by, key, shards, 0), Dates::ALL);
            let shard = sum(context, context.pages(statement, values)).await?;
            of_key.add(&shard.scaled(1, i64::from(shards)));
        }
        // The key itself is counted with the buckets, or is negligible.
        all.add(&Sample { keys: 0, largest_key: of_key.rows, ..of_key });
    }
    Ok(all.scaled(read as i64, keys.len() as i64))
}

async fn sum(context: &TableContext, mut pages: Pages) -> Result<Sample> {
    let (mut sample, mut last_key, mut values) = (Sample::default(), String::new(), HashSet::new());
    let mut rows_before = 0;
    while let Some(page) = pages.next().await? {
        context.each_row(&page, |(key, value, date)| {
            if last_key != key {
                sample.keys += 1;
                rows_before = sample.rows;
                key.clone_into(&mut last_key);
                values.clear();
            }
            sample.pairs += u64::from(values.insert(value.to_owned()));
            sample.rows += 1;
            sample.largest_key = sample.largest_key.max(sample.rows - rows_before);
            sample.bytes += (key.len() + value.len() + size_of::<i64>()) as u64;
            sample.oldest = Some(sample.oldest.map_or(date, |oldest| oldest.min(date)));
            sample.newest = sample.newest.max(Some(date));
            Ok(())
        })?;
    }
    Ok(sample)
}
