//! The tables: those of one row a partition, which are usual, and idmatch's own, as `spec/cql/` says.

use crate::Failure;
use clap::ValueEnum;
use scylla::client::session::Session;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64_with_seed;

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
pub(crate) async fn directions(
    session: &Session,
    keyspace: &str,
    layout: Layout,
) -> Result<[(String, &'static str); 2], Failure> {
    Ok(match layout {
        Layout::OneRow => [("by_id", "id"), ("by_partner_id", "partner_id")]
            .map(|(table, key)| (format!("{keyspace}.{table}"), key)),
        Layout::Bucketed => {
            let id = table_id(session, keyspace).await?;
            ["id", "partner_id"].map(|side| (bucketed(keyspace, id, side), "bucket"))
        }
    })
}

/// The id of idmatch's table: the bytes of a UUID.
async fn table_id(session: &Session, keyspace: &str) -> Result<Uuid, Failure> {
    let names =
        format!("SELECT id FROM {keyspace}.idmatch_names WHERE part = 'names' AND name = ?");
    let found = session.query_unpaged(names, (TABLE,)).await?.into_rows_result()?;
    Ok(found.single_row::<(Uuid,)>()?.0)
}

fn bucketed(keyspace: &str, id: Uuid, side: &str) -> String {
    format!("{keyspace}.m_{}_by_{side}", id.simple())
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
    seed: u64,
}

impl Bucketed {
    /// The table by id, with the number of buckets that it was made with.
    pub(crate) async fn find(session: &Session, keyspace: &str) -> Result<Bucketed, Failure> {
        let id = table_id(session, keyspace).await?;
        let catalog = format!("SELECT buckets FROM {keyspace}.idmatch_tables WHERE id = ? LIMIT 1");
        let found = session.query_unpaged(catalog, (id,)).await?.into_rows_result()?;
        let (buckets,) = found.single_row::<(i32,)>()?;
        let store = format!("SELECT seed FROM {keyspace}.idmatch_store");
        let found = session.query_unpaged(store, ()).await?.into_rows_result()?;
        let (seed,) = found.single_row::<(i64,)>()?;
        let name = bucketed(keyspace, id, "id");
        Ok(Bucketed { name, buckets: u64::try_from(buckets)?, seed: seed.cast_unsigned() })
    }

    /// The bucket of a key.
    pub(crate) fn bucket(&self, key: &str) -> i32 {
        // Lossless: less than the number of buckets.
        (xxh3_64_with_seed(key.as_bytes(), self.seed) % self.buckets) as i32
    }
}
