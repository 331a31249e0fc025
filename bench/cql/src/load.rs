//! Loads match files the usual way: an INSERT for each row, in both directions.

use crate::flight::{Answer, send};
use crate::{Failure, parquets, tables};
use scylla::client::session::Session;
use scylla::statement::Statement;
use scylla::value::CqlTimestamp;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Makes the tables, then loads; only that is timed.
pub(crate) async fn load(
    session: &Arc<Session>,
    keyspace: &str,
    in_flight: usize,
    files: &[PathBuf],
) -> Result<Value, Failure> {
    tables::make_one_row(session, keyspace).await?;
    // The newest date of a pair wins, whatever the order of writes.
    let insert = |table, columns| {
        let mut insert = Statement::new(format!(
            "INSERT INTO {keyspace}.{table} ({columns}, seen_at) VALUES (?, ?, ?) USING TIMESTAMP ?"
        ));
        insert.set_is_idempotent(true);
        session.prepare(insert)
    };
    let inserts = Arc::new([
        insert("by_id", "id, partner_id").await?,
        insert("by_partner_id", "partner_id, id").await?,
    ]);
    let (mut rows, began) = (0, Instant::now());
    for file in files {
        let matches = Arc::new(parquets::matches(file)?);
        let count = matches.seen_at.values().len();
        rows += count;
        let (session, inserts) = (Arc::clone(session), Arc::clone(&inserts));
        send(2 * count, in_flight, move |number| {
            let (session, inserts) = (Arc::clone(&session), Arc::clone(&inserts));
            let matches = Arc::clone(&matches);
            async move {
                let row = number / 2;
                let (id, partner_id) = (matches.ids.value(row), matches.partner_ids.value(row));
                let (insert, key, value) = match number % 2 {
                    0 => (&inserts[0], id, partner_id),
                    _ => (&inserts[1], partner_id, id),
                };
                let date = matches.seen_at.value(row);
                let values = (key, value, CqlTimestamp(date), date * 1000);
                session.execute_unpaged(insert, values).await?;
                Ok(Answer::default())
            }
        })
        .await?;
    }
    Ok(json!({ "rows": rows, "seconds": began.elapsed().as_secs_f64() }))
}
