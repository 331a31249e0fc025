//! Writes rows to both directions: batches of one partition each, so many at once as is allowed.
//!
//! Invariant: rows count as written when both directions have acknowledged them.

use crate::handle::{Handle, time_to_live, written_at};
use crate::rows::Rows;
use crate::state::Known;
use idmatch_model::Side;
use idmatch_store::{Error, ErrorKind, Result};
use scylla::value::CqlTimestamp;
use std::sync::Arc;
use tokio::task::JoinSet;

/// What one request has at most: below the limits from which servers warn of large batches (ScyllaDB:
/// 128 KiB; Cassandra has none for a single partition).
const MOST_ROWS: usize = 400;
const MOST_BYTES: usize = 48 << 10;
/// So many rows that are unknown are named in an error.
const NAMED: usize = 3;

/// Writes rows; returns when all are there for good. Rows that are erased or too old to be shown count
/// as written. Cost: two requests for each bucket that they fall in.
///
/// # Errors
/// `UnknownOutcome` with the rows concerned; those not named are written or were not sent.
pub(crate) async fn write(handle: &Arc<Handle>, rows: Rows) -> Result<()> {
    let known = handle.state.current().await?;
    let rows = if needs_filter(&known) {
        rows.filtered(|id, partner_id, seen_at| {
            seen_at >= known.definition.gone_before
                && !known.erasures.hides(Side::Id, id, partner_id, seen_at)
        })
    } else {
        rows
    };
    let rows = Arc::new(rows);
    let mut tasks = JoinSet::new();
    let mut failed = Failed::default();
    'all: for by in Side::BOTH {
        for (bucket, group) in rows.by_bucket(by, known.definition.buckets, (MOST_ROWS, MOST_BYTES))
        {
            while tasks.len() >= handle.client.settings().in_flight
                && let Some(done) = tasks.join_next().await
            {
                failed.note(done);
            }
            if failed.first.is_some() {
                // What was not sent is not unknown; the caller repeats it all.
                break 'all;
            }
            let (handle, rows) = (Arc::clone(handle), Arc::clone(&rows));
            tasks.spawn(async move {
                let written = write_group(&handle, &rows, by, bucket, &group).await;
                written.map_err(|e| (e, group))
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        failed.note(done);
    }
    failed.into_result(handle, &rows)
}

fn needs_filter(known: &Known) -> bool {
    known.erasures.len() > 0 || known.definition.gone_before.millis() > 0
}

async fn write_group(
    handle: &Handle,
    rows: &Rows,
    by: Side,
    bucket: i32,
    group: &[usize],
) -> Result<()> {
    let insert = handle.by(by).insert.get(&handle.client).await?;
    let turn = handle.client.turn().await;
    // A retention may have been changed since the first of these rows was sent, or while others were.
    let known = handle.state.current().await?;
    let values: Vec<_> = group
        .iter()
        .filter_map(|row| {
            let ((key, value), seen_at) = (rows.pair(*row, by), rows.seen_at(*row));
            let ttl = time_to_live(&known, seen_at)?;
            let date = CqlTimestamp(seen_at.millis_i64());
            Some((bucket, key, value, date, written_at(&known, seen_at), ttl))
        })
        .collect();
    let what = handle.what();
    match values.as_slice() {
        [] => Ok(()),
        [one] => turn.write(&what, insert, one).await,
        some => turn.write_batch(&what, insert, some).await,
    }
}

type Done =
    std::result::Result<std::result::Result<(), (Error, Vec<usize>)>, tokio::task::JoinError>;

/// The requests that were not acknowledged.
#[derive(Default)]
struct Failed {
    first: Option<Error>,
    rows: Vec<usize>,
}

impl Failed {
    fn note(&mut self, done: Done) {
        let (error, rows) = match done {
            Ok(Ok(())) => return,
            Ok(Err(failed)) => failed,
            Err(e) => {
                (Error::with_source(ErrorKind::UnknownOutcome, "a write ended early", e), vec![])
            }
        };
        self.rows.extend(rows);
        // What is unknown is worse than what was not done.
        let is_worse = |first: &Error| {
            first.kind() != ErrorKind::UnknownOutcome && error.kind() == ErrorKind::UnknownOutcome
        };
        if self.first.as_ref().is_none_or(is_worse) {
            self.first = Some(error);
        }
    }

    fn into_result(self, handle: &Handle, rows: &Rows) -> Result<()> {
        let Some(error) = self.first else { return Ok(()) };
        let mut concerned = self.rows;
        concerned.sort_unstable();
        concerned.dedup();
        let named = concerned.iter().take(NAMED).map(|row| {
            let (id, partner_id) = rows.pair(*row, Side::Id);
            format!("({id:?}, {partner_id:?})")
        });
        let text = format!(
            "{} of {} rows for table {} were not acknowledged by both directions, among them {}; \
             write all again, which is always safe",
            concerned.len(),
            rows.len(),
            handle.name(),
            named.collect::<Vec<_>>().join(", ")
        );
        Err(Error::with_source(error.kind(), text, error))
    }
}
