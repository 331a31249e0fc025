//! Sends the requests of a match and turns rows into answers, for one batch of the population.
//!
//! Tasks take bucket runs of the batch, plan the keys of each bucket (`plan`), and send one request at a time each.
//! The rows of a request are merged with its sorted keys. Hot keys are read page by page, two at once, because each
//! takes memory. What a scan has read is counted in `schema::bucket::BucketRows`; keys with many rows are reported
//! as hot.
//!
//! At most 64 tasks run, within the client's concurrency limit. Must not know retries, nor where answers go
//! (`output`). Invariants: rows and keys come in the same order. A key is answered when all its rows are
//! there. After an error tasks send no further request.

use super::output::{Output, RowBuilder};
use super::plan::{Plan, Read, ReadCounts};
use super::population::{BucketKeys, BucketRun, Key};
use super::query_context::QueryContext;
use crate::client::request_counts::RequestCounts;
use crate::context::DirectionRow;
use crate::read::lookup::KeyRows;
use idmatch_model::{Keep, SeenAt, newest_first};
use idmatch_store::locks::{Mutex, MutexGuard};
use idmatch_store::{Call, Error, ErrorKind, MatchCounts, Result, RowStates, Unit};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Concurrent requests of a match: more would only queue in the servers.
pub(super) const MATCH_READ_TASKS: usize = 64;
/// Hot keys that are read at once.
const HOT_AT_ONCE: usize = 2;

/// A population batch that is being answered.
pub(super) struct Fetch {
    query_context: QueryContext,
    /// The bucket runs that no task has taken yet.
    bucket_runs: Mutex<Vec<BucketRun>>,
    output: Arc<Output>,
    /// The states of the population rows, if the match is positional.
    states: Option<Arc<RowStates>>,
    has_failed: AtomicBool,
    call: Call,
    /// Permits for hot keys: each takes memory.
    hot: Semaphore,
}

/// Counts of answers and of reads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answered {
    /// The counts, with the answered rows as the population.
    pub(super) counts: MatchCounts,
    pub(super) read_counts: ReadCounts,
    /// The time of sorting identifiers.
    pub(super) sorting: Duration,
}

impl Fetch {
    pub(super) fn new(
        query_context: QueryContext,
        bucket_runs: Vec<BucketRun>,
        (output, states): (Arc<Output>, Option<Arc<RowStates>>),
        call: &Call,
    ) -> Fetch {
        let (bucket_runs, has_failed) = (Mutex::new(bucket_runs), AtomicBool::new(false));
        let call = call.clone();
        let hot = Semaphore::new(HOT_AT_ONCE);
        Fetch { query_context, bucket_runs, output, states, has_failed, call, hot }
    }

    /// Answers the whole batch.
    pub(super) async fn run(self, requests: &Arc<RequestCounts>) -> Result<Answered> {
        let (fetch, mut running) = (Arc::new(self), JoinSet::new());
        for _ in 0..fetch.bucket_runs().len().min(MATCH_READ_TASKS) {
            let (fetch, requests) = (Arc::clone(&fetch), Arc::clone(requests));
            running.spawn(requests.count(async move { fetch.work().await }));
        }
        let (mut answered, mut failed) = (Answered::default(), None);
        while let Some(done) = running.join_next().await {
            match done {
                Ok(Ok(some)) => {
                    answered.counts += some.counts;
                    answered.read_counts += some.read_counts;
                    answered.sorting += some.sorting;
                }
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(e) => {
                    let error = Error::with_source(ErrorKind::Io, "a request ended early", e);
                    failed = failed.or(Some(error));
                }
            }
            if failed.is_some() {
                fetch.has_failed.store(true, Relaxed);
            }
        }
        failed.map_or(Ok(answered), Err)
    }

    fn bucket_runs(&self) -> MutexGuard<'_, Vec<BucketRun>> {
        self.bucket_runs.lock()
    }

    fn next_keys(&self) -> Option<BucketKeys> {
        let bucket_run = self.bucket_runs().pop()?;
        Some(bucket_run.keys())
    }

    async fn work(&self) -> Result<Answered> {
        let (mut answers, mut read_counts) = (MatchWriter::new(self), ReadCounts::default());
        let mut sorting = Duration::ZERO;
        let mut next_keys = || {
            let began = Instant::now();
            let keys = self.next_keys();
            sorting += began.elapsed();
            keys
        };
        while let Some(all) = next_keys() {
            let before = answers.counts.population;
            for bucket in all.buckets() {
                let QueryContext { metadata, query, .. } = &self.query_context;
                let given = (query.by, metadata.hot.as_ref(), self.query_context.planner());
                let plan = Plan::new((&all, bucket), given);
                for (read, keys) in plan.requests() {
                    if self.has_failed.load(Relaxed) {
                        return Ok(Answered::default());
                    }
                    read_counts.add(read, keys.len());
                    self.answer((read, &all, keys), &mut answers).await?;
                }
            }
            self.call.report("match", answers.counts.population - before, Unit::Rows)?;
        }
        answers.rows.finish()?;
        Ok(Answered { counts: answers.counts, read_counts, sorting })
    }

    async fn answer(
        &self,
        (read, all, keys): (Read, &BucketKeys, &[Key]),
        answers: &mut MatchWriter<'_>,
    ) -> Result<()> {
        let QueryContext { context, metadata, query, visible, .. } = &self.query_context;
        let Some(first) = keys.first() else { return Ok(()) };
        if read == Read::Hot {
            return self.answer_hot((all, first), answers).await;
        }
        let mut rows = 0;
        let mut pages = match read {
            Read::Key | Read::Hot => {
                let key = all.text(first);
                context.key_pages(metadata, (query.by, key), visible.dates())
            }
            Read::Keys => {
                let texts = keys.iter().map(|key| all.text(key).to_owned()).collect();
                let asked = (query.by, first.bucket, texts);
                context.keys_pages(metadata, asked, visible.dates())
            }
            Read::Bucket => {
                let statement = &context.by(query.by).bucket;
                context.pages(statement, (first.bucket,))
            }
        };
        let mut merger = KeyMerger { all, keys, answers };
        while let Some(page) = pages.next().await? {
            rows += page.len() as u64;
            context.each_row(&page, |row| merger.take(row))?;
        }
        merger.end()?;
        if read == Read::Bucket {
            context.bucket_rows(query.by).count(rows);
        }
        Ok(())
    }

    /// Answers a hot key page by page.
    async fn answer_hot(
        &self,
        (all, key): (&BucketKeys, &Key),
        answers: &mut MatchWriter<'_>,
    ) -> Result<()> {
        let QueryContext { context, metadata, query, visible, .. } = &self.query_context;
        let _few = self.hot.acquire().await;
        let mut rows = KeyRows::new(context, metadata, (query.by, all.text(key)), *visible).await?;
        let (mut found, most) = (0, query.pick.most());
        while found < most
            && let Some(mut page) = rows.page().await?
        {
            page.truncate(most - found);
            found += page.len();
            for (value, date) in &page {
                answers.give((all, key), value, *date)?;
            }
        }
        answers.count((all, key), found);
        Ok(())
    }
}

/// Writes the answers of a task, in reused memory.
struct MatchWriter<'f> {
    fetch: &'f Fetch,
    rows: RowBuilder<'f>,
    counts: MatchCounts,
    /// The values of a key so far, and their dates.
    text: String,
    found: Vec<(usize, usize, SeenAt)>,
}

impl<'f> MatchWriter<'f> {
    fn new(fetch: &'f Fetch) -> MatchWriter<'f> {
        let (rows, counts) = (RowBuilder::new(&fetch.output), MatchCounts::default());
        MatchWriter { fetch, rows, counts, text: String::new(), found: Vec::new() }
    }

    /// Counts a key of the population with this many answers.
    fn count(&mut self, (all, key): (&BucketKeys, &Key), answers: usize) {
        let times = key.times;
        self.counts.population += times;
        self.counts.matched += if answers > 0 { times } else { 0 };
        self.counts.rows += times * answers as u64;
        if let (Some(states), Some(rows), true) = (&self.fetch.states, all.rows(key), answers > 0) {
            rows.iter().for_each(|row| states.set_matched(*row));
        }
    }

    /// Writes an answer once for each population row of the key.
    fn give(&mut self, (all, key): (&BucketKeys, &Key), value: &str, date: SeenAt) -> Result<()> {
        match all.rows(key) {
            Some(rows) => {
                rows.iter().try_for_each(|row| self.rows.push_position(*row, value, date))
            }
            None => {
                let text = all.text(key);
                (0..key.times).try_for_each(|_| self.rows.push(text, value, date))
            }
        }
    }
}

/// Merges the rows of a request with its keys: both are in the order of keys.
struct KeyMerger<'m, 'f> {
    all: &'m BucketKeys,
    /// Keys without an answer yet.
    keys: &'m [Key],
    answers: &'m mut MatchWriter<'f>,
}

impl KeyMerger<'_, '_> {
    fn take(&mut self, (key, value, date): DirectionRow<'_>) -> Result<()> {
        let order = loop {
            let Some(first) = self.keys.first() else { return Ok(()) };
            match self.all.text(first).cmp(key) {
                Ordering::Less => self.close_key()?,
                order => break order,
            }
        };
        let QueryContext { metadata, query, visible, .. } = &self.answers.fetch.query_context;
        if order == Ordering::Equal && metadata.shows(visible, query.by, (key, value, date)) {
            let start = self.answers.text.len();
            self.answers.text.push_str(value);
            self.answers.found.push((start, self.answers.text.len(), date));
        }
        Ok(())
    }

    /// Finishes after the last row of a request.
    fn end(&mut self) -> Result<()> {
        while !self.keys.is_empty() {
            self.close_key()?;
        }
        Ok(())
    }

    /// Writes the answers of the first key, which has all its rows, and moves to the next.
    fn close_key(&mut self) -> Result<()> {
        let Some((first, rest)) = self.keys.split_first() else { return Ok(()) };
        self.keys = rest;
        let (key, answers) = (self.all.text(first), &mut *self.answers);
        let (text, mut found) =
            (std::mem::take(&mut answers.text), std::mem::take(&mut answers.found));
        let value = |row: &(usize, usize, SeenAt)| text.get(row.0..row.1).unwrap_or_default();
        let QueryContext { context, metadata, query, .. } = &answers.fetch.query_context;
        context.report_rows(query.by, key, found.len() as u64);
        match metadata.definition.keep {
            Keep::Last => found.sort_unstable_by(|a, b| {
                newest_first((a.2, value(a).as_bytes()), (b.2, value(b).as_bytes()))
            }),
            Keep::All => {
                // The newest row comes first; the first date of a value is its answer.
                let mut given = HashSet::new();
                found.retain(|row| given.insert(value(row)));
            }
        }
        found.truncate(query.pick.most());
        answers.count((self.all, first), found.len());
        for row in &found {
            answers.give((self.all, first), value(row), row.2)?;
        }
        // Their memory serves the next key.
        found.clear();
        (answers.found, answers.text) = (found, text);
        answers.text.clear();
        Ok(())
    }
}
