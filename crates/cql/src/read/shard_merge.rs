//! Merges the rows of a hot key from its bucket and its shards, newest first.
//!
//! Each of these partitions returns its rows newest first, page by page. Rows are final up to the
//! last row that every unfinished partition has returned: no newer row follows.

use crate::client::paging::Pages;
use crate::context::TableContext;
use crate::schema::hot_keys::steps;
use crate::schema::metadata_cache::{Dates, TableMetadata};
use futures::future::try_join_all;
use idmatch_model::{Keep, SeenAt, Side, newest_first};
use idmatch_store::Result;
use scylla::value::CqlTimestamp;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use uuid::Uuid;

/// Rows of the first page of each shard: a caller who wants the newest few has them soon.
const FIRST_PAGE_ROWS: i32 = 50;
/// Rows of the next pages of all partitions together, and of one page at most.
const NEXT_PAGES_ROWS: usize = 200_000;
const MAX_PAGE_ROWS: usize = 5_000;

/// The wanted rows of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowSelection {
    /// Current rows: with keep="last" the newest row of each value, with keep="all" the rows within these
    /// dates.
    Counting(Dates),
    /// All stored rows.
    Stored,
}

/// A value and its date.
type ShardRow = (String, SeenAt);

/// The rows of one key. Memory: 200,000 rows or a page of 50 of each partition, and with keep="last" 32
/// bytes for each returned value.
pub(crate) struct HotKeyReader {
    context: Arc<TableContext>,
    partitions: Vec<PartitionReader>,
    /// Rows of each page after the first.
    page_rows: usize,
    /// With keep="last", hashes of the returned values: later rows of the same value are older.
    given: Option<HashSet<u128>>,
}

/// Reads the rows of one partition: the bucket or a shard.
struct PartitionReader {
    pages: Pages,
    rows: VecDeque<ShardRow>,
    /// Whether its rows come in the order of values: then all are read before the first is
    /// returned.
    is_by_value: bool,
}

impl HotKeyReader {
    /// The rows of a key; if a value is given, all of its rows and some others.
    pub(crate) async fn new(
        context: &Arc<TableContext>,
        metadata: &TableMetadata,
        (by, key): (Side, &str),
        value: Option<&str>,
        which: RowSelection,
    ) -> Result<HotKeyReader> {
        let keep = metadata.definition.keep;
        // With keep="last" a row within these dates need not be the newest of its pair.
        let dates = match which {
            RowSelection::Counting(dates) if keep == Keep::All => dates,
            _ => Dates::ALL,
        };
        let in_bucket = match value {
            Some(value) if keep == Keep::Last => {
                let statement = &context.by(by).row;
                let bucket = context.buckets.of(key);
                context.pages(statement, (bucket, key.to_owned(), value.to_owned()))
            }
            _ => context.key_pages(metadata, (by, key), dates),
        };
        let mut partitions = vec![PartitionReader::new(in_bucket, keep == Keep::Last)];
        let statement = &context.hot().shard;
        for shards in steps(metadata.hot.shards(by, key).unwrap_or_default()) {
            let wanted = match value {
                Some(value) => {
                    let shard = context.buckets.shard(value, shards);
                    shard..shard + 1
                }
                None => 0..shards,
            };
            for shard in wanted {
                let shard = (by, key, shards, shard);
                let mut pages = context.pages(statement, shard_values(context, shard, dates));
                pages.set_page_rows(FIRST_PAGE_ROWS);
                partitions.push(PartitionReader::new(pages, false));
            }
        }
        let counts = keep == Keep::Last && matches!(which, RowSelection::Counting(_));
        let page_rows =
            (NEXT_PAGES_ROWS / partitions.len()).clamp(FIRST_PAGE_ROWS as usize, MAX_PAGE_ROWS);
        let given = counts.then(HashSet::new);
        Ok(HotKeyReader { context: Arc::clone(context), partitions, page_rows, given })
    }

    /// The next rows; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<ShardRow>>> {
        loop {
            self.fill().await?;
            let unfinished = self.partitions.iter().filter(|partition| partition.pages.has_more());
            let until =
                unfinished.filter_map(|partition| partition.rows.back()).min_by(|a, b| order(a, b));
            let until = until.cloned();
            let mut rows = Vec::new();
            for partition in &mut self.partitions {
                let ready = match &until {
                    Some(until) => {
                        partition.rows.partition_point(|row| order(row, until) != Ordering::Greater)
                    }
                    None => partition.rows.len(),
                };
                rows.extend(partition.rows.drain(..ready));
            }
            if rows.is_empty() {
                return Ok(None);
            }
            rows.sort_unstable_by(order);
            // A row may be in several partitions.
            rows.dedup();
            if let Some(given) = &mut self.given {
                rows.retain(|row| given.insert(self.context.buckets.hash(&row.0)));
            }
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
        }
    }

    /// Reads until each partition has rows ready, or no more.
    async fn fill(&mut self) -> Result<()> {
        let is_short =
            |partition: &PartitionReader| partition.pages.has_more() && partition.rows.is_empty();
        if !self.partitions.iter().any(is_short) {
            return Ok(());
        }
        // Reads partitions that will soon run out, too: their reads overlap with the others.
        let (context, rows) = (&self.context, self.page_rows);
        let few =
            self.partitions.iter_mut().filter(|p| p.pages.has_more() && p.rows.len() < rows / 4);
        // The client bounds the requests in flight.
        try_join_all(few.map(|partition| partition.fill(context, rows))).await.map(drop)
    }
}

impl PartitionReader {
    fn new(pages: Pages, is_by_value: bool) -> PartitionReader {
        PartitionReader { pages, rows: VecDeque::new(), is_by_value }
    }

    async fn fill(&mut self, context: &TableContext, page_rows: usize) -> Result<()> {
        while let Some(page) = self.pages.next().await? {
            context.each_row(&page, |(_, value, seen_at)| {
                self.rows.push_back((value.to_owned(), seen_at));
                Ok(())
            })?;
            self.pages.set_page_rows(i32::try_from(page_rows).unwrap_or(i32::MAX));
            if !self.rows.is_empty() && !self.is_by_value {
                return Ok(());
            }
        }
        if self.is_by_value {
            self.rows.make_contiguous().sort_unstable_by(order);
        }
        Ok(())
    }
}

fn order(a: &ShardRow, b: &ShardRow) -> Ordering {
    newest_first((a.1, a.0.as_bytes()), (b.1, b.0.as_bytes()))
}

/// The values of the statement that reads a shard within some dates.
pub(crate) fn shard_values(
    context: &TableContext,
    (by, key, shards, shard): (Side, &str, i32, i32),
    Dates(since, until): Dates,
) -> PartValues {
    (context.uuid(), by.column(), key.to_owned(), shards, shard, since, until)
}

/// Table, side, key, number of shards, shard; first date and end.
type PartValues = (Uuid, &'static str, String, i32, i32, CqlTimestamp, CqlTimestamp);

/// The keys of a direction that have rows in shards and are known to be hot.
pub(crate) async fn keys(
    context: &TableContext,
    metadata: &TableMetadata,
    by: Side,
) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    if metadata.hot.is_empty() {
        return Ok(found);
    }
    let mut pages = context.pages(&context.hot().keys, (context.uuid(), by.column()));
    while let Some(page) = pages.next().await? {
        page.each(|(key,): (&str,)| {
            if metadata.hot.shards(by, key).is_some() {
                found.insert(key.to_owned());
            }
            Ok(())
        })?;
    }
    Ok(found)
}
