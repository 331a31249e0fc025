//! A population in memory, in the order of the servers' partitions.
//!
//! While it is read, the servers have nothing to do; so only what must be is done then. The keys of a
//! bucket are brought into order when they are asked for, beside the requests that are under way.

use crate::bucket::bucket;
use arrow_array::Array;
use idmatch_model::check_id;
use idmatch_store::{BatchSource, Result, population_ids};
use std::ops::Range;

/// A tranche ends with the batch in which it reaches one of these.
const MOST_ROWS: u64 = 4_000_000;
const MOST_BYTES: usize = 256 << 20;

/// A tranche of a population.
#[derive(Debug, Default)]
pub(super) struct Population {
    /// All identifiers, one after the other.
    text: String,
    /// Ordered by bucket.
    entries: Vec<Entry>,
    /// Rows read.
    pub(super) rows: u64,
    /// Rows that are identifiers: others match nothing.
    pub(super) valid: u64,
}

/// An identifier as it was read.
#[derive(Debug, Clone, Copy)]
struct Entry {
    bucket: i32,
    length: u32,
    start: usize,
    /// Its first bytes: most are told apart by them, without a look at the text.
    prefix: u64,
}

/// The keys of a population that are in one bucket: each once, ordered by their bytes.
#[derive(Debug)]
pub(super) struct BucketKeys {
    pub(super) bucket: i32,
    text: String,
    pub(super) keys: Vec<Key>,
}

/// A key, and how often the population has it.
#[derive(Debug, Clone)]
pub(super) struct Key {
    text: Range<usize>,
    pub(super) times: u64,
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
        population.entries.sort_unstable_by_key(|entry| entry.bucket);
        Ok((population, is_last))
    }

    fn push(&mut self, key: &str, buckets: i32) {
        // Lossless: identifiers are short.
        let (start, length) = (self.text.len(), key.len() as u32);
        self.text.push_str(key);
        self.entries.push(Entry {
            bucket: bucket(key, buckets),
            length,
            start,
            prefix: prefix(key),
        });
        self.valid += 1;
    }

    /// The entries of the bucket that begins at an entry; `None` after the last.
    pub(super) fn bucket(&self, from: usize) -> Option<Range<usize>> {
        let rest = self.entries.get(from..)?;
        let first = rest.first()?;
        let end = rest.iter().position(|entry| entry.bucket != first.bucket);
        Some(from..from + end.unwrap_or(rest.len()))
    }

    /// The keys of a bucket. Cost: orders them.
    pub(super) fn keys(&self, entries: Range<usize>) -> BucketKeys {
        let mut entries = self.entries.get(entries).unwrap_or_default().to_vec();
        entries.sort_unstable_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| self.text(a).cmp(self.text(b)))
        });
        let bytes = entries.iter().map(|entry| entry.length as usize).sum();
        let mut keys = BucketKeys {
            bucket: entries.first().map_or(0, |entry| entry.bucket),
            text: String::with_capacity(bytes),
            keys: Vec::with_capacity(entries.len()),
        };
        entries.iter().for_each(|entry| keys.push(self.text(entry)));
        keys
    }

    fn text(&self, entry: &Entry) -> &str {
        self.text.get(entry.start..entry.start + entry.length as usize).unwrap_or_default()
    }
}

impl BucketKeys {
    /// Adds a key that is not before the last one.
    fn push(&mut self, text: &str) {
        if let Some(last) = self.keys.last_mut()
            && self.text.get(last.text.clone()) == Some(text)
        {
            last.times += 1;
            return;
        }
        let start = self.text.len();
        self.text.push_str(text);
        self.keys.push(Key { text: start..self.text.len(), times: 1 });
    }

    /// The text of a key.
    pub(super) fn text(&self, key: &Key) -> &str {
        self.text.get(key.text.clone()).unwrap_or_default()
    }
}

/// The first eight bytes, so that their order is that of the text as far as they go.
fn prefix(key: &str) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(key.bytes()).for_each(|(to, byte)| *to = byte);
    u64::from_be_bytes(first)
}
