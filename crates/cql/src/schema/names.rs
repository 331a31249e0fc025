//! The names of all tables: the one partition of `idmatch_names`. Every change of the catalog is one
//! conditional batch there.
//!
//! Invariants:
//! - A name has a table, or the log of erasures that the last table of the name has left.
//! - A change that merges logs is announced first. While it is announced, an erasure goes to every log that
//!   the change concerns, so that no erasure is missed between the merge and the change.

use super::log::Log;
use super::values::{age, table_id, uuid};
use crate::client::Client;
use crate::error::unexpected;
use idmatch_model::{TableId, TableName};
use idmatch_store::{Error, ErrorKind, Result};
use scylla::serialize::row::SerializeRow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;
use uuid::Uuid;

/// An announced change is forgotten after this time, by the servers' clocks, if its client does not go on.
const OVERDUE: Duration = Duration::from_secs(120);
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// The number of changes that are remembered: a client whose answer was lost finds its own among them.
const REMEMBERED: usize = 32;

/// The table or the log that a name has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Table(TableId),
    /// The log of erasures for the next table of the name.
    Former(TableId),
}

impl Holder {
    /// The log of erasures.
    pub(crate) fn log(self) -> TableId {
        match self {
            Holder::Table(id) | Holder::Former(id) => id,
        }
    }
}

/// All names at one moment.
#[derive(Debug, Default)]
pub(crate) struct Names {
    of: BTreeMap<TableName, Holder>,
    /// The last change, and those before it, newest first.
    changes: Vec<Uuid>,
    announced: Option<Announced>,
}

#[derive(Debug)]
struct Announced {
    concerned: Vec<TableId>,
    is_overdue: bool,
}

/// A change of the names.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The logs of the change that this one announces.
    pub(crate) announced: Vec<TableId>,
    pub(crate) holders: Vec<(TableName, Holder)>,
}

/// Columns: name, id, former, changes, announced, WRITETIME(announced), concerned.
type NameRow = (
    Option<String>,
    Option<Uuid>,
    Option<Uuid>,
    Option<Vec<Uuid>>,
    Option<Uuid>,
    Option<i64>,
    Option<Vec<Uuid>>,
);

impl Names {
    /// Reads all names. Cost: one partition.
    pub(crate) async fn read(client: &Arc<Client>) -> Result<Names> {
        let what = "the names of tables";
        let cql = format!(
            "SELECT name, id, former, changes, announced, WRITETIME(announced), concerned \
             FROM {}.idmatch_names WHERE part = 'names'",
            client.settings().keyspace
        );
        let read = client.prepare_catalog(&cql).await?;
        let rows = client.read(what, &read, ()).await?;
        let mut names = Names { of: BTreeMap::new(), changes: Vec::new(), announced: None };
        for row in rows.rows::<NameRow>().map_err(|e| unexpected(what, e))? {
            let (name, id, former, changes, announced, at, concerned) =
                row.map_err(|e| unexpected(what, e))?;
            if let Some(changes) = changes {
                names.changes = changes;
            }
            names.announced = announced.map(|_| Announced {
                concerned: concerned.into_iter().flatten().map(table_id).collect(),
                is_overdue: age(at) > OVERDUE,
            });
            let holder = match (id, former) {
                (Some(id), None) => Some(Holder::Table(table_id(id))),
                (None, Some(log)) => Some(Holder::Former(table_id(log))),
                _ => None,
            };
            if let (Some(name), Some(holder)) = (name, holder) {
                names.of.insert(name.parse().map_err(|e| unexpected(what, e))?, holder);
            }
        }
        Ok(names)
    }

    /// The names, once no other client's change is announced, or the announced one is overdue.
    pub(crate) async fn settled(client: &Arc<Client>) -> Result<Names> {
        loop {
            let names = Names::read(client).await?;
            if names.announced.as_ref().is_none_or(|announced| announced.is_overdue) {
                return Ok(names);
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// The tables, by name.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (&TableName, TableId)> {
        self.of.iter().filter_map(|(name, holder)| match holder {
            Holder::Table(id) => Some((name, *id)),
            Holder::Former(_) => None,
        })
    }

    pub(crate) fn holder(&self, name: &TableName) -> Option<Holder> {
        self.of.get(name).copied()
    }

    /// The table of a name.
    pub(crate) fn table(&self, name: &TableName) -> Result<TableId> {
        match self.holder(name) {
            Some(Holder::Table(id)) => Ok(id),
            _ => Err(not_found(name)),
        }
    }

    /// Whether a name has this log.
    pub(crate) fn has_log(&self, log: TableId) -> bool {
        self.of.values().any(|holder| holder.log() == log)
    }

    /// All logs that an erasure in the logs `entered` must be in: these logs, the log of the name, and all
    /// logs of an announced change that concerns one of them.
    pub(crate) fn logs_beside(
        &self,
        name: Option<&TableName>,
        entered: &BTreeSet<TableId>,
    ) -> BTreeSet<TableId> {
        let mut logs = entered.clone();
        logs.extend(name.and_then(|name| self.holder(name)).map(Holder::log));
        if let Some(announced) = &self.announced
            && announced.concerned.iter().any(|log| logs.contains(log))
        {
            logs.extend(&announced.concerned);
        }
        logs
    }

    /// Makes a change, unless another one was made since these names were read. Returns whether it is made.
    ///
    /// # Errors
    /// `UnknownOutcome`.
    pub(crate) async fn change(&self, client: &Arc<Client>, change: Change) -> Result<bool> {
        let what = "the names of tables";
        let keyspace = &client.settings().keyspace;
        let update = format!(
            "UPDATE {keyspace}.idmatch_names SET change = ?, changes = ?, announced = ?, concerned = ? \
             WHERE part = 'names' IF change = ?"
        );
        let insert = format!(
            "INSERT INTO {keyspace}.idmatch_names (part, name, id, former) VALUES ('names', ?, ?, ?)"
        );
        let update = client.prepare_catalog(&update).await?;
        let insert = client.prepare_catalog(&insert).await?;
        let this = Uuid::new_v4();
        let mut changes = vec![this];
        changes.extend(self.changes.iter().take(REMEMBERED - 1));
        let concerned: Vec<Uuid> = change.announced.iter().map(|id| uuid(*id)).collect();
        let announced = (!concerned.is_empty()).then_some(this);
        let last = self.changes.first().copied();
        let mut statements = vec![&update];
        let mut values: Vec<Box<dyn SerializeRow + Send + Sync>> =
            vec![Box::new((this, changes, announced, announced.map(|_| concerned), last))];
        for (name, holder) in &change.holders {
            let (id, former) = match holder {
                Holder::Table(id) => (Some(uuid(*id)), None),
                Holder::Former(log) => (None, Some(uuid(*log))),
            };
            statements.push(&insert);
            values.push(Box::new((name.to_string(), id, former)));
        }
        client.write_together(what, &statements, &values).await?;
        Ok(Names::read(client).await?.changes.contains(&this))
    }

    /// Announces a change that concerns these logs, merges them, and makes the change once every client knows
    /// the merged logs. `false` if another client made a change meanwhile.
    pub(crate) async fn merge_and_change(
        &self,
        client: &Arc<Client>,
        merges: &[(TableId, TableId)],
        (change, metadata_ttl): (Change, Duration),
    ) -> Result<bool> {
        let concerned: BTreeSet<_> =
            merges.iter().flat_map(|(from, into)| [*from, *into]).collect();
        let announcement = Change { announced: concerned.into_iter().collect(), holders: vec![] };
        if !self.change(client, announcement).await? {
            return Ok(false);
        }
        let announced = Names::read(client).await?;
        let merged = async {
            for (from, into) in merges {
                Log::new(client).merge(*from, *into).await?;
            }
            Ok(())
        };
        if let Err(e) = merged.await {
            // Withdraws the announcement: otherwise other changes wait until it is overdue.
            if let Err(error) = announced.change(client, Change::default()).await {
                warn!(%error, "announced change of names is not withdrawn: others wait for it");
            }
            return Err(e);
        }
        tokio::time::sleep(metadata_ttl).await;
        announced.change(client, change).await
    }
}

/// The error of a name without a table.
pub(crate) fn not_found(name: &TableName) -> Error {
    Error::new(ErrorKind::TableNotFound, format!("there is no table {name}; create it first"))
}
