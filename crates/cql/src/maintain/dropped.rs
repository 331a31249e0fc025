//! Removes what dropped tables leave on the servers: their CQL tables and the shards of their hot keys, a day
//! after the drop. Also those of a table that was never named, because its maker ended early.

use crate::client::Client;
use crate::error::unexpected;
use crate::schema::catalog::Catalog;
use crate::schema::hot_keys::STEPS;
use crate::schema::keyspace::drop_directions;
use crate::schema::names::Names;
use crate::schema::statements::Hot;
use crate::schema::values::uuid;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_model::{SeenAt, Side, TableId};
use idmatch_store::{Result, now};
use std::sync::Arc;
use tracing::info;

/// Calls that have begun before a drop may read for so long, in milliseconds.
const DAY_MS: i64 = 86_400_000;
/// Concurrent deletes of shards.
const CONCURRENT_DELETES: usize = 64;
/// After every date of a row, in microseconds: rows have dates as timestamps.
const LAST_TIMESTAMP: i64 = i64::MAX >> 1;

/// Removes what is due. Cost: reads the catalog; a thousand requests for each hot key of a dropped table.
pub(crate) async fn remove_dropped(client: &Arc<Client>) -> Result<()> {
    let catalog = Catalog::new(client);
    let is_over = |since: SeenAt| now().millis_i64() - since.millis_i64() > DAY_MS;
    // Read before the names: a table that is made meanwhile is young.
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

/// Returns the number of hot keys.
async fn remove_shards(client: &Arc<Client>, table: TableId) -> Result<u64> {
    let what = "the hot keys of a dropped table";
    let (hot, id, mut hot_keys) = (Hot::prepare(client).await?, uuid(table), 0);
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
