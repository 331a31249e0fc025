//! Removes what dropped tables leave on the servers, a day after the drop: their CQL tables and the shards of
//! their hot keys. A table whose maker ended before it had a name counts as dropped after a day.

use crate::client::Client;
use crate::error::unexpected;
use crate::schema::catalog::KeyspaceCatalog;
use crate::schema::hot_keys::STEPS;
use crate::schema::keyspace::drop_directions;
use crate::schema::names::Names;
use crate::schema::statements::HotKeyStatements;
use crate::schema::values::uuid;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{SeenAt, Side, TableId};
use idmatch_store::{Result, now};
use std::sync::Arc;
use tracing::info;

/// A day in milliseconds: calls that began before a drop may read for this long.
const DAY_MS: i64 = 86_400_000;
/// Concurrent deletes of shards.
const CONCURRENT_DELETES: usize = 64;
/// A timestamp after the date of every row, in microseconds. The timestamps of rows are their dates.
const LAST_TIMESTAMP: i64 = i64::MAX >> 1;

/// Removes tables a day after their drop, and marks tables as dropped that have had no name for a day. Cost:
/// reads the catalog; a thousand requests for each hot key of a dropped table.
pub(crate) async fn remove_dropped(client: &Arc<Client>) -> Result<()> {
    let catalog = KeyspaceCatalog::new(client);
    let is_over = |since: SeenAt| now().millis_i64() - since.millis_i64() > DAY_MS;
    // The tables are read before the names: a table that is just being made has no name yet, but is younger
    // than a day.
    let tables = catalog.tables().await?;
    let names = Names::read(client).await?;
    let named: Vec<TableId> = names.tables().map(|(_, id)| id).collect();
    for table in tables.iter().filter(|table| !named.contains(&table.id)) {
        match (table.dropped_at, table.made_at) {
            (Some(dropped_at), _) if is_over(dropped_at) => {
                info!(table_id = %table.id, "dropped table is removed");
                let hot_keys = remove_shards(client, table.id).await?;
                drop_directions(client, table.id).await?;
                catalog.forget(table.id, names.has_log(table.id)).await?;
                info!(table_id = %table.id, hot_keys, "dropped table was removed");
            }
            (None, Some(made_at)) if is_over(made_at) => {
                catalog.set_dropped(table.id).await?;
                info!(table_id = %table.id, "table that was never named is marked as dropped");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes the shards of a dropped table; returns the number of its hot keys.
async fn remove_shards(client: &Arc<Client>, table: TableId) -> Result<u64> {
    let what = "the hot keys of a dropped table";
    let (hot, id, mut hot_keys) = (HotKeyStatements::prepare(client).await?, uuid(table), 0);
    for by in Side::BOTH {
        let rows = client.read(what, &hot.keys, (id, by.column())).await?;
        let rows = rows.rows::<(String,)>().map_err(|e| unexpected(what, e))?;
        for row in rows {
            let (key,) = row.map_err(|e| unexpected(what, e))?;
            let shards = STEPS.into_iter().flat_map(|shards| (0..shards).map(move |n| (shards, n)));
            let (hot, key) = (&hot, key.as_str());
            stream::iter(shards)
                .map(|(shards, shard)| {
                    let values = (LAST_TIMESTAMP, id, by.column(), key, shards, shard);
                    client.write(what, &hot.delete_shard, values)
                })
                .buffer_unordered(CONCURRENT_DELETES)
                .try_for_each(async |_| Ok(()))
                .await?;
            let values = (LAST_TIMESTAMP, id, by.column(), key);
            client.write(what, &hot.delete_key, values).await?;
            hot_keys += 1;
        }
    }
    Ok(hot_keys)
}
