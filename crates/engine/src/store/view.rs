//! An immutable view of a store: the segments that one manifest names, open.

use super::Manifest;
use crate::disk::Disk;
use crate::segment::Segment;
use idmatch_model::{Side, TableName, TableOptions};
use idmatch_store::Result;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// What readers read, for as long as they hold it.
#[derive(Default)]
pub(crate) struct View {
    pub(crate) manifest: Manifest,
    pub(crate) tables: BTreeMap<TableName, Arc<TableView>>,
}

/// The segments of a table.
pub(crate) struct TableView {
    pub(crate) options: TableOptions,
    by_id: Vec<Arc<Segment>>,
    by_partner_id: Vec<Arc<Segment>>,
}

impl View {
    /// Opens what a manifest names; segments that `before` has open are shared.
    pub(crate) fn open(
        disk: &dyn Disk,
        folder: &Path,
        manifest: Manifest,
        before: &View,
    ) -> Result<View> {
        let known: HashMap<&Path, &Arc<Segment>> = before
            .tables
            .values()
            .flat_map(|table| table.by_id.iter().chain(&table.by_partner_id))
            .map(|segment| (segment.path(), segment))
            .collect();
        let mut tables = BTreeMap::new();
        for (name, entry) in &manifest.tables {
            let mut table = TableView {
                options: entry.options.clone(),
                by_id: Vec::new(),
                by_partner_id: Vec::new(),
            };
            for info in &entry.segments {
                let segment = match known.get(folder.join(&info.file).as_path()) {
                    Some(segment) => Arc::clone(segment),
                    None => Arc::new(Segment::open(disk, folder, info)?),
                };
                match info.side {
                    Side::Id => table.by_id.push(segment),
                    Side::PartnerId => table.by_partner_id.push(segment),
                }
            }
            tables.insert(name.clone(), Arc::new(table));
        }
        Ok(View { manifest, tables })
    }
}

impl TableView {
    /// The segments whose keys are of this side.
    pub(crate) fn segments(&self, side: Side) -> &[Arc<Segment>] {
        match side {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        }
    }
}
