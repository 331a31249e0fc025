//! A population in memory: each identifier once, in the order of the servers' partitions.

use crate::bucket::bucket;
use arrow_array::Array;
use idmatch_model::check_id;
use idmatch_store::{BatchSource, Result, population_ids};

/// A tranche ends with the batch in which it reaches one of these.
const MOST_ROWS: u64 = 4_000_000;
const MOST_BYTES: usize = 256 << 20;

/// An identifier, and how often the population has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) bucket: i32,
    start: usize,
    length: usize,
    pub(super) times: u64,
}

/// A tranche of a population.
#[derive(Debug, Default)]
pub(super) struct Population {
    text: String,
    /// Ordered by bucket, then by the bytes of the key, each key once.
    pub(super) entries: Vec<Entry>,
    /// Rows read.
    pub(super) rows: u64,
    /// Rows that are identifiers: others match nothing.
    pub(super) valid: u64,
}

impl Population {
    /// Reads a tranche; says whether it is the last.
    pub(super) fn read(source: &mut dyn BatchSource, buckets: i32) -> Result<(Population, bool)> {
        let mut population = Population::default();
        let is_last = loop {
            let Some(batch) = source.next_batch()? else { break true };
            let ids = population_ids(&batch)?;
            population.rows += ids.len() as u64;
            for id in ids.iter().flatten() {
                if let Ok(key) = check_id(id) {
                    population.push(key, buckets);
                }
            }
            if population.rows >= MOST_ROWS || population.text.len() >= MOST_BYTES {
                break false;
            }
        };
        population.sort();
        Ok((population, is_last))
    }

    fn push(&mut self, key: &str, buckets: i32) {
        let (start, length) = (self.text.len(), key.len());
        self.text.push_str(key);
        self.entries.push(Entry { bucket: bucket(key, buckets), start, length, times: 1 });
        self.valid += 1;
    }

    fn sort(&mut self) {
        let Population { text, entries, .. } = self;
        let key = |entry: &Entry| text.get(entry.start..entry.start + entry.length);
        entries.sort_unstable_by(|a, b| a.bucket.cmp(&b.bucket).then_with(|| key(a).cmp(&key(b))));
        entries.dedup_by(|later, first| {
            let same = later.bucket == first.bucket && key(later) == key(first);
            if same {
                first.times += later.times;
            }
            same
        });
    }

    /// The key of an entry.
    pub(super) fn key(&self, entry: &Entry) -> &str {
        self.text.get(entry.start..entry.start + entry.length).unwrap_or_default()
    }
}
