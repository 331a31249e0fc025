//! Questions about the server itself: its version, settings and compactions.

use crate::Failure;
use crate::flight::{Answer, send};
use scylla::client::session::Session;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::Statement;
use scylla::value::CqlTimestamp;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const RANGES: i128 = 64;
const AT_ONCE: usize = 8;
const DROP_TIMEOUT: Duration = Duration::from_secs(120);
/// The server is settled when it was found idle so often, one look a second.
const LOOKS: usize = 4;
/// What works in the background after writes.
const BACKGROUND: [&str; 4] =
    ["CompactionExecutor", "MemtableFlushWriter", "MemtablePostFlush", "MutationStage"];

/// The rows of a table, and the sum of their dates.
pub(crate) async fn count(
    session: &Arc<Session>,
    table: &str,
    key: &str,
) -> Result<Value, Failure> {
    let cql = format!("SELECT seen_at FROM {table} WHERE token({key}) > ? AND token({key}) <= ?");
    let statement = Arc::new(session.prepare(Statement::new(cql).with_page_size(5_000)).await?);
    let session = Arc::clone(session);
    let counted = send(RANGES as usize, AT_ONCE, move |number| {
        let (session, statement) = (Arc::clone(&session), Arc::clone(&statement));
        let start = |number: usize| i128::from(i64::MIN) + number as i128 * (1 << 64) / RANGES;
        // Both fit.
        let range = (start(number) as i64, start(number + 1).min(i128::from(i64::MAX)) as i64);
        async move {
            let (mut sum, mut state) = (Answer::default(), PagingState::start());
            loop {
                let (page, more) = session.execute_single_page(&statement, range, state).await?;
                for row in page.into_rows_result()?.rows::<(CqlTimestamp,)>()? {
                    sum.add(row?.0);
                }
                match more {
                    PagingStateResponse::HasMorePages { state: next } => state = next,
                    PagingStateResponse::NoMorePages => return Ok(sum),
                }
            }
        }
    });
    Ok(counted.await?.json())
}

/// Deletes a keyspace if it is there.
pub(crate) async fn drop(session: &Session, keyspace: &str) -> Result<Value, Failure> {
    let mut statement = Statement::new(format!("DROP KEYSPACE IF EXISTS {keyspace}"));
    statement.set_request_timeout(Some(DROP_TIMEOUT));
    session.query_unpaged(statement, ()).await?;
    Ok(json!({}))
}

/// Waits until nothing is flushed or compacted.
pub(crate) async fn settled(session: &Session) -> Result<Value, Failure> {
    let began = Instant::now();
    let cql = "SELECT name, active_tasks, pending_tasks FROM system_views.thread_pools";
    let mut idle = 0;
    while idle < LOOKS {
        let pools = session.query_unpaged(cql, ()).await?.into_rows_result()?;
        let mut busy = 0;
        for pool in pools.rows::<(&str, i32, i32)>()? {
            let (name, active, pending) = pool?;
            busy += if BACKGROUND.contains(&name) { active + pending } else { 0 };
        }
        idle = if busy == 0 { idle + 1 } else { 0 };
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(json!({ "seconds": began.elapsed().as_secs_f64() }))
}

/// The node's version, and those of its settings that are named.
pub(crate) async fn server(session: &Session, settings: &[String]) -> Result<Value, Failure> {
    let found = session.query_unpaged("SELECT release_version FROM system.local", ()).await?;
    let (version,) = found.into_rows_result()?.single_row::<(String,)>()?;
    let mut shown = Map::new();
    for name in settings {
        let cql = "SELECT value FROM system_views.settings WHERE name = ?";
        let found = session.query_unpaged(cql, (name,)).await?.into_rows_result()?;
        let value = found.maybe_first_row::<(Option<String>,)>()?.and_then(|row| row.0);
        shown.insert(name.clone(), value.into());
    }
    Ok(json!({ "version": version, "settings": shown }))
}
