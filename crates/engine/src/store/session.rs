//! Write sessions, as callers have them. Must not know what a commit does.

use super::handle::StoreHandle;
use super::logged::{ResultSizes, logged, name_of};
use crate::identity::Identity;
use crate::load::{Begun, PartFile, Partitioner, SharedWrite, StagedWrite};
use idmatch_model::TableId;
use idmatch_store::{
    Call, Committed, Error, NewWrite, ObservationSource, Observations, PartReceipt, PartWriter,
    Result, SessionAddress, WriteSession,
};
use std::sync::Arc;
use tracing::info;

/// A session of a store. It keeps the store open.
pub(super) struct EngineSession {
    owners: Arc<StoreHandle>,
    write: Arc<StagedWrite>,
}

/// A shared session of a store. It outlives this.
struct SharedSession {
    owners: Arc<StoreHandle>,
    write: Box<SharedWrite>,
}

/// A part of such a session.
struct SharedPart(PartFile);

/// A session whose key has an outcome already. Nothing can be staged in it.
struct Repeated {
    table: TableId,
    outcome: Committed,
}

/// A part of a session.
struct EnginePart {
    write: Arc<StagedWrite>,
    number: Option<u32>,
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
    let table = write.table;
    let begun = owners.loader.begin(write, call)?;
    info!(table = name_of(&owners.versions, table), "a write session began");
    Ok(session(owners, table, begun))
}

/// Opens a session that another process has begun.
///
/// # Errors
/// See [`idmatch_store::Store::resume`].
pub(super) fn resume(
    owners: &Arc<StoreHandle>,
    address: SessionAddress,
) -> Result<Box<dyn WriteSession>> {
    owners.check_open()?;
    let SessionAddress { table, session: id } = address;
    let id = Identity(id.0.to_be_bytes());
    Ok(session(owners, table, owners.loader.resume(table.into(), id)?))
}

fn session(owners: &Arc<StoreHandle>, table: TableId, begun: Begun) -> Box<dyn WriteSession> {
    let owners = owners.clone();
    match begun {
        Begun::New(write) => Box::new(EngineSession { owners, write }),
        Begun::Shared(write) => Box::new(SharedSession { owners, write }),
        Begun::Before(outcome) => Box::new(Repeated { table, outcome }),
    }
}

/// Commits, and logs it.
fn commit(
    owners: &StoreHandle,
    table: TableId,
    run: impl FnOnce() -> Result<Committed>,
) -> Result<Committed> {
    let name = name_of(&owners.versions, table);
    let committed = logged("commit", &name, |_| ResultSizes::default(), run)?;
    info!(
        table = name,
        rows = committed.rows,
        rejected = committed.rejected,
        "rows were committed"
    );
    Ok(committed)
}

impl WriteSession for EngineSession {
    fn address(&self) -> SessionAddress {
        self.write.address()
    }

    fn outcome(&self) -> Option<Committed> {
        self.write.outcome()
    }

    fn part(&self, number: Option<u32>) -> Result<Box<dyn PartWriter>> {
        let (write, rows) = (self.write.clone(), self.write.partitioner()?);
        Ok(Box::new(EnginePart { write, number, rows }))
    }

    fn stage(
        &self,
        number: Option<u32>,
        rows: &dyn ObservationSource,
        call: &Call,
    ) -> Result<PartReceipt> {
        self.write.stage(number, rows, call)
    }

    fn commit(&self, parts: &[PartReceipt], call: &Call) -> Result<Committed> {
        self.owners.check_open()?;
        let owners = &self.owners;
        commit(owners, self.address().table, || owners.loader.commit(&self.write, parts, call))
    }

    fn abort(&self) -> Result<()> {
        self.owners.loader.end(&self.write)
    }
}

impl Drop for EngineSession {
    fn drop(&mut self) {
        if self.owners.lock.is_own_process() {
            // A committed session has ended.
            self.owners.loader.end(&self.write).ok();
        }
    }
}

impl PartWriter for EnginePart {
    fn add(&mut self, rows: &Observations) -> Result<()> {
        self.rows.add(rows)
    }

    fn finish(self: Box<Self>, rejected: u64) -> Result<PartReceipt> {
        self.write.add_part(self.number, rejected, self.rows.finish())
    }
}

impl WriteSession for SharedSession {
    fn address(&self) -> SessionAddress {
        self.write.address()
    }

    fn outcome(&self) -> Option<Committed> {
        self.write.outcome()
    }

    fn part(&self, number: Option<u32>) -> Result<Box<dyn PartWriter>> {
        self.owners.check_open()?;
        self.owners.lock.check_writable()?;
        Ok(Box::new(SharedPart(self.write.part(number)?)))
    }

    fn parts(&self) -> Result<Vec<PartReceipt>> {
        self.write.parts()
    }

    fn commit(&self, parts: &[PartReceipt], call: &Call) -> Result<Committed> {
        self.owners.check_open()?;
        let owners = &self.owners;
        commit(owners, self.address().table, || {
            owners.loader.commit_shared(&self.write, parts, call)
        })
    }

    fn abort(&self) -> Result<()> {
        self.owners.lock.check_writable()?;
        self.owners.loader.end_shared(&self.write)
    }
}

impl PartWriter for SharedPart {
    fn add(&mut self, rows: &Observations) -> Result<()> {
        self.0.add(rows)
    }

    fn finish(self: Box<Self>, rejected: u64) -> Result<PartReceipt> {
        self.0.finish(rejected)
    }
}

impl WriteSession for Repeated {
    fn address(&self) -> SessionAddress {
        SessionAddress { table: self.table, session: self.outcome.session }
    }

    fn outcome(&self) -> Option<Committed> {
        Some(self.outcome)
    }

    fn part(&self, _: Option<u32>) -> Result<Box<dyn PartWriter>> {
        Err(Error::session_ended())
    }

    fn commit(&self, _: &[PartReceipt], _: &Call) -> Result<Committed> {
        Ok(self.outcome)
    }

    fn abort(&self) -> Result<()> {
        Err(Error::session_committed())
    }
}
