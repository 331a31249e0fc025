//! An immutable view of a store: the segments that one manifest names, open, and the memtables
//! with what was upserted since.

use super::Manifest;
use crate::disk::Disk;
use crate::erasures::{Erasures, KeyErasures, Rules};
use crate::memtable::{Commit, Memtable};
use crate::packed::Packed;
use crate::part::Part;
use crate::segment::Segment;
use idmatch_model::{SeenAt, Side, TableName, TableOptions};
use idmatch_store::Result;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// What readers read, for as long as they hold it.
#[derive(Default)]
pub(crate) struct View {
    pub(crate) manifest: Manifest,
    pub(crate) tables: BTreeMap<TableName, Arc<TableView>>,
    /// Oldest first.
    pub(crate) live: Vec<LiveSet>,
}

/// Open segments by the names of their files.
pub(crate) type Opened = HashMap<String, Arc<Segment>>;

/// The memtables that hold what one journal file does.
#[derive(Clone)]
pub(crate) struct LiveSet {
    pub(crate) journal: u64,
    pub(crate) tables: BTreeMap<TableName, Arc<Memtable>>,
}

impl LiveSet {
    /// About how much memory the memtables take.
    pub(super) fn bytes(&self) -> usize {
        self.tables.values().map(|memtable| memtable.bytes()).sum()
    }
}

/// What there is of a table.
pub(crate) struct TableView {
    pub(crate) options: TableOptions,
    pub(crate) rules: Rules,
    by_id: Arc<Direction>,
    by_partner_id: Arc<Direction>,
    /// Oldest first.
    live: Vec<Arc<Memtable>>,
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
    /// The segments that are open, by the names of their files.
    pub(crate) fn opened(&self) -> Opened {
        self.tables
            .values()
            .flat_map(|table| table.by_id.all.iter().chain(&table.by_partner_id.all))
            .filter_map(|segment| Some((segment.file_name()?, Arc::clone(segment))))
            .collect()
    }

    /// Opens what a manifest names. Segments that are open are shared, and those that get
    /// opened are added to them, also when a later one cannot be. Memtables stay as they are in `before`.
    pub(crate) fn open(
        disk: &dyn Disk,
        folder: &Path,
        manifest: Manifest,
        before: &View,
        opened: &mut Opened,
    ) -> Result<View> {
        let mut tables = BTreeMap::new();
        for (name, entry) in &manifest.tables {
            let erasures = open_erasures(disk, folder, &manifest, name, before)?;
            let (mut by_id, mut by_partner_id) = (Vec::new(), Vec::new());
            for info in &entry.segments {
                let mut segment = match opened.get(&info.file) {
                    Some(segment) => Arc::clone(segment),
                    None => Arc::new(Segment::open(disk, folder, info)?),
                };
                let gone_before = info.gone_before.unwrap_or(SeenAt::EPOCH);
                if segment.gone_before() != gone_before {
                    segment = Arc::new(segment.without_before(gone_before));
                }
                opened.insert(info.file.clone(), Arc::clone(&segment));
                if info.erased {
                    segment.mark_erased();
                }
                match info.side {
                    Side::Id => by_id.push(segment),
                    Side::PartnerId => by_partner_id.push(segment),
                }
            }
            let table = TableView {
                options: entry.options.clone(),
                rules: Rules { keep: entry.options.keep, erasures },
                by_id: Arc::new(Direction::new(by_id)),
                by_partner_id: Arc::new(Direction::new(by_partner_id)),
                live: Vec::new(),
            };
            tables.insert(name.clone(), Arc::new(table));
        }
        Ok(View { manifest, tables, live: Vec::new() }.with_live(before.live.clone()))
    }

    /// The same with other memtables.
    pub(crate) fn with_live(&self, live: Vec<LiveSet>) -> View {
        let of_table = |name: &TableName| -> Vec<Arc<Memtable>> {
            live.iter().filter_map(|set| set.tables.get(name).cloned()).collect()
        };
        let tables = self.tables.iter().map(|(name, table)| {
            (name.clone(), Arc::new(TableView { live: of_table(name), ..table.shared() }))
        });
        View { manifest: self.manifest.clone(), tables: tables.collect(), live: live.clone() }
    }

    /// About how much memory all memtables take.
    pub(super) fn live_bytes(&self) -> usize {
        self.live.iter().map(LiveSet::bytes).sum()
    }

    /// The memtable of a table among those that were begun last.
    pub(crate) fn newest_memtable(&self, table: &str) -> Option<&Arc<Memtable>> {
        let (_, memtable) =
            self.live.last()?.tables.iter().find(|(name, _)| name.as_str() == table)?;
        Some(memtable)
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

    /// The segments of both directions.
    pub(crate) fn all_segments(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.by_id.all.iter().chain(&self.by_partner_id.all)
    }

    /// What was upserted.
    pub(crate) fn live(&self) -> &[Arc<Memtable>] {
        &self.live
    }

    /// Every segment that may have rows of some keys of a part, each given with its hash. What was
    /// upserted up to a commit is made into further ones.
    pub(crate) fn sources_of<'k>(
        &self,
        side: Side,
        part: Part,
        keys: impl Iterator<Item = (u64, Packed<'k>)> + Clone,
        last: Commit,
    ) -> Result<Vec<Arc<Segment>>> {
        let mut sources = self.segments_of(side, part).to_vec();
        for memtable in &self.live {
            let rows = memtable.rows_of(side, part, keys.clone(), (&self.rules, last))?;
            sources.extend(rows.map(Arc::new));
        }
        Ok(sources)
    }

    /// The same for all keys of a part.
    pub(crate) fn sources_in(
        &self,
        side: Side,
        part: Part,
        last: Commit,
    ) -> Result<Vec<Arc<Segment>>> {
        let mut sources = self.segments_of(side, part).to_vec();
        for memtable in &self.live {
            let rows = memtable.rows_in(side, part, (&self.rules, last))?;
            sources.extend(rows.map(Arc::new));
        }
        Ok(sources)
    }

    /// What to ask for the rows of a key in a segment; `None` where none of them was erased.
    pub(crate) fn erased_in(
        &self,
        segment: &Segment,
        side: Side,
        key: Packed<'_>,
    ) -> Option<Arc<KeyErasures>> {
        let may_be = segment.has_hidden();
        may_be.then(|| self.rules.erasures.of_key(side, key).map(Arc::new)).flatten()
    }

    fn direction(&self, side: Side) -> &Direction {
        match side {
            Side::Id => &self.by_id,
            Side::PartnerId => &self.by_partner_id,
        }
    }

    /// The same segments, without memtables.
    fn shared(&self) -> TableView {
        TableView {
            options: self.options.clone(),
            rules: self.rules.clone(),
            by_id: self.by_id.clone(),
            by_partner_id: self.by_partner_id.clone(),
            live: Vec::new(),
        }
    }
}

/// The erasures of a table. Files that `before` has open are shared.
fn open_erasures(
    disk: &dyn Disk,
    folder: &Path,
    manifest: &Manifest,
    name: &TableName,
    before: &View,
) -> Result<Arc<Erasures>> {
    let files = |manifest: &Manifest| {
        manifest.tables.get(name).map(|entry| entry.erasures.clone()).unwrap_or_default()
    };
    let (wanted, had) = (files(manifest), files(&before.manifest));
    let open = before.tables.get(name).map(|table| &table.rules.erasures);
    if let Some(open) = open.filter(|_| wanted == had) {
        return Ok(Arc::clone(open));
    }
    let mut layers = Vec::new();
    for file in &wanted {
        let number = had.iter().position(|other| other == file);
        let layer = number.and_then(|number| open?.layers().get(number).cloned());
        layers.push(match layer {
            Some(layer) => layer,
            None => Arc::new(file.read(disk, folder)?),
        });
    }
    Ok(Arc::new(Erasures::new(manifest.erasure_key()?, layers)))
}
