//! Which requests answer a population.

use super::Question;
use super::population::{Entry, Population};
use crate::sample::sample;
use idmatch_store::Result;
use std::ops::Range;

/// Keys that one request asks for at most: ScyllaDB takes no more by default.
const MOST_KEYS: usize = 100;
/// A key of an `IN` costs as much as reading so many rows of a bucket.
const ROWS_PER_KEY: f64 = 2.2;
/// With fewer keys in a bucket on average, nobody need ask how many rows a bucket has.
const MANY_KEYS: usize = 20;

/// How the keys of a request are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// The only one.
    Key,
    /// By their list.
    Keys,
    /// With all others of their bucket.
    Bucket,
    /// The only one, which has very many rows.
    Hot,
}

/// A request: some entries of one bucket.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) read: Read,
    pub(super) entries: Range<usize>,
}

/// Cuts a population into requests.
pub(super) async fn plan(question: &Question, population: &Population) -> Result<Vec<Request>> {
    let entries = &population.entries;
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let touched = entries.chunk_by(same_bucket).count();
    // Read whole, a bucket costs what it has; asked by keys, what is asked for.
    let whole_from = if entries.len() < touched.saturating_mul(MANY_KEYS) {
        usize::MAX
    } else {
        let buckets = f64::from(question.known.definition.buckets);
        let rows = sample(&question.handle, &question.known, question.query.by).await?.rows;
        // Lossless enough: an estimate.
        ((rows as f64 / buckets / ROWS_PER_KEY) as usize).max(2)
    };
    let (by, hot) = (question.query.by, &question.known.hot);
    let is_hot = |entry: &Entry| hot.parts(by, population.key(entry)).is_some();
    let (mut requests, mut start) = (Vec::with_capacity(touched), 0);
    for bucket in entries.chunk_by(same_bucket) {
        // A key with very many rows is asked for by itself.
        for group in bucket.chunk_by(|a, b| !is_hot(a) && !is_hot(b)) {
            let end = start + group.len();
            requests.extend(cut(group, start..end, whole_from, is_hot));
            start = end;
        }
    }
    Ok(requests)
}

/// The requests for some entries of one bucket.
fn cut(
    group: &[Entry],
    entries: Range<usize>,
    whole_from: usize,
    is_hot: impl Fn(&Entry) -> bool,
) -> Vec<Request> {
    match group {
        [one] if is_hot(one) => vec![Request { read: Read::Hot, entries }],
        some if some.len() >= whole_from => vec![Request { read: Read::Bucket, entries }],
        _ => entries
            .clone()
            .step_by(MOST_KEYS)
            .map(|from| {
                let entries = from..entries.end.min(from + MOST_KEYS);
                let read = if entries.len() == 1 { Read::Key } else { Read::Keys };
                Request { read, entries }
            })
            .collect(),
    }
}

fn same_bucket(a: &Entry, b: &Entry) -> bool {
    a.bucket == b.bucket
}
