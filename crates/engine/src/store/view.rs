//! An immutable view of a store: the segments that one manifest names, open.

use super::Manifest;
use crate::disk::Disk;
use crate::part::Part;
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
    by_id: Direction,
    by_partner_id: Direction,
}

/// The segments whose keys are of one side.
struct Direction {
    all: Vec<Arc<Segment>>,
    /// Those that each part of the hash space falls on, so that nobody has to look through all.
    by_part: Vec<Vec<Arc<Segment>>>,
}

impl Direction {
    fn new(all: Vec<Arc<Segment>>) -> Direction {
        let of_part = |part| all.iter().filter(move |s| s.header.overlaps(part)).cloned().collect();
        let by_part = Part::all().map(of_part).collect();
        Direction { all, by_part }
    }
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
            .flat_map(|table| table.by_id.all.iter().chain(&table.by_partner_id.all))
            .map(|segment| (segment.path(), segment))
            .collect();
        let mut tables = BTreeMap::new();
        for (name, entry) in &manifest.tables {
            let (mut by_id, mut by_partner_id) = (Vec::new(), Vec::new());
            for info in &entry.segments {
                let segment = match known.get(folder.join(&info.file).as_path()) {
                    Some(segment) => Arc::clone(segment),
                    None => Arc::new(Segment::open(disk, folder, info)?),
                };
                match info.side {
                    Side::Id => by_id.push(segment),
                    Side::PartnerId => by_partner_id.push(segment),
                }
            }
            let table = TableView {
                options: entry.options.clone(),
                by_id: Direction::new(by_id),
                by_partner_id: Direction::new(by_partner_id),
            };
            tables.insert(name.clone(), Arc::new(table));
        }
        Ok(View { manifest, tables })
    }
}

impl TableView {
    /// The segments whose keys are of this side.
    pub(crate) fn segments(&self, side: Side) -> &[Arc<Segment>] {
        &self.direction(side).all
    }

    /// Those of them that a part of the hash space falls on.
    pub(crate) fn segments_of(&self, side: Side, part: Part) -> &[Arc<Segment>] {
        self.direction(side).by_part.get(usize::from(part.0)).map_or(&[], Vec::as_slice)
    }

    fn direction(&self, side: Side) -> &Direction {
        match side {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        }
    }
}
