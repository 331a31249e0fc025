//! The tables: those of one row a partition, which are usual, and idmatch's own, as `spec/cql/` says.

use crate::Failure;
use clap::ValueEnum;
use scylla::client::session::Session;
use xxhash_rust::xxh3::xxh3_64;

/// Made for every system that has no tables of its own.
const ONE_ROW: &str = include_str!("../../cql_peers/one_row.cql");

/// The table of idmatch that is measured.
pub(crate) const TABLE: &str = "matches";

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Layout {
    OneRow,
    Bucketed,
}

/// The tables of both directions, and the columns that their partitions go by.
pub(crate) fn directions(keyspace: &str, layout: Layout) -> [(String, &'static str); 2] {
    match layout {
        Layout::OneRow => [("by_id", "id"), ("by_partner_id", "partner_id")]
            .map(|(table, key)| (format!("{keyspace}.{table}"), key)),
        Layout::Bucketed => ["id", "partner_id"].map(|side| (bucketed(keyspace, side), "bucket")),
    }
}

fn bucketed(keyspace: &str, side: &str) -> String {
    let hash = xxh3_64(TABLE.as_bytes()) >> 32;
    format!("{keyspace}.m_{TABLE}_{hash:08x}_by_{side}")
}

/// Makes a keyspace with one-row partitions, both directions.
pub(crate) async fn make_one_row(session: &Session, keyspace: &str) -> Result<(), Failure> {
    for statement in ONE_ROW.replace("$keyspace", keyspace).split(';') {
        if !statement.trim().is_empty() {
            session.query_unpaged(statement, ()).await?;
        }
    }
    Ok(())
}

/// A direction of one of idmatch's tables.
pub(crate) struct Bucketed {
    pub(crate) name: String,
    pub(crate) buckets: u64,
}

impl Bucketed {
    /// The table by id, with the number of buckets that it was made with.
    pub(crate) async fn find(session: &Session, keyspace: &str) -> Result<Bucketed, Failure> {
        let catalog =
            format!("SELECT buckets FROM {keyspace}.idmatch_tables WHERE name = ? LIMIT 1");
        let found = session.query_unpaged(catalog, (TABLE,)).await?.into_rows_result()?;
        let (buckets,) = found.single_row::<(i32,)>()?;
        Ok(Bucketed { name: bucketed(keyspace, "id"), buckets: u64::try_from(buckets)? })
    }

    /// The bucket of a key.
    pub(crate) fn bucket(&self, key: &str) -> i32 {
        // Lossless: less than the number of buckets.
        (xxh3_64(key.as_bytes()) % self.buckets) as i32
    }
}
