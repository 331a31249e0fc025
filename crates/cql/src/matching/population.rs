//! A population in memory: each identifier once, in the order of the servers' partitions.

use crate::bucket::bucket;
use arrow_array::Array;
use idmatch_model::check_id;
use idmatch_store::{BatchSource, Result, population_ids};

/// A tranche ends with the batch in which it reaches one of these. While it is brought into order, its
/// text is there twice.
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

    /// Brings keys into order, and their text with them: the key that is looked at next then lies near
    /// the last one, and not where it happened to be read.
    fn sort(&mut self) {
        self.entries.sort_unstable_by_key(|entry| entry.bucket);
        let mut text = String::with_capacity(self.text.len());
        for entry in &mut self.entries {
            let start = text.len();
            text.push_str(in_text(&self.text, entry));
            entry.start = start;
        }
        for bucket in self.entries.chunk_by_mut(|a, b| a.bucket == b.bucket) {
            bucket.sort_unstable_by(|a, b| in_text(&text, a).cmp(in_text(&text, b)));
        }
        self.entries.dedup_by(|later, first| {
            let same =
                later.bucket == first.bucket && in_text(&text, later) == in_text(&text, first);
            if same {
                first.times += later.times;
            }
            same
        });
        self.text = text;
    }

    /// The key of an entry.
    pub(super) fn key(&self, entry: &Entry) -> &str {
        in_text(&self.text, entry)
    }
}

fn in_text<'t>(text: &'t str, entry: &Entry) -> &'t str {
    text.get(entry.start..entry.start + entry.length).unwrap_or_default()
}
