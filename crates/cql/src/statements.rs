//! The statements for one table, prepared when they are first needed.

use crate::client::{Client, Prepared, Use};
use crate::schema::direction_name;
use idmatch_model::{Keep, Side, TableName};
use idmatch_store::Result;
use tokio::sync::OnceCell;

/// Of rows that are in the order of dates.
const BETWEEN: &str = " AND seen_at >= ? AND seen_at < ?";

/// A statement that is prepared once.
pub(crate) struct Lazy {
    cql: String,
    used: Use,
    prepared: OnceCell<Prepared>,
}

impl Lazy {
    fn new(used: Use, cql: String) -> Lazy {
        Lazy { cql, used, prepared: OnceCell::new() }
    }

    /// The prepared statement.
    pub(crate) async fn get(&self, client: &Client) -> Result<&Prepared> {
        self.prepared.get_or_try_init(|| client.prepare(&self.cql, self.used)).await
    }
}

/// The statements for one direction. Those that read give rows of key, value and seen_at.
pub(crate) struct Direction {
    /// Adds a row: bucket, key, value, seen_at, timestamp, time to live in seconds.
    pub(crate) insert: Lazy,
    /// The rows of a key: bucket, key, and with keep="all" from when on and before when.
    pub(crate) key: Lazy,
    /// One row: bucket, key, value, and with keep="all" seen_at.
    pub(crate) row: Lazy,
    /// The rows of some keys of a bucket: bucket, keys, and with keep="all" the same dates.
    pub(crate) keys: Lazy,
    /// The rows of a bucket: bucket.
    pub(crate) bucket: Lazy,
    /// The rows of a range of tokens: after which, and up to which.
    pub(crate) range: Lazy,
    /// Removes what a key has up to a timestamp: timestamp, bucket, key.
    pub(crate) delete_key: Lazy,
    /// Removes a row up to a timestamp: timestamp, bucket, key, value, and with keep="all" seen_at.
    pub(crate) delete_row: Lazy,
}

/// The statements for keys with very many rows. A part is named by table, side, key, number of parts,
/// and its own number.
pub(crate) struct Hot {
    /// Adds a row: its part, value, seen_at, timestamp, time to live in seconds.
    pub(crate) insert: Lazy,
    /// The rows of a part, newest first: its name, from when on and before when.
    pub(crate) part: Lazy,
    /// The parts that there are, of all tables: table, side, key.
    pub(crate) keys: Lazy,
    /// Removes what a part has up to a timestamp: timestamp, part.
    pub(crate) delete_part: Lazy,
    /// Removes a row up to a timestamp: timestamp, part, value, seen_at.
    pub(crate) delete_row: Lazy,
}

/// The statements for both directions of a table.
pub(crate) struct Statements {
    by_id: Direction,
    by_partner_id: Direction,
    /// Those for keys with very many rows.
    pub(crate) hot: Hot,
}

impl Statements {
    pub(crate) fn new(keyspace: &str, table: &TableName, keep: Keep) -> Statements {
        let direction =
            |by| Direction::new(&format!("{keyspace}.{}", direction_name(table, by)), keep);
        Statements {
            by_id: direction(Side::Id),
            by_partner_id: direction(Side::PartnerId),
            hot: Hot::new(&format!("{keyspace}.idmatch_hot")),
        }
    }

    pub(crate) fn by(&self, by: Side) -> &Direction {
        match by {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        }
    }
}

impl Direction {
    fn new(table: &str, keep: Keep) -> Direction {
        let select = format!("SELECT key, value, seen_at FROM {table}");
        let (exactly, dates) = match keep {
            Keep::Last => ("bucket = ? AND key = ? AND value = ?", ""),
            Keep::All => ("bucket = ? AND key = ? AND value = ? AND seen_at = ?", BETWEEN),
        };
        Direction {
            insert: Lazy::new(
                Use::Write,
                format!(
                    "INSERT INTO {table} (bucket, key, value, seen_at) VALUES (?, ?, ?, ?) \
                 USING TIMESTAMP ? AND TTL ?"
                ),
            ),
            key: Lazy::new(Use::Read, format!("{select} WHERE bucket = ? AND key = ?{dates}")),
            row: Lazy::new(Use::Read, format!("{select} WHERE {exactly}")),
            keys: Lazy::new(Use::List, format!("{select} WHERE bucket = ? AND key IN ?{dates}")),
            bucket: Lazy::new(Use::Scan, format!("{select} WHERE bucket = ?")),
            range: Lazy::new(
                Use::Scan,
                format!("{select} WHERE token(bucket) > ? AND token(bucket) <= ?"),
            ),
            delete_key: Lazy::new(
                Use::Write,
                format!("DELETE FROM {table} USING TIMESTAMP ? WHERE bucket = ? AND key = ?"),
            ),
            delete_row: Lazy::new(
                Use::Write,
                format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {exactly}"),
            ),
        }
    }
}

impl Hot {
    fn new(table: &str) -> Hot {
        let part = "name = ? AND side = ? AND key = ? AND parts = ? AND part = ?";
        let row = format!("{part} AND value = ? AND seen_at = ?");
        Hot {
            insert: Lazy::new(
                Use::Write,
                format!(
                    "INSERT INTO {table} (name, side, key, parts, part, value, seen_at) \
                     VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
                ),
            ),
            part: Lazy::new(
                Use::Read,
                format!("SELECT key, value, seen_at FROM {table} WHERE {part}{BETWEEN}"),
            ),
            keys: Lazy::new(
                Use::Scan,
                format!("SELECT DISTINCT name, side, key, parts, part FROM {table}"),
            ),
            delete_part: Lazy::new(
                Use::Write,
                format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {part}"),
            ),
            delete_row: Lazy::new(
                Use::Write,
                format!("DELETE FROM {table} USING TIMESTAMP ? WHERE {row}"),
            ),
        }
    }
}
