//! The prepared statements of one table. Opening a table prepares all of them: the driver prepares on every
//! connected node and waits for a node that does not respond. An open table never has to wait for that.

use super::keyspace::direction_name;
use crate::client::{Client, Prepared, Use};
use idmatch_model::{Keep, Side, TableId};
use idmatch_store::Result;
use tokio::try_join;

/// Restricts a read of rows in the order of dates to some dates.
const BETWEEN: &str = " AND seen_at >= ? AND seen_at < ?";

/// The statements of one direction. Reads return key, value and seen_at.
pub(crate) struct DirectionStatements {
    /// Adds a row: bucket, key, value, seen_at, timestamp, TTL in seconds.
    pub(crate) insert: Prepared,
    /// The rows of a key: bucket, key, and with keep="all" the first date and the date that ends
    /// the range.
    pub(crate) key: Prepared,
    /// One row: bucket, key, value, and with keep="all" seen_at.
    pub(crate) row: Prepared,
    /// The rows of several keys of a bucket: bucket, keys, and with keep="all" the same dates.
    pub(crate) keys: Prepared,
    /// The rows of a bucket: bucket.
    pub(crate) bucket: Prepared,
    /// The rows of a token range: exclusive start, inclusive end.
    pub(crate) range: Prepared,
    /// Removes the rows of a key up to a timestamp: timestamp, bucket, key.
    pub(crate) delete_key: Prepared,
    /// Removes a row up to a timestamp: timestamp, bucket, key, value, and with keep="all" seen_at.
    pub(crate) delete_row: Prepared,
}

/// The statements for hot keys. A shard is named by table, side, key, number of shards, and its own
/// number.
pub(crate) struct HotKeyStatements {
    /// Adds a row: its shard, value, seen_at, timestamp, TTL in seconds.
    pub(crate) insert: Prepared,
    /// The rows of a shard, newest first: its name, the first date, and the date that ends the
    /// range.
    pub(crate) shard: Prepared,
    /// The keys that have rows in shards: table, side.
    pub(crate) keys: Prepared,
    /// Notes a key that has rows in shards: table, side, key, timestamp, TTL in seconds.
    pub(crate) insert_key: Prepared,
    /// Removes the note of a key, up to a timestamp: timestamp, table, side, key.
    pub(crate) delete_key: Prepared,
    /// Removes the rows of a shard up to a timestamp: timestamp, shard.
    pub(crate) delete_shard: Prepared,
    /// Removes a row up to a timestamp: timestamp, shard, value, seen_at.
    pub(crate) delete_row: Prepared,
}

/// The statements for the written chunks of loads that did not finish.
pub(crate) struct Loads {
    /// Records a chunk: table, hash.
    pub(crate) insert: Prepared,
    /// The chunks of a table's loads: table.
    pub(crate) chunks: Prepared,
    /// Deletes a chunk: table, hash.
    pub(crate) delete: Prepared,
}

/// All statements of a table.
pub(crate) struct Statements {
    by_id: DirectionStatements,
    by_partner_id: DirectionStatements,
    pub(crate) hot: HotKeyStatements,
    pub(crate) loads: Loads,
}

impl Statements {
    /// # Errors
    /// `Unavailable` where the servers do not prepare them in time.
    pub(crate) async fn prepare(client: &Client, table: TableId, keep: Keep) -> Result<Statements> {
        let keyspace = &client.settings().keyspace;
        let by = |side| format!("{keyspace}.{}", direction_name(table, side));
        let (id, partner_id) = (by(Side::Id), by(Side::PartnerId));
        let loads = format!("{keyspace}.idmatch_loads");
        let (by_id, by_partner_id, hot, loads) = try_join!(
            DirectionStatements::prepare(client, &id, keep),
            DirectionStatements::prepare(client, &partner_id, keep),
            HotKeyStatements::prepare(client),
            Loads::prepare(client, &loads),
        )?;
        Ok(Statements { by_id, by_partner_id, hot, loads })
    }

    pub(crate) fn by(&self, by: Side) -> &DirectionStatements {
        match by {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        }
    }
}

impl DirectionStatements {
    async fn prepare(client: &Client, table: &str, keep: Keep) -> Result<DirectionStatements> {
        let select = format!("SELECT key, value, seen_at FROM {table}");
        let delete = format!("DELETE FROM {table} USING TIMESTAMP ?");
        let (exactly, dates) = match keep {
            Keep::Last => ("bucket = ? AND key = ? AND value = ?", ""),
            Keep::All => ("bucket = ? AND key = ? AND value = ? AND seen_at = ?", BETWEEN),
        };
        let insert = format!(
            "INSERT INTO {table} (bucket, key, value, seen_at) VALUES (?, ?, ?, ?) \
             USING TIMESTAMP ? AND TTL ?"
        );
        let key = format!("{select} WHERE bucket = ? AND key = ?{dates}");
        let row = format!("{select} WHERE {exactly}");
        let keys = format!("{select} WHERE bucket = ? AND key IN ?{dates}");
        let bucket = format!("{select} WHERE bucket = ?");
        let range = format!("{select} WHERE token(bucket) > ? AND token(bucket) <= ?");
        let delete_key = format!("{delete} WHERE bucket = ? AND key = ?");
        let delete_row = format!("{delete} WHERE {exactly}");
        let (insert, key, row, keys, bucket, range, delete_key, delete_row) = try_join!(
            client.prepare(&insert, Use::Write),
            client.prepare(&key, Use::Read),
            client.prepare(&row, Use::Read),
            client.prepare(&keys, Use::List),
            client.prepare(&bucket, Use::Scan),
            client.prepare(&range, Use::Scan),
            client.prepare(&delete_key, Use::Write),
            client.prepare(&delete_row, Use::Write),
        )?;
        Ok(DirectionStatements { insert, key, row, keys, bucket, range, delete_key, delete_row })
    }
}

impl HotKeyStatements {
    pub(crate) async fn prepare(client: &Client) -> Result<HotKeyStatements> {
        let keyspace = &client.settings().keyspace;
        let (table, listed) =
            (format!("{keyspace}.idmatch_hot"), format!("{keyspace}.idmatch_hot_keys"));
        let delete = format!("DELETE FROM {table} USING TIMESTAMP ?");
        let exactly = "id = ? AND side = ? AND key = ? AND parts = ? AND part = ?";
        let insert = format!(
            "INSERT INTO {table} (id, side, key, parts, part, value, seen_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
        );
        let shard = format!("SELECT key, value, seen_at FROM {table} WHERE {exactly}{BETWEEN}");
        let keys = format!("SELECT key FROM {listed} WHERE id = ? AND side = ?");
        let insert_key = format!(
            "INSERT INTO {listed} (id, side, key) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?"
        );
        let delete_key =
            format!("DELETE FROM {listed} USING TIMESTAMP ? WHERE id = ? AND side = ? AND key = ?");
        let delete_shard = format!("{delete} WHERE {exactly}");
        let delete_row = format!("{delete} WHERE {exactly} AND value = ? AND seen_at = ?");
        let (insert, shard, keys, insert_key, delete_key, delete_shard, delete_row) = try_join!(
            client.prepare(&insert, Use::Write),
            client.prepare(&shard, Use::Read),
            client.prepare(&keys, Use::Scan),
            client.prepare(&insert_key, Use::Write),
            client.prepare(&delete_key, Use::Write),
            client.prepare(&delete_shard, Use::Write),
            client.prepare(&delete_row, Use::Write),
        )?;
        Ok(HotKeyStatements {
            insert,
            shard,
            keys,
            insert_key,
            delete_key,
            delete_shard,
            delete_row,
        })
    }
}

impl Loads {
    async fn prepare(client: &Client, table: &str) -> Result<Loads> {
        let insert = format!("INSERT INTO {table} (id, chunk) VALUES (?, ?)");
        let chunks = format!("SELECT chunk FROM {table} WHERE id = ?");
        let delete = format!("DELETE FROM {table} WHERE id = ? AND chunk = ?");
        let (insert, chunks, delete) = try_join!(
            client.prepare(&insert, Use::Write),
            client.prepare(&chunks, Use::Read),
            client.prepare(&delete, Use::Write),
        )?;
        Ok(Loads { insert, chunks, delete })
    }
}
