//! Write sessions, as callers have them. Must not know what a commit does.

use super::handle::StoreHandle;
use crate::load::{Begun, Partitioner, StagedWrite};
use idmatch_store::{
    Call, Committed, Error, NewWrite, ObservationSource, Observations, PartReceipt, PartWriter,
    Result, SessionId, WriteSession,
};
use std::sync::Arc;

/// A session of a store. It keeps the store open.
pub(super) struct EngineSession {
    owners: Arc<StoreHandle>,
    write: Arc<StagedWrite>,
}

/// A session whose key has an outcome already. Nothing can be staged in it.
struct Repeated(Committed);

/// A part of a session.
struct EnginePart {
    write: Arc<StagedWrite>,
    rows: Partitioner,
}

/// Begins a session.
///
/// # Errors
/// See [`idmatch_store::Store::begin`].
pub(super) fn begin(
    owners: &Arc<StoreHandle>,
    write: NewWrite,
    call: &Call,
) -> Result<Box<dyn WriteSession>> {
    owners.check_open()?;
    Ok(match owners.loader.begin(write, call)? {
        Begun::New(write) => Box::new(EngineSession { owners: owners.clone(), write }),
        Begun::Before(outcome) => Box::new(Repeated(outcome)),
    })
}

impl WriteSession for EngineSession {
    fn id(&self) -> SessionId {
        self.write.id()
    }

    fn outcome(&self) -> Option<Committed> {
        self.write.outcome()
    }

    fn part(&self) -> Result<Box<dyn PartWriter>> {
        let (write, rows) = (self.write.clone(), self.write.partitioner()?);
        Ok(Box::new(EnginePart { write, rows }))
    }

    fn stage(&self, rows: &dyn ObservationSource, call: &Call) -> Result<PartReceipt> {
        self.write.stage(rows, call)
    }

    fn commit(&self, parts: &[PartReceipt], call: &Call) -> Result<Committed> {
        self.owners.check_open()?;
        self.owners.loader.commit(&self.write, parts, call)
    }

    fn abort(&self) -> Result<()> {
        self.owners.loader.end(&self.write)
    }
}

impl Drop for EngineSession {
    fn drop(&mut self) {
        if self.owners.lock.is_own_process() {
            // A committed one has ended.
            self.owners.loader.end(&self.write).ok();
        }
    }
}

impl PartWriter for EnginePart {
    fn add(&mut self, rows: &Observations) -> Result<()> {
        self.rows.add(rows)
    }

    fn finish(self: Box<Self>) -> Result<PartReceipt> {
        self.write.add_part(self.rows.finish())
    }
}

impl WriteSession for Repeated {
    fn id(&self) -> SessionId {
        self.0.session
    }

    fn outcome(&self) -> Option<Committed> {
        Some(self.0)
    }

    fn part(&self) -> Result<Box<dyn PartWriter>> {
        Err(Error::session_ended())
    }

    fn commit(&self, _: &[PartReceipt], _: &Call) -> Result<Committed> {
        Ok(self.0)
    }

    fn abort(&self) -> Result<()> {
        Err(Error::session_committed())
    }
}
