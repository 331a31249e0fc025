//! The store of a keyspace. Only delegates: to `tables` for tables, to `write` and `maintain`.

use crate::client::NodeAnswers;
use crate::logged::{ResultCounts, logged};
use crate::maintain::retention;
use crate::settings::Settings;
use crate::snapshot::CqlSnapshot;
use crate::tables::Tables;
use crate::write::erase::erase;
use crate::write::load::upsert;
use crate::write::session::{begin, resume};
use idmatch_model::{Period, SeenAt, TableId, TableName, TableOptions, Target};
use idmatch_store::{
    Admin, Call, Durability, Erased, NewWrite, ObservationSource, Result, SessionAddress, Snapshot,
    Status, Store, WriteSession, now,
};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::sync::Arc;

/// A store on ScyllaDB or Cassandra. Cheap to clone; all share one session.
#[derive(Clone)]
pub struct CqlStore(pub(crate) Arc<Tables>);

impl CqlStore {
    /// Connects, and finds the store in its keyspace. A store that is not there yet is made with its first
    /// table.
    ///
    /// # Errors
    /// `Unavailable` where no server answers, `NotAStore` where the keyspace is missing and none is to be
    /// made, `UnsupportedFormat` where it has tables of another version, `InvalidArgument` where clocks differ.
    pub fn open(settings: Settings) -> Result<CqlStore> {
        Ok(CqlStore(Arc::new(Tables::connect(settings)?)))
    }

    /// Asks all nodes the same questions about themselves at once. A question is a SELECT, for example of
    /// `system_views`. A node that does not answer a question within 0.8 s has no rows for it.
    pub fn ask_nodes(&self, questions: &[String]) -> Vec<NodeAnswers> {
        self.0.client.wait(self.0.client.ask_nodes(questions))
    }

    /// The settings of its client.
    pub fn settings(&self) -> &Settings {
        self.0.client.settings()
    }
}

impl Store for CqlStore {
    fn snapshot(&self, _: &Call) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(CqlSnapshot::new(&self.0, now())))
    }

    fn create_table(
        &self,
        name: &TableName,
        options: &TableOptions,
        expected_rows: Option<u64>,
        call: &Call,
    ) -> Result<TableId> {
        self.0.change(call, self.0.make(name, options, expected_rows))
    }

    fn set_retention(&self, table: TableId, retention: Option<Period>, call: &Call) -> Result<()> {
        retention.as_ref().map_or(Ok(()), Period::check_retention)?;
        let context = self.0.context(table, call)?;
        logged(
            "set_retention",
            &context.name(),
            |()| ResultCounts::default(),
            || self.0.change(call, retention::set(&context, retention, call)),
        )
    }

    fn rename_table(&self, table: &TableName, to: &TableName, call: &Call) -> Result<()> {
        self.0.change(call, self.0.rename(table, to))
    }

    fn swap_tables(&self, one: &TableName, other: &TableName, call: &Call) -> Result<()> {
        self.0.change(call, self.0.swap(one, other))
    }

    fn drop_table(&self, table: &TableName, call: &Call) -> Result<()> {
        self.0.change(call, self.0.drop_table(table))
    }

    /// Its rows are visible as they are staged.
    fn begin(&self, write: NewWrite, call: &Call) -> Result<Box<dyn WriteSession>> {
        begin(self.0.context(write.table, call)?, &write, call)
    }

    fn resume(&self, session: SessionAddress, call: &Call) -> Result<Box<dyn WriteSession>> {
        Ok(resume(self.0.context(session.table, call)?, session.session))
    }

    /// The servers' commit log decides what an acknowledgement means; see
    /// `docs/explanation/servers.md`.
    fn upsert(
        &self,
        table: TableId,
        rows: &dyn ObservationSource,
        _: Option<Durability>,
        call: &Call,
    ) -> Result<()> {
        upsert(&self.0.context(table, call)?, rows, call)
    }

    fn erase(
        &self,
        table: &TableName,
        targets: &[Target],
        at: SeenAt,
        call: &Call,
    ) -> Result<Erased> {
        let context = self.0.context(self.0.read(call, self.0.resolve(table))?, call)?;
        let rows = |erased: &Erased| ResultCounts::of_rows(erased.by_id);
        logged("erase", table, rows, || self.0.change(call, erase(&context, table, targets, at)))
    }

    /// Servers have one state for all; the metadata of open tables is read anew.
    fn refresh(&self, call: &Call) -> Result<()> {
        self.0.read(call, self.0.refresh())
    }

    fn status(&self) -> Status {
        Status { last_background_error: self.0.failing(), ..Status::default() }
    }

    fn metrics(&self, registry: &mut Registry) {
        self.0.client.register_metrics(registry);
        let failing = i64::from(self.0.failing().is_some());
        let about = "Kinds of background work that fail at present";
        registry.register("background_work_failing", about, ConstGauge::new(failing));
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}
