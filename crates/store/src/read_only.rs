//! A store that is only read: each change is refused. Must not know any backend.

use crate::{
    Admin, Call, Checkpoint, Durability, Erased, Error, ErrorFields, ErrorKind, NewWrite,
    ObservationSource, Result, SessionAddress, Snapshot, Status, Store, WriteSession,
};
use idmatch_model::{Period, SeenAt, TableId, TableName, TableOptions, Target};
use prometheus_client::registry::Registry;
use std::sync::Arc;

/// The same store without its changes, and without maintenance.
pub struct ReadOnly(pub Arc<dyn Store>);

impl Store for ReadOnly {
    fn snapshot(&self, call: &Call) -> Result<Arc<dyn Snapshot>> {
        self.0.snapshot(call)
    }

    fn create_table(
        &self,
        _: &TableName,
        _: &TableOptions,
        _: Option<u64>,
        _: &Call,
    ) -> Result<TableId> {
        read_only_error()
    }

    fn set_retention(&self, _: TableId, _: Option<Period>, _: &Call) -> Result<()> {
        read_only_error()
    }

    fn rename_table(&self, _: &TableName, _: &TableName, _: &Call) -> Result<()> {
        read_only_error()
    }

    fn swap_tables(&self, _: &TableName, _: &TableName, _: &Call) -> Result<()> {
        read_only_error()
    }

    fn drop_table(&self, _: &TableName, _: &Call) -> Result<()> {
        read_only_error()
    }

    fn begin(&self, _: NewWrite, _: &Call) -> Result<Box<dyn WriteSession>> {
        read_only_error()
    }

    fn resume(&self, _: SessionAddress, _: &Call) -> Result<Box<dyn WriteSession>> {
        read_only_error()
    }

    fn upsert(
        &self,
        _: TableId,
        _: &dyn ObservationSource,
        _: Option<Durability>,
        _: &Call,
    ) -> Result<()> {
        read_only_error()
    }

    fn erase(&self, _: &TableName, _: &[Target], _: SeenAt, _: &Call) -> Result<Erased> {
        read_only_error()
    }

    fn refresh(&self, call: &Call) -> Result<()> {
        self.0.refresh(call)
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn checkpoints(&self, call: &Call) -> Result<Vec<Checkpoint>> {
        self.0.checkpoints(call)
    }

    fn metrics(&self, registry: &mut Registry) {
        self.0.metrics(registry);
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        None
    }
}

fn read_only_error<T>() -> Result<T> {
    let instead = "open the store without read_only".to_owned();
    Err(Error::new(
        ErrorKind::Unsupported,
        "the store is open to be read only; open it without read_only",
    )
    .with_fields(ErrorFields::Unsupported { instead }))
}
