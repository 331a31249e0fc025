//! The rows of a table's segments that can be read, as the source of a load.

use crate::encoding::Packed;
use crate::lookup::RowCursor;
use crate::segment::{Block, PAGE_ROWS, Segment};
use crate::versions::TableVersion;
use arrow_array::builder::{BinaryBuilder, TimestampMillisecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{BatchSource, Error, ErrorKind, Result, SourceBatch};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows of a batch, about.
const BATCH_ROWS: usize = 64 << 10;

/// All rows that can be read, of both directions.
pub(super) struct ReadableRows<'t> {
    segments: VecDeque<&'t Arc<Segment>>,
    /// The next block of the first segment.
    block: u32,
    stored: [u64; 2],
    read: [u64; 2],
}

/// The columns of a batch.
#[derive(Default)]
struct ColumnBuilders {
    ids: BinaryBuilder,
    partner_ids: BinaryBuilder,
    dates: TimestampMillisecondBuilder,
    rows: usize,
}

impl<'t> ReadableRows<'t> {
    /// All rows of the table; `missing` is the number of rows of each direction in segments that do not open.
    pub(super) fn new(table: &'t TableVersion, missing: [u64; 2]) -> ReadableRows<'t> {
        let rows =
            |side| table.segments(side).iter().map(|segment| segment.header.rows).sum::<u64>();
        let [by_id, by_partner_id] = missing;
        ReadableRows {
            segments: table.all_segments().collect(),
            block: 0,
            stored: [rows(Side::Id) + by_id, rows(Side::PartnerId) + by_partner_id],
            read: [0, 0],
        }
    }

    /// Rows of a direction that were stored and not read.
    pub(super) fn unreadable(&self, side: Side) -> u64 {
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

    /// The most rows that may be lost: rows that are unreadable in only one direction are in the other.
    pub(super) fn lost_at_most(&self) -> u64 {
        self.unreadable(Side::Id).min(self.unreadable(Side::PartnerId))
    }

    /// Adds the rows of a block; damage is skipped, a page at a time.
    fn read_block(&mut self, segment: &Segment, block: Block<'_>, columns: &mut ColumnBuilders) {
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
                    if !segment.is_below_watermark(seen_at) {
                        columns.push(side, key, value, seen_at);
                    }
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

impl BatchSource for ReadableRows<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let mut columns = ColumnBuilders::default();
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

impl ColumnBuilders {
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
