//! The rows of `idmatch_tables` and `idmatch_erasures`: what a table is, and the log of its erasures.
//!
//! Each change is made by a conditional write, so that of two clients one is first; who may have been
//! first and was not told reads what is there.

use crate::client::Client;
use crate::errors::unexpected;
use idmatch_model::{Keep, Period, SeenAt, TableName, TableOptions};
use idmatch_store::{Error, ErrorKind, Result};
use scylla::response::PagingState;
use scylla::value::CqlTimestamp;
use uuid::Uuid;

/// Generations that the timestamps of rows have room for.
const MOST_GENERATIONS: i32 = 998;
/// Erasures that are written in one request.
const ROWS_AT_ONCE: usize = 500;

/// What a table is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) keep: Keep,
    pub(crate) retention: Option<Period>,
    /// Rows before this are gone for good: a retention hid them once.
    pub(crate) gone_before: SeenAt,
    /// How often the retention was changed. Part of the rows' timestamps, so that a row
    /// that is written again takes the newer time to live.
    pub(crate) generation: i32,
    /// The generation to which all rows have been written anew.
    pub(crate) rewritten: i32,
    pub(crate) buckets: i32,
    pub(crate) maker: Uuid,
    pub(crate) is_ready: bool,
}

impl Definition {
    pub(crate) fn new(options: &TableOptions, buckets: i32, maker: Uuid) -> Definition {
        Definition {
            keep: options.keep,
            retention: options.retention.clone(),
            gone_before: SeenAt::EPOCH,
            generation: 0,
            rewritten: 0,
            buckets,
            maker,
            is_ready: false,
        }
    }

    pub(crate) fn options(&self) -> TableOptions {
        TableOptions { keep: self.keep, retention: self.retention.clone() }
    }

    fn read(what: &str, statics: Statics) -> Result<Definition> {
        let missing = || Error::new(ErrorKind::Corrupt, format!("cannot understand {what}"));
        let (keep, retention, gone_before, generation, rewritten, buckets, maker, is_ready) =
            statics;
        Ok(Definition {
            keep: match keep.as_deref() {
                Some("last") => Keep::Last,
                Some("all") => Keep::All,
                _ => return Err(missing()),
            },
            retention: retention.map(|text| Period::parse(&text)).transpose()?,
            gone_before: match gone_before {
                Some(CqlTimestamp(millis)) => SeenAt::from_millis(millis)?,
                None => SeenAt::EPOCH,
            },
            generation: generation.unwrap_or_default(),
            rewritten: rewritten.unwrap_or_default(),
            buckets: buckets.filter(|buckets| *buckets > 0).ok_or_else(missing)?,
            maker: maker.ok_or_else(missing)?,
            is_ready: is_ready.unwrap_or_default(),
        })
    }
}

/// An entry of the log: a portion of erasures. The first entry of a table is its making.
pub(crate) struct Entry {
    pub(crate) number: i64,
    pub(crate) portion: Option<Uuid>,
}

/// Keep, retention, gone_before, generation, rewritten, buckets, maker, is_ready.
type Statics = (
    Option<String>,
    Option<String>,
    Option<CqlTimestamp>,
    Option<i32>,
    Option<i32>,
    Option<i32>,
    Option<Uuid>,
    Option<bool>,
);

/// Reads and changes the catalog of one keyspace.
pub(crate) struct Catalog<'c> {
    client: &'c Client,
    keyspace: &'c str,
}

impl<'c> Catalog<'c> {
    pub(crate) fn new(client: &'c Client) -> Catalog<'c> {
        Catalog { client, keyspace: &client.settings().keyspace }
    }

    /// The names of all tables that are ready, ascending.
    pub(crate) async fn names(&self) -> Result<Vec<TableName>> {
        let what = "the names of tables";
        let cql = format!("SELECT DISTINCT name, is_ready FROM {}.idmatch_tables", self.keyspace);
        let read = self.client.prepare_catalog(&cql).await?;
        let rows = self.client.read(what, &read, ()).await?;
        let mut names = Vec::new();
        for row in rows.rows::<(String, Option<bool>)>().map_err(|e| unexpected(what, e))? {
            let (name, is_ready) = row.map_err(|e| unexpected(what, e))?;
            if is_ready == Some(true) {
                names.push(name.parse().map_err(|e| unexpected(what, e))?);
            }
        }
        names.sort();
        Ok(names)
    }

    /// What a table is; `None` if there is no such table.
    pub(crate) async fn definition(&self, name: &TableName) -> Result<Option<Definition>> {
        let what = format!("what table {name} is");
        let cql = format!(
            "SELECT DISTINCT keep, retention, gone_before, generation, rewritten, buckets, maker, \
             is_ready FROM {}.idmatch_tables WHERE name = ?",
            self.keyspace
        );
        let read = self.client.prepare_catalog(&cql).await?;
        let rows = self.client.read(&what, &read, (name.as_str(),)).await?;
        let statics = rows.maybe_first_row::<Statics>().map_err(|e| unexpected(&what, e))?;
        statics.map(|statics| Definition::read(&what, statics)).transpose()
    }

    /// The log of a table after an entry.
    pub(crate) async fn entries(&self, name: &TableName, after: i64) -> Result<Vec<Entry>> {
        let what = format!("the log of table {name}");
        let cql = format!(
            "SELECT entry, portion FROM {}.idmatch_tables WHERE name = ? AND entry > ?",
            self.keyspace
        );
        let read = self.client.prepare_catalog(&cql).await?;
        let (mut entries, mut next) = (Vec::new(), Some(PagingState::start()));
        while let Some(from) = next.take() {
            let values = (name.as_str(), after);
            let (rows, more) = self.client.read_page(&what, &read, values, from).await?;
            for row in rows.rows::<(i64, Option<Uuid>)>().map_err(|e| unexpected(&what, e))? {
                let (number, portion) = row.map_err(|e| unexpected(&what, e))?;
                entries.push(Entry { number, portion });
            }
            next = more;
        }
        Ok(entries)
    }

    /// Enters a table that is not there yet. Whoever comes second finds the first one's.
    pub(crate) async fn enter(&self, name: &TableName, new: &Definition) -> Result<()> {
        let cql = format!(
            "INSERT INTO {}.idmatch_tables \
             (name, entry, keep, retention, gone_before, generation, rewritten, buckets, maker, \
             is_ready) VALUES (?, 0, ?, ?, ?, 0, 0, ?, ?, false) IF NOT EXISTS",
            self.keyspace
        );
        let keep = match new.keep {
            Keep::Last => "last",
            Keep::All => "all",
        };
        let retention = new.retention.as_ref().map(ToString::to_string);
        let gone_before = CqlTimestamp(new.gone_before.millis_i64());
        let values = (name.as_str(), keep, retention, gone_before, new.buckets, new.maker);
        let insert = self.client.prepare_catalog(&cql).await?;
        self.client.write(&format!("table {name}"), &insert, values).await.map(drop)
    }

    /// Notes that a table can be used.
    pub(crate) async fn set_ready(&self, name: &TableName) -> Result<()> {
        let cql = format!(
            "UPDATE {}.idmatch_tables SET is_ready = true WHERE name = ? IF is_ready = false",
            self.keyspace
        );
        let update = self.client.prepare_catalog(&cql).await?;
        self.client.write(&format!("table {name}"), &update, (name.as_str(),)).await.map(drop)
    }

    /// Changes the retention of a table from one generation to the next. `Busy` when another client
    /// did so meanwhile.
    pub(crate) async fn set_retention(
        &self,
        name: &TableName,
        retention: Option<&Period>,
        gone_before: SeenAt,
        generation: i32,
    ) -> Result<()> {
        let next = generation + 1;
        if next > MOST_GENERATIONS {
            let text = format!("the retention of table {name} was changed too often");
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let cql = format!(
            "UPDATE {}.idmatch_tables SET retention = ?, gone_before = ?, generation = ? \
             WHERE name = ? IF generation = ?",
            self.keyspace
        );
        let text = retention.map(ToString::to_string);
        let gone_before = CqlTimestamp(gone_before.millis_i64());
        let values = (text, gone_before, next, name.as_str(), generation);
        let update = self.client.prepare_catalog(&cql).await?;
        self.client.write(&format!("the retention of table {name}"), &update, values).await?;
        match self.definition(name).await? {
            Some(now) if now.generation == next && now.retention.as_ref() == retention => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Busy,
                format!("another client changed the retention of table {name}; try again"),
            )),
        }
    }

    /// Notes that all rows were written anew since a generation began.
    pub(crate) async fn set_rewritten(&self, name: &TableName, generation: i32) -> Result<()> {
        let cql = format!(
            "UPDATE {}.idmatch_tables SET rewritten = ? WHERE name = ? IF generation = ?",
            self.keyspace
        );
        let update = self.client.prepare_catalog(&cql).await?;
        let values = (generation, name.as_str(), generation);
        self.client.write(&format!("table {name}"), &update, values).await.map(drop)
    }

    /// Writes some erasures and enters them into a table's log, after the entry `last`. When this
    /// returns, every client that reads the log has them.
    pub(crate) async fn add_erasures(
        &self,
        name: &TableName,
        mut last: i64,
        hashes: &[u128],
        at: SeenAt,
    ) -> Result<()> {
        let what = format!("an erasure in table {name}");
        let portion = Uuid::new_v4();
        let cql = format!(
            "INSERT INTO {}.idmatch_erasures (portion, hash, at) VALUES (?, ?, ?)",
            self.keyspace
        );
        let insert = self.client.prepare_catalog(&cql).await?;
        let at = CqlTimestamp(at.millis_i64());
        for hashes in hashes.chunks(ROWS_AT_ONCE) {
            let rows: Vec<_> =
                hashes.iter().map(|hash| (portion, hash.to_be_bytes().to_vec(), at)).collect();
            self.client.write_batch(&what, &insert, &rows).await?;
        }
        let cql = format!(
            "INSERT INTO {}.idmatch_tables (name, entry, portion) VALUES (?, ?, ?) IF NOT EXISTS",
            self.keyspace
        );
        let enter = self.client.prepare_catalog(&cql).await?;
        loop {
            let values = (name.as_str(), last.saturating_add(1), portion);
            self.client.write(&what, &enter, values).await?;
            // Whether it was this one or another client's, who came first is in the log.
            let entries = self.entries(name, last).await?;
            if entries.iter().any(|entry| entry.portion == Some(portion)) {
                return Ok(());
            }
            last = entries.iter().map(|entry| entry.number).max().unwrap_or(last);
        }
    }

    /// The erasures of an entry.
    pub(crate) async fn erasures(&self, portion: Uuid) -> Result<Vec<(u128, SeenAt)>> {
        let what = "erasures";
        let cql =
            format!("SELECT hash, at FROM {}.idmatch_erasures WHERE portion = ?", self.keyspace);
        let read = self.client.prepare_catalog(&cql).await?;
        let (mut found, mut next) = (Vec::new(), Some(PagingState::start()));
        while let Some(from) = next.take() {
            let (rows, more) = self.client.read_page(what, &read, (portion,), from).await?;
            for row in rows.rows::<(&[u8], CqlTimestamp)>().map_err(|e| unexpected(what, e))? {
                let (hash, CqlTimestamp(at)) = row.map_err(|e| unexpected(what, e))?;
                let hash = <[u8; 16]>::try_from(hash).map_err(|e| unexpected(what, e))?;
                let at = SeenAt::from_millis(at).map_err(|e| unexpected(what, e))?;
                found.push((u128::from_be_bytes(hash), at));
            }
            next = more;
        }
        Ok(found)
    }
}
