//! Sends the requests of a match and turns rows into answers.

use super::Question;
use super::output::{Output, RowBuilder};
use super::plan::{Read, Request};
use super::population::{Entry, Population};
use crate::errors::unexpected;
use crate::handle::StoredRow;
use idmatch_model::{Keep, Pick, SeenAt, newest_first};
use idmatch_store::{Error, ErrorKind, MatchCounts, Result};
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::task::JoinSet;

/// Requests that are under way at once: more of a match only wait in the servers.
const AT_ONCE: usize = 64;

/// A tranche of a population on its way.
pub(super) struct Fetch {
    question: Question,
    population: Population,
    requests: Vec<Request>,
    output: Arc<Output>,
    next: AtomicUsize,
}

impl Fetch {
    pub(super) fn new(
        question: Question,
        population: Population,
        requests: Vec<Request>,
        output: Arc<Output>,
    ) -> Fetch {
        Fetch { question, population, requests, output, next: AtomicUsize::new(0) }
    }

    /// Answers all requests. The counts say how many population rows were answered.
    pub(super) async fn run(self) -> Result<MatchCounts> {
        let tasks = AT_ONCE.min(self.requests.len());
        let (fetch, mut running) = (Arc::new(self), JoinSet::new());
        for _ in 0..tasks {
            let fetch = Arc::clone(&fetch);
            running.spawn(async move { fetch.work().await });
        }
        let (mut counts, mut failed) = (MatchCounts::default(), None);
        while let Some(done) = running.join_next().await {
            match done {
                Ok(Ok(some)) => counts += some,
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(e) => {
                    let error = Error::with_source(ErrorKind::Io, "a request ended early", e);
                    failed = failed.or(Some(error));
                }
            }
            if failed.is_some() {
                // The others stop at their next request.
                fetch.next.store(usize::MAX / 2, Relaxed);
            }
        }
        failed.map_or(Ok(counts), Err)
    }

    async fn work(&self) -> Result<MatchCounts> {
        let mut answers = Answering::new(self);
        while let Some(request) = self.requests.get(self.next.fetch_add(1, Relaxed)) {
            self.answer(request, &mut answers).await?;
        }
        answers.rows.finish()?;
        Ok(answers.counts)
    }

    async fn answer<'f>(&'f self, request: &Request, answers: &mut Answering<'f>) -> Result<()> {
        let Question { handle, query, .. } = &self.question;
        let (client, direction) = (&handle.client, handle.by(query.by));
        let entries = self.population.entries.get(request.entries.clone()).unwrap_or_default();
        let Some(first) = entries.first() else { return Ok(()) };
        let what = handle.what();
        answers.start(entries);
        let mut next = Some(PagingState::start());
        while let Some(state) = next.take() {
            let bucket = first.bucket;
            let (rows, more) = match request.read {
                Read::Key => {
                    let statement = direction.key.get(client).await?;
                    let values = (bucket, self.population.key(first));
                    client.read_page(&what, statement, values, state).await?
                }
                Read::Keys => {
                    let statement = direction.keys.get(client).await?;
                    let keys: Vec<&str> = entries.iter().map(|e| self.population.key(e)).collect();
                    client.read_page(&what, statement, (bucket, keys), state).await?
                }
                Read::Bucket => {
                    let statement = direction.bucket.get(client).await?;
                    client.read_page(&what, statement, (bucket,), state).await?
                }
            };
            answers.take(&rows)?;
            next = more;
        }
        answers.end()
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

    fn take(&mut self, rows: &QueryRowsResult) -> Result<()> {
        let Question { handle, known, query, visible } = &self.fetch.question;
        let wrong = |e| unexpected(&handle.what(), e);
        for row in rows.rows::<StoredRow<'_>>().map_err(|e| unexpected(&handle.what(), e))? {
            let (key, value, date) = row.map_err(wrong)?;
            while let Some(entry) = self.entries.first()
                && self.fetch.population.key(entry) < key
            {
                self.close_entry()?;
            }
            let is_asked =
                self.entries.first().is_some_and(|entry| self.fetch.population.key(entry) == key);
            let date = handle.seen_at(date)?;
            if is_asked && known.shows(visible, query.by, (key, value, date)) {
                let start = self.text.len();
                self.text.push_str(value);
                self.found.push((start, self.text.len(), date));
            }
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
        self.counts.population += entry.times;
        if self.found.is_empty() {
            return Ok(());
        }
        let (text, found) = (&self.text, &mut self.found);
        let value = |row: &(usize, usize, SeenAt)| text.get(row.0..row.1).unwrap_or_default();
        let Question { known, query, .. } = &self.fetch.question;
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
        self.counts.matched += entry.times;
        self.counts.rows += entry.times * found.len() as u64;
        let key = self.fetch.population.key(entry);
        for _ in 0..entry.times {
            for row in found.iter() {
                self.rows.push(key, value(row), row.2)?;
            }
        }
        self.found.clear();
        self.text.clear();
        Ok(())
    }
}
