//! Many requests, of which a limited number is in flight.

use crate::Failure;
use scylla::value::CqlTimestamp;
use serde_json::{Value, json};
use std::future::Future;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::task::JoinSet;

/// 2025-01-01, in milliseconds since 1970: sums of dates count from here, so that they stay small.
const START: i64 = 1_735_689_600_000;

/// What came of requests: rows, and the sum of their dates, by which all systems are checked.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) rows: u64,
    pub(crate) dates: i64,
}

impl Answer {
    /// Takes one row into account.
    pub(crate) fn add(&mut self, seen_at: CqlTimestamp) {
        self.rows += 1;
        self.dates += seen_at.0 - START;
    }

    pub(crate) fn json(self) -> Value {
        json!({ "rows": self.rows, "dates": self.dates })
    }
}

impl AddAssign for Answer {
    fn add_assign(&mut self, other: Answer) {
        self.rows += other.rows;
        self.dates += other.dates;
    }
}

/// Sends the requests 0 to `requests`, at most `at_once` of them at the same time. A task sends one
/// after the other, so that there are never more futures than that.
pub(crate) async fn send<S, F>(requests: usize, at_once: usize, send: S) -> Result<Answer, Failure>
where
    S: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Answer, Failure>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..at_once.min(requests) {
        let (next, send) = (Arc::clone(&next), send.clone());
        tasks.spawn(async move {
            let mut sum = Answer::default();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= requests {
                    return Ok::<Answer, Failure>(sum);
                }
                sum += send(number).await?;
            }
        });
    }
    let mut sum = Answer::default();
    // An error ends the others: they are dropped with the set.
    while let Some(done) = tasks.join_next().await {
        sum += done??;
    }
    Ok(sum)
}
