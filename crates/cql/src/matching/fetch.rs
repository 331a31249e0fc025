//! Sends the requests of a match and turns rows into answers.

use super::Question;
use super::output::{Output, RowBuilder};
use super::plan::{Planner, Read, Request, Tally};
use super::population::{Entry, Population};
use crate::answers::KeyRows;
use crate::handle::Row;
use crate::hot;
use idmatch_model::{Keep, Pick, SeenAt, newest_first};
use idmatch_store::{Error, ErrorKind, MatchCounts, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use twox_hash::XxHash3_128;

/// Requests that are under way at once: more of a match only wait in the servers.
const AT_ONCE: usize = 64;
/// Keys with very many rows that are read at once.
const HOT_AT_ONCE: usize = 2;

/// A tranche of a population on its way.
pub(super) struct Fetch {
    question: Question,
    population: Population,
    output: Arc<Output>,
    planner: Mutex<Planner>,
    has_failed: AtomicBool,
    /// For keys with very many rows: each takes memory.
    hot: Semaphore,
}

/// What was answered, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answered {
    /// As its population, the rows that were answered.
    pub(super) counts: MatchCounts,
    pub(super) tally: Tally,
}

impl Fetch {
    pub(super) fn new(question: Question, population: Population, output: Arc<Output>) -> Fetch {
        let (planner, has_failed) = (Mutex::default(), AtomicBool::new(false));
        let hot = Semaphore::new(HOT_AT_ONCE);
        Fetch { question, population, output, planner, has_failed, hot }
    }

    /// Answers all entries.
    pub(super) async fn run(self) -> Result<Answered> {
        let tasks = AT_ONCE.min(self.population.entries.len());
        let (fetch, mut running) = (Arc::new(self), JoinSet::new());
        for _ in 0..tasks {
            let fetch = Arc::clone(&fetch);
            running.spawn(async move { fetch.work().await });
        }
        let (mut answered, mut failed) = (Answered::default(), None);
        while let Some(done) = running.join_next().await {
            match done {
                Ok(Ok(some)) => {
                    answered.counts += some.counts;
                    answered.tally += some.tally;
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

    fn next_request(&self) -> Option<Request> {
        if self.has_failed.load(Relaxed) {
            return None;
        }
        let Question { known, query, .. } = &self.question;
        let given = (query.by, known.hot.as_ref(), self.question.chooser());
        self.planner.lock().unwrap_or_else(PoisonError::into_inner).next(&self.population, given)
    }

    async fn work(&self) -> Result<Answered> {
        let (mut answers, mut tally) = (Answering::new(self), Tally::default());
        while let Some(request) = self.next_request() {
            tally.add(request.read, request.entries.len());
            self.answer(request, &mut answers).await?;
        }
        answers.rows.finish()?;
        Ok(Answered { counts: answers.counts, tally })
    }

    async fn answer<'f>(&'f self, request: Request, answers: &mut Answering<'f>) -> Result<()> {
        let Question { handle, known, query, visible } = &self.question;
        let entries = self.population.entries.get(request.entries).unwrap_or_default();
        let Some(first) = entries.first() else { return Ok(()) };
        if request.read == Read::Hot {
            return self.answer_hot(first, answers).await;
        }
        answers.start(entries);
        let (started, mut read, bucket) = (Instant::now(), 0, first.bucket);
        let mut pages = match request.read {
            Read::Key | Read::Hot => {
                let key = self.population.key(first);
                handle.key_pages(known, (query.by, key), visible.dates()).await?
            }
            Read::Keys => {
                let key = |entry| self.population.key(entry).to_owned();
                let keys = (query.by, bucket, entries.iter().map(key).collect());
                handle.keys_pages(known, keys, visible.dates()).await?
            }
            Read::Bucket => {
                let statement = handle.by(query.by).bucket.get(&handle.client).await?;
                handle.pages(statement, (bucket,))
            }
        };
        while let Some(page) = pages.next().await? {
            read += page.len() as u64;
            handle.each_row(&page, |row| answers.take(row))?;
        }
        answers.end()?;
        handle.costs(query.by, query.window).note(
            request.read,
            entries.len(),
            read,
            started.elapsed(),
        );
        Ok(())
    }

    /// Answers for a key with very many rows, as they come.
    async fn answer_hot(&self, entry: &Entry, answers: &mut Answering<'_>) -> Result<()> {
        let Question { handle, known, query, visible } = &self.question;
        let _few = self.hot.acquire().await;
        let key = self.population.key(entry);
        let mut rows = KeyRows::new(handle, known, (query.by, key), *visible).await?;
        let (mut given, mut found) = (HashSet::new(), 0);
        while let Some(mut page) = rows.page().await? {
            page.retain(|(value, _)| {
                known.definition.keep == Keep::Last
                    || given.insert(XxHash3_128::oneshot(value.as_bytes()))
            });
            if query.pick == Pick::Latest {
                page.truncate(1);
            }
            found += page.len();
            for (value, date) in &page {
                answers.give(entry, value, *date)?;
            }
            if query.pick == Pick::Latest && found > 0 {
                break;
            }
        }
        answers.count(entry, found);
        Ok(())
    }
}

/// Rows of a request meet its entries: both are in the order of keys.
struct Answering<'f> {
    fetch: &'f Fetch,
    rows: RowBuilder<'f>,
    counts: MatchCounts,
    entries: &'f [Entry],
    /// The values of the first entry so far, and their dates.
    text: String,
    found: Vec<(usize, usize, SeenAt)>,
}

impl<'f> Answering<'f> {
    fn new(fetch: &'f Fetch) -> Answering<'f> {
        Answering {
            fetch,
            rows: RowBuilder::new(&fetch.output),
            counts: MatchCounts::default(),
            entries: &[],
            text: String::new(),
            found: Vec::new(),
        }
    }

    fn start(&mut self, entries: &'f [Entry]) {
        self.entries = entries;
    }

    fn take(&mut self, (key, value, date): Row<'_>) -> Result<()> {
        let Question { known, query, visible, .. } = &self.fetch.question;
        while let Some(entry) = self.entries.first()
            && self.fetch.population.key(entry) < key
        {
            self.close_entry()?;
        }
        let is_asked =
            self.entries.first().is_some_and(|entry| self.fetch.population.key(entry) == key);
        if is_asked && known.shows(visible, query.by, (key, value, date)) {
            let start = self.text.len();
            self.text.push_str(value);
            self.found.push((start, self.text.len(), date));
        }
        Ok(())
    }

    /// After the last row of a request.
    fn end(&mut self) -> Result<()> {
        while !self.entries.is_empty() {
            self.close_entry()?;
        }
        Ok(())
    }

    /// All rows of the first entry are there: gives its answers and goes on to the next.
    fn close_entry(&mut self) -> Result<()> {
        let Some((entry, rest)) = self.entries.split_first() else { return Ok(()) };
        self.entries = rest;
        let (text, mut found) = (std::mem::take(&mut self.text), std::mem::take(&mut self.found));
        let value = |row: &(usize, usize, SeenAt)| text.get(row.0..row.1).unwrap_or_default();
        let Question { handle, known, query, .. } = &self.fetch.question;
        hot::note_later(handle, query.by, self.fetch.population.key(entry), found.len() as u64);
        match known.definition.keep {
            Keep::Last => found.sort_unstable_by(|a, b| {
                newest_first((a.2, value(a).as_bytes()), (b.2, value(b).as_bytes()))
            }),
            Keep::All => {
                // Newest first already; of a value the first date is the one to be shown.
                let mut given = HashSet::new();
                found.retain(|row| given.insert(value(row)));
            }
        }
        if query.pick == Pick::Latest {
            found.truncate(1);
        }
        self.count(entry, found.len());
        for row in &found {
            self.give(entry, value(row), row.2)?;
        }
        // Their memory serves the next entry.
        found.clear();
        (self.found, self.text) = (found, text);
        self.text.clear();
        Ok(())
    }

    /// Counts an entry with so many answers.
    fn count(&mut self, entry: &Entry, answers: usize) {
        self.counts.population += entry.times;
        self.counts.matched += if answers > 0 { entry.times } else { 0 };
        self.counts.rows += entry.times * answers as u64;
    }

    /// Gives an answer, as often as the population has the entry.
    fn give(&mut self, entry: &Entry, value: &str, date: SeenAt) -> Result<()> {
        let key = self.fetch.population.key(entry);
        (0..entry.times).try_for_each(|_| self.rows.push(key, value, date))
    }
}
