//! Mending a table: both directions are written anew from all rows that can still be read in either.
//!
//! It is a load whose source are the table's own segments, so what it makes is as good as what a load
//! makes, and nothing changes before all of it is there. Needs the disk of a second copy.

use super::shared::{SCRATCH, Shared};
use super::verify::verify;
use super::view::{TableView, View};
use crate::errors::io_error;
use crate::load::{LoadPlace, load};
use crate::lookup::RowCursor;
use crate::packed::Packed;
use crate::segment::{Block, PAGE_ROWS, Segment};
use crate::workers::lock;
use arrow_array::builder::{BinaryBuilder, TimestampMillisecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use idmatch_model::{SeenAt, Side, TableName};
use idmatch_store::{
    BatchSource, Error, ErrorKind, Finding, Ingest, Reject, RejectSink, Repaired, Result,
    SourceBatch, now,
};
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// Rows of a batch, about.
const BATCH_ROWS: usize = 64 << 10;

impl Shared {
    /// Checks a table and mends what is wrong. Where rows are damaged in both directions some may
    /// be lost: that needs `accept_loss`.
    pub(crate) fn repair(
        self: &Arc<Shared>,
        name: &TableName,
        accept_loss: bool,
    ) -> Result<Repaired> {
        let _loading = lock(&self.loading);
        let _hold = self.hold()?;
        self.flush_all()?;
        let _compacting = lock(&self.compacting);
        let view = self.view();
        let table = self.table_of(&view, name)?;
        let made_with = view.manifest.erasures(name);
        let findings = self.check(&view, name)?;
        if findings.is_empty() {
            return Ok(Repaired::default());
        }
        let scratch = self.root.join(SCRATCH);
        self.disk.create_dir(&scratch).map_err(|e| io_error("make", &scratch, e))?;
        let mut salvage = Salvage::new(table);
        let (segments, mut lost_at_most) = (self.segments(), 0);
        self.add_segments(
            |names| {
                let place = LoadPlace {
                    disk: &*self.disk,
                    segments: &segments,
                    scratch: &scratch,
                    names,
                    limits: self.limits,
                };
                let mut none = NoRejects;
                let made =
                    load(&place, &table.rules, &mut salvage, &Ingest::new(true, now(), &mut none))?;
                lost_at_most = salvage.lost_at_most();
                if lost_at_most > 0 && !accept_loss {
                    return Err(would_lose(name, lost_at_most, &salvage));
                }
                Ok(made)
            },
            |made| {
                self.publish(|manifest| {
                    if let Some(entry) = manifest.tables.get_mut(name) {
                        entry.segments.clear();
                        entry.add(made, made_with);
                    }
                    Ok(())
                })
            },
        )
        .inspect_err(|_| self.remove_scratch())?;
        {
            let _copying = self.copying.write().unwrap_or_else(PoisonError::into_inner);
            self.remove_files(table.all_segments().map(|segment| segment.path().to_owned()));
        }
        let left = self.check(&self.view(), name)?;
        match left.first() {
            None => Ok(Repaired { findings, lost_at_most }),
            Some(Finding { place, problem }) => Err(Error::new(
                ErrorKind::Corrupt,
                format!("{place}: {problem}; all else of table {name} was mended"),
            )),
        }
    }

    fn check(&self, view: &View, name: &TableName) -> Result<Vec<Finding>> {
        let place = (&*self.disk, &*self.segments());
        verify(place, view.manifest.erasures(name), self.table_of(view, name)?, self.visible())
    }
}

fn would_lose(name: &TableName, rows: u64, salvage: &Salvage<'_>) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "{} rows of table {name} cannot be read by id, {} cannot by partner_id: up to {rows} would \
             be lost; nothing was changed. Restore the store from a backup, or accept the loss",
            salvage.unreadable(Side::Id),
            salvage.unreadable(Side::PartnerId)
        ),
    )
}

/// All rows that can be read, of both directions.
struct Salvage<'t> {
    segments: VecDeque<&'t Arc<Segment>>,
    /// The next block of the first of them.
    block: u32,
    stored: [u64; 2],
    read: [u64; 2],
}

/// The columns of a batch.
#[derive(Default)]
struct Columns {
    ids: BinaryBuilder,
    partner_ids: BinaryBuilder,
    dates: TimestampMillisecondBuilder,
    rows: usize,
}

impl<'t> Salvage<'t> {
    fn new(table: &'t TableView) -> Salvage<'t> {
        let rows = |side| table.segments(side).iter().map(|segment| segment.header.rows).sum();
        Salvage {
            segments: table.all_segments().collect(),
            block: 0,
            stored: [rows(Side::Id), rows(Side::PartnerId)],
            read: [0, 0],
        }
    }

    fn unreadable(&self, side: Side) -> u64 {
        let [by_id, by_partner_id] =
            [0, 1].map(|n: usize| match (self.stored.get(n), self.read.get(n)) {
                (Some(stored), Some(read)) => stored.saturating_sub(*read),
                _ => 0,
            });
        match side {
            Side::Id => by_id,
            Side::PartnerId => by_partner_id,
        }
    }

    /// What is unreadable in one direction only is in the other.
    fn lost_at_most(&self) -> u64 {
        self.unreadable(Side::Id).min(self.unreadable(Side::PartnerId))
    }

    /// Adds the rows of a block; what is damaged is passed over, a page at a time.
    fn read_block(&mut self, segment: &Segment, block: Block<'_>, columns: &mut Columns) {
        if segment.check_keys(&block).is_err() {
            return;
        }
        let side = segment.header.side;
        for at in 0..block.keys {
            let Ok(key) = segment.key(&block, at) else { return };
            let mut rest = block.rows_of(at);
            while !rest.is_empty() {
                let mut rows = RowCursor::new(segment, block, rest.clone());
                while let Ok(Some(seen_at)) = rows.date()
                    && let Ok(value) = rows.value()
                {
                    columns.push(side, key, value, seen_at);
                    if let Some(read) = self.read.get_mut(usize::from(side == Side::PartnerId)) {
                        *read += 1;
                    }
                    rows.advance();
                }
                let next_page = (rows.rows().start / PAGE_ROWS + 1) * PAGE_ROWS;
                rest = next_page.min(rest.end)..rest.end;
            }
        }
    }
}

impl BatchSource for Salvage<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let mut columns = Columns::default();
        while columns.rows < BATCH_ROWS
            && let Some(segment) = self.segments.front().copied()
        {
            if self.block >= 1 << segment.header.block_bits {
                self.segments.pop_front();
                self.block = 0;
                continue;
            }
            if let Ok(Some(block)) = segment.block(self.block) {
                self.read_block(segment, block, &mut columns);
            }
            self.block += 1;
        }
        if columns.rows == 0 { Ok(None) } else { columns.finish().map(Some) }
    }
}

impl Columns {
    fn push(&mut self, side: Side, key: Packed<'_>, value: Packed<'_>, seen_at: SeenAt) {
        let (id, partner_id) = match side {
            Side::Id => (key, value),
            Side::PartnerId => (value, key),
        };
        let mut text = Vec::new();
        for (id, column) in [(id, &mut self.ids), (partner_id, &mut self.partner_ids)] {
            text.clear();
            id.unpack_into(&mut text);
            column.append_value(&text);
        }
        self.dates.append_value(seen_at.millis_i64());
        self.rows += 1;
    }

    fn finish(mut self) -> Result<SourceBatch> {
        let dates = self.dates.finish().with_timezone("UTC");
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(self.ids.finish()) as ArrayRef),
            ("partner_id", Arc::new(self.partner_ids.finish())),
            ("seen_at", Arc::new(dates)),
        ]);
        let batch =
            batch.map_err(|e| Error::with_source(ErrorKind::Corrupt, "rows make no batch", e))?;
        Ok(SourceBatch { source: "the table itself".into(), first_row: 1, batch })
    }
}

/// What was stored had been judged.
struct NoRejects;

impl RejectSink for NoRejects {
    fn reject(&mut self, _: Vec<Reject>) -> Result<()> {
        Ok(())
    }
}
