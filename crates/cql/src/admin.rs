//! The maintenance of a store. Only delegates: to `maintain` and `write`.

use crate::context::TableContext;
use crate::logged::{ResultCounts, logged};
use crate::maintain::dropped::remove_dropped;
use crate::maintain::purge::purge;
use crate::maintain::repair::repair;
use crate::maintain::retention;
use crate::maintain::verify::{RowDifference, differences};
use crate::store::CqlStore;
use crate::write::erase::import;
use idmatch_model::{ErasureKey, TableId};
use idmatch_store::{
    Admin, Call, Erasures, Error, ErrorFields, ErrorKind, Finding, Repaired, Result,
};
use std::path::Path;
use tracing::warn;

impl Admin for CqlStore {
    fn compact(&self, table: TableId, call: &Call) -> Result<()> {
        let context = self.0.context(table, call)?;
        let rows = |rows: &u64| ResultCounts::of_rows(*rows);
        logged("compact", &context.name(), rows, || {
            self.0.change(call, async {
                let rows = purge(&context, call).await?;
                remove_dropped(&self.0.client).await?;
                Ok(rows)
            })
        })?;
        Ok(())
    }

    fn verify(&self, table: TableId, call: &Call) -> Result<Vec<Finding>> {
        let context = self.0.context(table, call)?;
        logged(
            "verify",
            &context.name(),
            |found: &Vec<_>| ResultCounts::of_findings(found),
            || {
                let differences = self.0.read(call, differences(&context, call))?;
                Ok(findings(&context, &differences))
            },
        )
    }

    fn repair(&self, table: TableId, _: bool, call: &Call) -> Result<Repaired> {
        let context = self.0.context(table, call)?;
        let figures = |done: &Repaired| ResultCounts::of_findings(&done.findings);
        logged("repair", &context.name(), figures, || {
            self.0.change(call, async {
                let differences = differences(&context, call).await?;
                let findings = findings(&context, &differences);
                repair(&context, &differences).await?;
                retention::finish(&context, call).await?;
                Ok(Repaired { findings, lost_at_most: 0 })
            })
        })
    }

    fn backup(&self, destination: &Path, _: &Call) -> Result<()> {
        let instead = "nodetool snapshot";
        let text = format!(
            "cannot back up to {}: a store on servers is backed up by their snapshots ({instead}, or \
             the operator's own tool)",
            destination.display()
        );
        let fields = ErrorFields::Unsupported { instead: instead.to_owned() };
        Err(Error::new(ErrorKind::Unsupported, text).with_fields(fields))
    }

    fn export_tombstones(&self, table: TableId, call: &Call) -> Result<Erasures> {
        let context = self.0.context(table, call)?;
        let metadata = self.0.read(call, context.metadata_cache.refresh())?;
        let hashes = metadata.erasures.iter().collect();
        Ok(Erasures { key: Some(metadata.erasures.key()), hashes })
    }

    fn import_tombstones(&self, table: TableId, erasures: &Erasures, call: &Call) -> Result<()> {
        let context = self.0.context(table, call)?;
        self.0.change(call, import(&context, erasures))
    }

    /// Makes the store with this key where the keyspace has none yet. An existing store keeps its own key,
    /// because clients keep a store's key as long as they are connected. Returns the key of the store.
    fn adopt_erasure_key(&self, key: ErasureKey, call: &Call) -> Result<ErasureKey> {
        Ok(self.0.change(call, self.0.find_or_make(Some(key)))?.erasure_key)
    }
}

/// The findings about a table. Only their number is logged: there may be one for each row.
fn findings(context: &TableContext, differences: &[RowDifference]) -> Vec<Finding> {
    let differences = differences.iter().map(|difference| difference.finding(context));
    let findings: Vec<Finding> = differences.chain(retention::unfinished(context)).collect();
    if !findings.is_empty() {
        warn!(table = %context.name(), findings = findings.len(), "damage was found");
    }
    findings
}
