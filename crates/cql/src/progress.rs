//! Which chunks of a load are written, so that one that is repeated after a crash goes on where it ended.
//!
//! A chunk is known by what is in it: the same source gives the same chunks again, and another one none
//! of them. The chunks of a load are forgotten when it ends.

use crate::errors::unexpected;
use crate::handle::Handle;
use crate::rows::Rows;
use futures::{StreamExt, TryStreamExt, stream};
use idmatch_store::Result;
use std::collections::HashSet;
use std::sync::Arc;

const AT_ONCE: usize = 16;

/// The chunks of a load, by their hash.
pub(crate) struct Progress {
    /// Those that were written by a load that did not end.
    known: HashSet<u128>,
    /// Those of this load.
    met: Vec<u128>,
}

impl Progress {
    /// Reads what is known. Cost: a request.
    pub(crate) async fn read(handle: &Arc<Handle>) -> Result<Progress> {
        let cql = format!("SELECT chunk FROM {} WHERE name = ?", table(handle));
        let select = handle.client.prepare_catalog(&cql).await?;
        let what = handle.what();
        let mut pages = handle.pages(&select, (handle.name().to_string(),));
        let mut known = HashSet::new();
        while let Some(page) = pages.next().await? {
            page.each(|(chunk,): (&[u8],)| {
                let chunk = <[u8; 16]>::try_from(chunk).map_err(|e| unexpected(&what, e))?;
                known.insert(u128::from_be_bytes(chunk));
                Ok(())
            })?;
        }
        Ok(Progress { known, met: Vec::new() })
    }

    /// The hash of a chunk that is to be written; `None` if it was.
    pub(crate) fn meet(&mut self, rows: &Rows) -> Option<u128> {
        let chunk = rows.hash();
        self.met.push(chunk);
        (!self.known.contains(&chunk)).then_some(chunk)
    }

    /// Forgets the chunks of a load that has ended.
    pub(crate) async fn end(self, handle: &Arc<Handle>) -> Result<()> {
        let cql = format!("DELETE FROM {} WHERE name = ? AND chunk = ?", table(handle));
        let delete = handle.client.prepare_catalog(&cql).await?;
        let (what, name) = (handle.what(), handle.name().as_str());
        stream::iter(self.met)
            .map(|chunk| {
                let values = (name, chunk.to_be_bytes().to_vec());
                handle.client.write(&what, &delete, values)
            })
            .buffer_unordered(AT_ONCE)
            .try_for_each(async |_| Ok(()))
            .await
    }
}

/// Notes that a chunk is written.
pub(crate) async fn note(handle: &Handle, chunk: u128) -> Result<()> {
    let cql = format!("INSERT INTO {} (name, chunk) VALUES (?, ?)", table(handle));
    let insert = handle.client.prepare_catalog(&cql).await?;
    let values = (handle.name().as_str(), chunk.to_be_bytes().to_vec());
    handle.client.write(&handle.what(), &insert, values).await.map(drop)
}

fn table(handle: &Handle) -> String {
    format!("{}.idmatch_loads", handle.client.settings().keyspace)
}
