//! The keyspace: creates and checks the CQL tables of `spec/cql/`, and nothing else.

use crate::client::Client;
use crate::error::unexpected;
use crate::settings::Settings;
use idmatch_model::{ErasureKey, Keep, Side, TableId};
use idmatch_store::{Error, ErrorKind, Result, now};
use scylla::value::CqlTimestamp;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const STORE: &str = include_str!("../../../../spec/cql/store.cql");
const TABLE_LAST: &str = include_str!("../../../../spec/cql/table-last.cql");
const TABLE_ALL: &str = include_str!("../../../../spec/cql/table-all.cql");

/// The version of the whole schema.
const VERSION: i32 = 2;
/// Allowed difference between the clocks of client and servers. The client's clock judges dates;
/// the servers' clocks expire rows.
const MOST_SKEW_MILLIS: i64 = 60_000;

/// The settings that a keyspace was created with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreRow {
    pub(crate) erasure_key: ErasureKey,
    /// The secret seed of buckets and shards.
    pub(crate) seed: u64,
    pub(crate) metadata_ttl: Duration,
}

/// Finds the store in its keyspace; `None` if the keyspace is empty. Checks clocks and versions.
///
/// # Errors
/// `NotAStore` where the keyspace is missing and the address does not say to create it.
pub(crate) async fn find(client: &Arc<Client>) -> Result<Option<StoreRow>> {
    check_clock(client).await?;
    let Settings { keyspace, replication, .. } = client.settings();
    if replication.is_none() && !has_keyspace_by_now(client, keyspace).await? {
        return Err(Error::new(
            ErrorKind::NotAStore,
            format!(
                "the servers have no keyspace {keyspace}; have one made by adding \
                 replication=3 (copies of each row) to the address"
            ),
        ));
    }
    // This table is created last.
    if has_table(client, keyspace, "idmatch_hot").await? {
        return store_row(client).await;
    }
    Ok(None)
}

/// Creates the store in its keyspace, and the keyspace where it is missing. Two clients that do so
/// at once get the same store. Its tombstones are hashed with this key, or a random one.
pub(crate) async fn make(client: &Arc<Client>, key: Option<ErasureKey>) -> Result<StoreRow> {
    let Settings { keyspace, replication, metadata_ttl, .. } = client.settings();
    if let Some(copies) = replication
        && !has_keyspace(client, keyspace).await?
    {
        let cql = format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {copies}}}"
        );
        client.change_schema(&cql).await?;
        client.learn_of_keyspace().await?;
    }
    for statement in statements(STORE) {
        client.change_schema(&filled(statement, keyspace, "")).await?;
    }
    let cql = format!(
        "INSERT INTO {keyspace}.idmatch_names (part, change, changes) VALUES ('names', ?, ?) \
         IF NOT EXISTS"
    );
    let (insert, first) = (client.prepare_catalog(&cql).await?, Uuid::new_v4());
    client.write("the names of tables", &insert, (first, vec![first])).await?;
    let key = key.unwrap_or(ErasureKey::new(random()?)).to_string();
    // Lossless here and where it is read: 64 random bits.
    let seed = u128::from_be_bytes(random()?) as i64;
    let metadata_ttl = i32::try_from(metadata_ttl.as_millis()).unwrap_or(i32::MAX).max(1);
    let cql = format!(
        "INSERT INTO {keyspace}.idmatch_store (part, version, erasure_key, seed, lease_ms) \
         VALUES ('store', ?, ?, ?, ?) IF NOT EXISTS"
    );
    let insert = client.prepare_catalog(&cql).await?;
    client.write("the store", &insert, (VERSION, key, seed, metadata_ttl)).await?;
    // The first client's key is the one that all clients use.
    store_row(client).await?.ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, format!("keyspace {keyspace} lost what was just written"))
    })
}

async fn store_row(client: &Arc<Client>) -> Result<Option<StoreRow>> {
    let what = "what the keyspace was made with";
    let cql = format!(
        "SELECT version FROM {}.idmatch_store WHERE part = 'store'",
        client.settings().keyspace
    );
    let read = client.prepare_catalog(&cql).await?;
    let rows = client.read(what, &read, ()).await?;
    let row = rows.maybe_first_row::<(i32,)>();
    let Some((version,)) = row.map_err(|e| unexpected(what, e))? else { return Ok(None) };
    if version != VERSION {
        let keyspace = &client.settings().keyspace;
        return Err(Error::new(
            ErrorKind::UnsupportedFormat,
            format!(
                "keyspace {keyspace} has tables of version {version}, and this idmatch reads version \
                 {VERSION}: load the data again into another keyspace, or use an idmatch that reads them"
            ),
        ));
    }
    // A former version does not have these columns.
    let cql = format!(
        "SELECT erasure_key, seed, lease_ms FROM {}.idmatch_store WHERE part = 'store'",
        client.settings().keyspace
    );
    let read = client.prepare_catalog(&cql).await?;
    let rows = client.read(what, &read, ()).await?;
    let row = rows.first_row::<(String, i64, i32)>();
    let (key, seed, metadata_ttl) = row.map_err(|e| unexpected(what, e))?;
    let erasure_key = key.parse().map_err(|e| unexpected(what, e))?;
    let metadata_ttl = Duration::from_millis(u64::try_from(metadata_ttl).unwrap_or_default());
    Ok(Some(StoreRow { erasure_key, seed: seed.cast_unsigned(), metadata_ttl }))
}

async fn check_clock(client: &Arc<Client>) -> Result<()> {
    let what = "the servers' clock";
    let rows = client.ask(what, "SELECT toTimestamp(now()) FROM system.local").await?;
    let (CqlTimestamp(theirs),) =
        rows.first_row::<(CqlTimestamp,)>().map_err(|e| unexpected(what, e))?;
    let ours = now().millis_i64();
    if (ours - theirs).abs() > MOST_SKEW_MILLIS {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "this machine's clock and the servers' are {} s apart; set them right (NTP): \
                 dates are judged by one, and rows expire by the other",
                (ours - theirs).abs() / 1_000
            ),
        ));
    }
    Ok(())
}

async fn has_keyspace(client: &Arc<Client>, keyspace: &str) -> Result<bool> {
    let cql = format!(
        "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = '{keyspace}'"
    );
    Ok(client.ask("the keyspaces", &cql).await?.rows_num() > 0)
}

/// Whether the keyspace exists. A node that was down may not know it yet, so this waits for agreement and
/// asks again.
async fn has_keyspace_by_now(client: &Arc<Client>, keyspace: &str) -> Result<bool> {
    if has_keyspace(client, keyspace).await? {
        return Ok(true);
    }
    client.wait_for_agreement().await;
    has_keyspace(client, keyspace).await
}

async fn has_table(client: &Arc<Client>, keyspace: &str, table: &str) -> Result<bool> {
    let cql = format!(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}' \
         AND table_name = '{table}'"
    );
    Ok(client.ask("the tables", &cql).await?.rows_num() > 0)
}

/// The CQL name of one direction of a table. It is made of the table's id, because a table may get another
/// name. It has the 48 characters that CQL takes.
pub(crate) fn direction_name(table: TableId, by: Side) -> String {
    format!("m_{table}_by_{}", by.column())
}

/// Creates both directions of a table.
pub(crate) async fn create(client: &Arc<Client>, table: TableId, keep: Keep) -> Result<()> {
    let definition = match keep {
        Keep::Last => TABLE_LAST,
        Keep::All => TABLE_ALL,
    };
    for by in Side::BOTH {
        for statement in statements(definition) {
            let name = direction_name(table, by);
            client.change_schema(&filled(statement, &client.settings().keyspace, &name)).await?;
        }
    }
    Ok(())
}

/// Drops both directions of a table.
pub(crate) async fn drop_directions(client: &Arc<Client>, table: TableId) -> Result<()> {
    for by in Side::BOTH {
        let (keyspace, name) = (&client.settings().keyspace, direction_name(table, by));
        client.change_schema(&format!("DROP TABLE IF EXISTS {keyspace}.{name}")).await?;
    }
    Ok(())
}

fn statements(file: &str) -> impl Iterator<Item = &str> {
    file.split(';').map(str::trim).filter(|statement| statement.contains("CREATE"))
}

fn filled(statement: &str, keyspace: &str, table: &str) -> String {
    statement.replace("$keyspace", keyspace).replace("$table", table)
}

/// 128 random bits of the system.
///
/// # Errors
/// `Io`.
pub(crate) fn random() -> Result<[u8; 16]> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|e| Error::with_source(ErrorKind::Io, "the system has no random numbers", e))?;
    Ok(random)
}
