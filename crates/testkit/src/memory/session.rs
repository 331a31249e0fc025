//! Write sessions of the reference: parts are lists of rows until the commit.

use super::state::{self, State, random};
use super::table::{Replacing, StagedRow};
use idmatch_model::{SeenAt, TableId, check_id};
use idmatch_store::{
    Call, Committed, Error, NewWrite, Observations, PartReceipt, PartWriter, Result, SessionId,
    WriteKey, WriteKind, WriteSession,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session.
struct MemorySession {
    store: Arc<Mutex<State>>,
    id: SessionId,
    table: TableId,
    kind: WriteKind,
    key: Option<WriteKey>,
    parts: Arc<Mutex<Parts>>,
}

#[derive(Default)]
struct Parts {
    staged: BTreeMap<u128, Vec<StagedRow>>,
    outcome: Option<Committed>,
    has_ended: bool,
}

struct MemoryPart {
    rows: Vec<StagedRow>,
    parts: Arc<Mutex<Parts>>,
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
pub(super) fn begin(store: &Arc<Mutex<State>>, write: NewWrite) -> Result<Box<dyn WriteSession>> {
    let id = SessionId(u128::from_be_bytes(random()?));
    let mut state = state::lock(store);
    state.table(write.table)?;
    let mut parts = Parts::default();
    let key = write.key.clone().map(|key| (write.table, key));
    if let Some((kind, outcome)) = key.and_then(|key| state.outcomes.get(&key)) {
        if *kind != write.kind {
            return Err(Error::key_of_another_kind());
        }
        parts = Parts { outcome: Some(*outcome), has_ended: true, ..parts };
    } else if write.kind == WriteKind::Replace {
        let table = state.change(write.table)?;
        if table.replacing.is_some() {
            return Err(Error::being_replaced(&table.name));
        }
        table.replacing = Some(Replacing { session: id, since: Arc::default() });
    }
    let (parts, store) = (Arc::new(Mutex::new(parts)), store.clone());
    let NewWrite { table, kind, key, .. } = write;
    Ok(Box::new(MemorySession { store, id, table, kind, key, parts }))
}

fn lock(parts: &Mutex<Parts>) -> MutexGuard<'_, Parts> {
    parts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WriteSession for MemorySession {
    fn id(&self) -> SessionId {
        self.id
    }

    fn outcome(&self) -> Option<Committed> {
        lock(&self.parts).outcome
    }

    fn part(&self) -> Result<Box<dyn PartWriter>> {
        match lock(&self.parts).has_ended {
            true => Err(Error::session_ended()),
            false => Ok(Box::new(MemoryPart { rows: Vec::new(), parts: self.parts.clone() })),
        }
    }

    fn commit(&self, receipts: &[PartReceipt], call: &Call) -> Result<Committed> {
        call.check()?;
        let mut parts = lock(&self.parts);
        if let Some(outcome) = parts.outcome {
            return Ok(outcome);
        }
        if parts.has_ended {
            return Err(Error::session_ended());
        }
        let ids = PartReceipt::ids(receipts, |id| parts.staged.contains_key(&id))?;
        let rows: Vec<StagedRow> =
            ids.iter().filter_map(|id| parts.staged.remove(id)).flatten().collect();
        parts.has_ended = true;
        let mut state = state::lock(&self.store);
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
        let outcome = Committed::of(self.id, receipts);
        parts.outcome = Some(outcome);
        if let Some(key) = &self.key {
            state.outcomes.insert((self.table, key.clone()), (self.kind, outcome));
        }
        Ok(outcome)
    }

    fn abort(&self) -> Result<()> {
        let mut parts = lock(&self.parts);
        if parts.outcome.is_some() {
            return Err(Error::session_committed());
        }
        parts.has_ended = true;
        parts.staged.clear();
        if let Ok(table) = state::lock(&self.store).change(self.table) {
            table.replacing.take_if(|replacing| replacing.session == self.id);
        }
        Ok(())
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        // A committed one has ended.
        self.abort().ok();
    }
}

impl PartWriter for MemoryPart {
    fn add(&mut self, rows: &Observations) -> Result<()> {
        self.rows.extend(rows_of(rows)?);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<PartReceipt> {
        let (id, rows) = (u128::from_be_bytes(random()?), self.rows.len() as u64);
        let mut parts = lock(&self.parts);
        if parts.has_ended {
            return Err(Error::session_ended());
        }
        parts.staged.insert(id, self.rows);
        Ok(PartReceipt { id, rows, rejected: 0 })
    }
}
