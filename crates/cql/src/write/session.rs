//! Write sessions on servers: a part is written as it arrives, and visible then. A commit counts the rows,
//! and notes the outcome of the session's key.

use crate::client::Use;
use crate::context::TableContext;
use crate::logged::{ResultCounts, logged};
use crate::schema::keyspace::random;
use crate::write::keys;
use crate::write::load::{load, upsert};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    Call, Committed, Error, ErrorFields, ErrorKind, NewWrite, ObservationSource, Observations,
    PartReceipt, PartWriter, Result, SessionAddress, SessionId, Sharing, WriteKey, WriteKind,
    WriteSession,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A session.
struct CqlSession {
    context: Arc<TableContext>,
    id: SessionId,
    key: Option<WriteKey>,
    /// Whether a commit accepts the receipts of parts that other processes wrote.
    is_shared: bool,
    state: Arc<Mutex<SessionState>>,
}

#[derive(Default)]
struct SessionState {
    /// The finished parts.
    written: BTreeSet<u128>,
    outcome: Option<Committed>,
    has_ended: bool,
}

struct CqlPart {
    context: Arc<TableContext>,
    number: Option<u32>,
    rows: u64,
    state: Arc<Mutex<SessionState>>,
}

/// Begins a session of a table.
///
/// # Errors
/// `Unsupported` for a replace.
pub(crate) fn begin(
    context: Arc<TableContext>,
    write: &NewWrite,
    call: &Call,
) -> Result<Box<dyn WriteSession>> {
    if write.kind == WriteKind::Replace {
        let instead = "load into a new table, then exchange the names of both (rename --swap)";
        let text = format!("a store on servers does not replace the rows of a table; {instead}");
        let fields = ErrorFields::Unsupported { instead: instead.to_owned() };
        return Err(Error::new(ErrorKind::Unsupported, text).with_fields(fields));
    }
    let outcome = match &write.key {
        Some(key) => context.client.wait_unless(call, Use::Read, keys::outcome(&context, key))?,
        None => None,
    };
    let id = SessionId(u128::from_be_bytes(random()?));
    let state = SessionState { outcome, has_ended: outcome.is_some(), ..SessionState::default() };
    let (key, state) = (write.key.clone(), Arc::new(Mutex::new(state)));
    let is_shared = write.sharing == Sharing::Shared;
    Ok(Box::new(CqlSession { context, id, key, is_shared, state }))
}

/// A session that another process has begun. Servers know nothing of it: its parts are there already, and the
/// process that began it notes the outcome of its key.
pub(crate) fn resume(context: Arc<TableContext>, id: SessionId) -> Box<dyn WriteSession> {
    Box::new(CqlSession { context, id, key: None, is_shared: true, state: Arc::default() })
}

impl CqlSession {
    fn check_staging(&self) -> Result<()> {
        match self.state.lock().has_ended {
            true => Err(Error::session_ended()),
            false => Ok(()),
        }
    }
}

/// Notes a part that is written.
fn finish(
    state: &Mutex<SessionState>,
    number: Option<u32>,
    rows: u64,
    rejected: u64,
) -> Result<PartReceipt> {
    let id = u128::from_be_bytes(random()?);
    state.lock().written.insert(id);
    Ok(PartReceipt { id, number, rows, rejected })
}

impl WriteSession for CqlSession {
    fn address(&self) -> SessionAddress {
        SessionAddress { table: self.context.id(), session: self.id }
    }

    fn outcome(&self) -> Option<Committed> {
        self.state.lock().outcome
    }

    fn part(&self, number: Option<u32>) -> Result<Box<dyn PartWriter>> {
        self.check_staging()?;
        let (context, state) = (self.context.clone(), self.state.clone());
        Ok(Box::new(CqlPart { context, number, rows: 0, state }))
    }

    fn stage(
        &self,
        number: Option<u32>,
        rows: &dyn ObservationSource,
        call: &Call,
    ) -> Result<PartReceipt> {
        self.check_staging()?;
        let counted = CountingSource { source: rows, rows: AtomicU64::new(0) };
        let loaded = |_: &()| ResultCounts::of_rows(counted.rows.load(Relaxed));
        logged("load", &self.context.name(), loaded, || load(&self.context, &counted, call))?;
        finish(&self.state, number, counted.rows.into_inner(), rows.rejected())
    }

    /// # Errors
    /// `TableNotFound` where the table was dropped meanwhile: the rows are gone with it.
    fn commit(&self, receipts: &[PartReceipt], call: &Call) -> Result<Committed> {
        let chosen = {
            let state = self.state.lock();
            if let Some(outcome) = state.outcome {
                return Ok(outcome);
            }
            if state.has_ended {
                return Err(Error::session_ended());
            }
            PartReceipt::chosen(receipts, |id| self.is_shared || state.written.contains(&id))?
        };
        let outcome = Committed::of(self.id, &chosen);
        let committed = async {
            self.context.metadata_cache.refresh().await?;
            match &self.key {
                Some(key) => keys::note(&self.context, key, outcome).await,
                None => Ok(outcome),
            }
        };
        let outcome = self.context.client.wait_unless(call, Use::Write, committed)?;
        let mut state = self.state.lock();
        (state.outcome, state.has_ended) = (Some(outcome), true);
        Ok(outcome)
    }

    fn abort(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.outcome.is_some() {
            return Err(Error::session_committed());
        }
        state.has_ended = true;
        Ok(())
    }
}

impl PartWriter for CqlPart {
    fn add(&mut self, rows: &Observations) -> Result<()> {
        if self.state.lock().has_ended {
            return Err(Error::session_ended());
        }
        self.rows += rows.len() as u64;
        let batch = Mutex::new(Some(rows.clone()));
        upsert(&self.context, &OneBatch(batch), &Call::default())
    }

    fn finish(self: Box<Self>, rejected: u64) -> Result<PartReceipt> {
        finish(&self.state, self.number, self.rows, rejected)
    }
}

/// A source that counts its rows.
struct CountingSource<'s> {
    source: &'s dyn ObservationSource,
    rows: AtomicU64,
}

impl ObservationSource for CountingSource<'_> {
    fn next_batch(&self) -> Result<Option<Observations>> {
        let batch = self.source.next_batch()?;
        self.rows.fetch_add(batch.as_ref().map_or(0, |batch| batch.len() as u64), Relaxed);
        Ok(batch)
    }

    fn is_strict(&self) -> bool {
        self.source.is_strict()
    }
}

/// The rows of one batch.
struct OneBatch(Mutex<Option<Observations>>);

impl ObservationSource for OneBatch {
    fn next_batch(&self) -> Result<Option<Observations>> {
        Ok(self.0.lock().take())
    }
}
