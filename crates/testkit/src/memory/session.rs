//! Write sessions of the reference: parts are lists of rows until the commit.

use super::parts::{MemorySharedSession, StagedParts};
use super::state::{MemoryState, random};
use super::table::{Replacing, StagedRow};
use idmatch_model::{SeenAt, TableId, check_id};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Call, Committed, Error, NewWrite, Observations, PartReceipt, PartWriter, Result,
    SessionAddress, SessionId, Sharing, WriteKey, WriteKind, WriteSession,
};
use std::sync::Arc;

/// A session.
struct MemorySession {
    store: Arc<Mutex<MemoryState>>,
    id: SessionId,
    table: TableId,
    kind: WriteKind,
    key: Option<WriteKey>,
    is_shared: bool,
    parts: Arc<Mutex<StagedParts>>,
}

struct MemoryPart {
    number: Option<u32>,
    rows: Vec<StagedRow>,
    parts: Arc<Mutex<StagedParts>>,
}

/// The rows of a batch.
pub(super) fn rows_of(batch: &Observations) -> Result<Vec<StagedRow>> {
    let pairs = batch.ids.iter().zip(batch.partner_ids.iter());
    let row = |((id, partner_id), seen_at): ((&[u8], &[u8]), &SeenAt)| {
        Ok((check_id(id)?.to_owned(), check_id(partner_id)?.to_owned(), *seen_at))
    };
    pairs.zip(&batch.seen_at).map(row).collect()
}

/// Begins a session.
pub(super) fn begin(
    store: &Arc<Mutex<MemoryState>>,
    write: NewWrite,
) -> Result<Box<dyn WriteSession>> {
    let id = SessionId(u128::from_be_bytes(random()?));
    let mut state = store.lock();
    state.table(write.table)?;
    let mut parts = StagedParts::default();
    let key = write.key.clone().map(|key| (write.table, key));
    if let Some((kind, outcome)) = key.and_then(|key| state.outcomes.get(&key)) {
        if *kind != write.kind {
            return Err(Error::key_of_another_kind());
        }
        parts = StagedParts { outcome: Some(*outcome), has_ended: true, ..parts };
    } else if write.kind == WriteKind::Replace {
        let table = state.change(write.table)?;
        if table.replacing.is_some() {
            return Err(Error::being_replaced(&table.name));
        }
        table.replacing = Some(Replacing { session: id, since: Arc::default() });
    }
    let (parts, store) = (Arc::new(Mutex::new(parts)), store.clone());
    let NewWrite { table, kind, key, sharing, .. } = write;
    let is_shared = sharing == Sharing::Shared;
    if is_shared {
        let shared = MemorySharedSession { kind, key: key.clone(), parts: parts.clone() };
        state.shared.insert((table, id), shared);
    }
    Ok(Box::new(MemorySession { store, id, table, kind, key, is_shared, parts }))
}

/// Opens a session that is shared.
pub(super) fn resume(
    store: &Arc<Mutex<MemoryState>>,
    SessionAddress { table, session: id }: SessionAddress,
) -> Result<Box<dyn WriteSession>> {
    let found = store.lock().shared.get(&(table, id)).cloned();
    let MemorySharedSession { kind, key, parts } = found.ok_or_else(Error::session_ended)?;
    if parts.lock().has_ended && parts.lock().outcome.is_none() {
        return Err(Error::session_ended());
    }
    let store = store.clone();
    Ok(Box::new(MemorySession { store, id, table, kind, key, is_shared: true, parts }))
}

impl WriteSession for MemorySession {
    fn address(&self) -> SessionAddress {
        SessionAddress { table: self.table, session: self.id }
    }

    fn outcome(&self) -> Option<Committed> {
        self.parts.lock().outcome
    }

    fn part(&self, number: Option<u32>) -> Result<Box<dyn PartWriter>> {
        match self.parts.lock().has_ended {
            true => Err(Error::session_ended()),
            false => {
                Ok(Box::new(MemoryPart { number, rows: Vec::new(), parts: self.parts.clone() }))
            }
        }
    }

    fn parts(&self) -> Result<Vec<PartReceipt>> {
        Ok(self.parts.lock().staged.values().map(|(receipt, _)| *receipt).collect())
    }

    fn commit(&self, receipts: &[PartReceipt], call: &Call) -> Result<Committed> {
        call.check()?;
        let mut parts = self.parts.lock();
        if let Some(outcome) = parts.outcome {
            return Ok(outcome);
        }
        if parts.has_ended {
            return Err(Error::session_ended());
        }
        let chosen = PartReceipt::chosen(receipts, |id| parts.staged.contains_key(&id))?;
        let taken = chosen.iter().filter_map(|part| parts.staged.remove(&part.id));
        let rows: Vec<StagedRow> = taken.flat_map(|(_, rows)| rows).collect();
        parts.has_ended = true;
        let mut state = self.store.lock();
        let key = state.key()?;
        let table = state.change(self.table)?;
        if self.kind == WriteKind::Replace {
            match table.replacing.take() {
                Some(replacing) if replacing.session == self.id => {
                    let mut since = replacing.since;
                    Arc::make_mut(&mut since).erase(key, &table.observed.erasures());
                    table.observed = since;
                }
                other => {
                    table.replacing = other;
                    return Err(Error::replace_ended(&table.name));
                }
            }
        }
        table.add(&rows);
        let outcome = Committed::of(self.id, &chosen);
        parts.outcome = Some(outcome);
        if let Some(key) = &self.key {
            state.outcomes.insert((self.table, key.clone()), (self.kind, outcome));
        }
        Ok(outcome)
    }

    fn abort(&self) -> Result<()> {
        let mut parts = self.parts.lock();
        if parts.outcome.is_some() {
            return Err(Error::session_committed());
        }
        parts.has_ended = true;
        parts.staged.clear();
        if let Ok(table) = self.store.lock().change(self.table) {
            table.replacing.take_if(|replacing| replacing.session == self.id);
        }
        Ok(())
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        // A committed session has ended, so its abort changes nothing.
        if !self.is_shared {
            self.abort().ok();
        }
    }
}

impl PartWriter for MemoryPart {
    fn add(&mut self, rows: &Observations) -> Result<()> {
        self.rows.extend(rows_of(rows)?);
        Ok(())
    }

    fn finish(self: Box<Self>, rejected: u64) -> Result<PartReceipt> {
        let (id, rows) = (u128::from_be_bytes(random()?), self.rows.len() as u64);
        let receipt = PartReceipt { id, number: self.number, rows, rejected };
        let mut parts = self.parts.lock();
        if parts.has_ended {
            return Err(Error::session_ended());
        }
        parts.staged.insert(id, (receipt, self.rows));
        Ok(receipt)
    }
}
