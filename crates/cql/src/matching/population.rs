//! A population in memory: each identifier once, in the order of the servers' partitions.

use crate::bucket::bucket;
use arrow_array::Array;
use idmatch_model::check_id;
use idmatch_store::{BatchSource, Result, population_ids};
use std::num::NonZeroUsize;

/// A tranche ends with the batch in which it reaches one of these. While it is brought into order, its
/// text is there twice.
const MOST_ROWS: u64 = 4_000_000;
const MOST_BYTES: usize = 256 << 20;
/// Fewer entries are not worth a thread.
const LEAST_SHARE: usize = 20_000;

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
        radsort::sort_by_key(&mut self.entries, |entry| entry.bucket);
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = self.entries.len().div_ceil(threads).max(LEAST_SHARE);
        let mut text = vec![0; self.text.len()];
        std::thread::scope(|scope| {
            let (mut entries, mut bytes, mut base) = (&mut self.entries[..], &mut text[..], 0);
            while let Some(part) = first_part(&mut entries, share) {
                let length = part.iter().map(|entry| entry.length).sum();
                let Some(place) = bytes.split_off_mut(..length) else { return };
                let (read, start) = (&self.text, base);
                base += length;
                let mut sort = move || sort_part(part, read, place, start);
                // What is last, or all there is, needs no thread of its own.
                if entries.is_empty() {
                    sort();
                } else {
                    scope.spawn(sort);
                }
            }
        });
        // It is made of whole keys.
        self.text = String::from_utf8(text).unwrap_or_default();
        let text = &self.text;
        self.entries.dedup_by(|later, first| {
            let same = later.bucket == first.bucket && in_text(text, later) == in_text(text, first);
            if same {
                first.times += later.times;
            }
            same
        });
    }

    /// The key of an entry.
    pub(super) fn key(&self, entry: &Entry) -> &str {
        in_text(&self.text, entry)
    }
}

/// Takes some whole buckets from the front: a thread's share.
fn first_part<'e>(entries: &mut &'e mut [Entry], share: usize) -> Option<&'e mut [Entry]> {
    let last = entries.get(share.min(entries.len()).checked_sub(1)?)?.bucket;
    let count = entries.partition_point(|entry| entry.bucket <= last);
    entries.split_off_mut(..count)
}

/// Moves the text of some buckets to its place, and sorts each bucket by its keys.
fn sort_part(entries: &mut [Entry], read: &str, place: &mut [u8], start: usize) {
    let mut end = 0;
    for entry in entries.iter_mut() {
        let key = in_text(read, entry).as_bytes();
        if let Some(place) = place.get_mut(end..end + key.len()) {
            place.copy_from_slice(key);
        }
        entry.start = start + end;
        end += key.len();
    }
    let key = |entry: &Entry| place.get(entry.start - start..entry.start - start + entry.length);
    for bucket in entries.chunk_by_mut(|a, b| a.bucket == b.bucket) {
        bucket.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
    }
}

fn in_text<'t>(text: &'t str, entry: &Entry) -> &'t str {
    text.get(entry.start..entry.start + entry.length).unwrap_or_default()
}
