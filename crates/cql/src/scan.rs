//! Reads a whole direction of a table, by ranges of tokens.

use crate::errors::unexpected;
use crate::handle::{Handle, StoredRow};
use crate::rows::Rows;
use idmatch_model::{SeenAt, Side};
use idmatch_store::Result;
use scylla::response::PagingState;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::task::JoinSet;

/// Ranges that a scan is cut into at most: each is read, and repeated, for itself.
const MOST_RANGES: usize = 1_024;
/// Ranges that are read at once.
const AT_ONCE: usize = 8;
/// Wanted rows that are handed over together, or a page more.
const PORTION: usize = 10_000;

/// One of so many ranges of tokens: after the first, up to and with the second.
fn tokens(range: usize, ranges: usize) -> (i64, i64) {
    let edge = |n: usize| {
        let width = (1_i128 << 64) / ranges.max(1) as i128;
        let edge = match n == ranges {
            true => i128::from(i64::MAX),
            false => i128::from(i64::MIN) + width * n as i128,
        };
        i64::try_from(edge).unwrap_or(i64::MAX)
    };
    // No key has the least token; the servers keep it for themselves.
    (edge(range), edge(range + 1))
}

/// What is done with the rows of a scan.
pub(crate) trait Visit: Send + Sync + 'static {
    /// Sees a row as it is stored: key, value, date. Says whether it is wanted.
    fn row(&self, key: &str, value: &str, seen_at: SeenAt) -> bool;

    /// Takes some wanted rows, as key and value.
    fn portion(&self, rows: Rows) -> impl Future<Output = Result<()>> + Send;
}

/// Shows every row of a direction to a visitor. Several tasks call at once; rows of one key
/// come to one of them. Cost: the whole direction is read; memory: a few portions.
pub(crate) async fn scan(handle: &Arc<Handle>, by: Side, visit: impl Visit) -> Result<()> {
    let buckets = handle.state.current().await?.definition.buckets;
    let ranges = MOST_RANGES.min(buckets.unsigned_abs() as usize);
    let (next, visit) = (Arc::new(AtomicUsize::new(0)), Arc::new(visit));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (handle, next, visit) = (Arc::clone(handle), Arc::clone(&next), Arc::clone(&visit));
        tasks.spawn(async move {
            let mut portion = Rows::default();
            loop {
                let range = next.fetch_add(1, Relaxed);
                if range >= ranges {
                    return visit.portion(portion).await;
                }
                scan_range(&handle, by, tokens(range, ranges), visit.as_ref(), &mut portion)
                    .await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap_or_else(|e| Err(unexpected(&handle.what(), e)))?;
    }
    Ok(())
}

async fn scan_range(
    handle: &Handle,
    by: Side,
    tokens: (i64, i64),
    visit: &impl Visit,
    portion: &mut Rows,
) -> Result<()> {
    let what = handle.what();
    let statement = handle.by(by).range.get(&handle.client).await?;
    let mut next = Some(PagingState::start());
    while let Some(state) = next.take() {
        let (rows, more) = handle.client.read_page(&what, statement, tokens, state).await?;
        for row in rows.rows::<StoredRow<'_>>().map_err(|e| unexpected(&what, e))? {
            let (key, value, date) = row.map_err(|e| unexpected(&what, e))?;
            let seen_at = handle.seen_at(date)?;
            if visit.row(key, value, seen_at) {
                portion.push(key, value, seen_at);
            }
        }
        if portion.len() >= PORTION {
            visit.portion(std::mem::take(portion)).await?;
        }
        next = more;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_are_the_whole_ring() {
        for ranges in [1, 16, 1_000, 1_024] {
            assert_eq!(tokens(0, ranges).0, i64::MIN);
            assert_eq!(tokens(ranges - 1, ranges).1, i64::MAX);
            assert!((1..ranges).all(|n| tokens(n - 1, ranges).1 == tokens(n, ranges).0));
        }
    }
}
