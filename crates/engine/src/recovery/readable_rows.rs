//! The rows of a table's segments that can be read, as the source of a load.

use crate::encoding::Packed;
use crate::lookup::RowCursor;
use crate::segment::{Block, PAGE_ROWS, Segment};
use crate::versions::TableVersion;
use arrow_array::RecordBatch;
use idmatch_model::{SeenAt, Side};
use idmatch_store::{BatchSource, Columns, Result, RowBatch, SourceBatch};
use std::collections::VecDeque;
use std::sync::Arc;

/// A batch has at most this many rows, and about this many bytes of identifiers.
const BATCH_ROWS: usize = 64 << 10;
const BATCH_BYTES: usize = 8 << 20;

/// All rows that can be read, of both directions.
pub(super) struct ReadableRows<'t> {
    segments: VecDeque<&'t Arc<Segment>>,
    /// The next block of the first segment.
    block: u32,
    rows: RowBatch,
    /// Full batches that are not taken yet: one block may fill many.
    full: VecDeque<RecordBatch>,
    stored: [u64; 2],
    read: [u64; 2],
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
            rows: RowBatch::with_limits((Side::Id, Columns::ALL), BATCH_ROWS, BATCH_BYTES),
            full: VecDeque::new(),
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
    fn read_block(&mut self, segment: &Segment, block: Block<'_>) -> Result<()> {
        if segment.check_keys(&block).is_err() {
            return Ok(());
        }
        let side = segment.header.side;
        for at in 0..block.keys {
            let Ok(key) = segment.key(&block, at) else { return Ok(()) };
            let mut rest = block.rows_of(at);
            while !rest.is_empty() {
                let mut rows = RowCursor::new(segment, block, rest.clone());
                while let Ok(Some(seen_at)) = rows.date()
                    && let Ok(value) = rows.value()
                {
                    if !segment.is_below_watermark(seen_at) {
                        self.push(side, key, value, seen_at)?;
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
        Ok(())
    }

    fn push(&mut self, side: Side, key: Packed<'_>, value: Packed<'_>, date: SeenAt) -> Result<()> {
        let (id, partner_id) = match side {
            Side::Id => (key, value),
            Side::PartnerId => (value, key),
        };
        let is_full = self.rows.push_with(
            |text| id.unpack_into(text),
            |text| partner_id.unpack_into(text),
            date,
        );
        if is_full {
            self.full.extend(self.rows.take()?);
        }
        Ok(())
    }
}

impl BatchSource for ReadableRows<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        while self.full.is_empty()
            && let Some(segment) = self.segments.front().copied()
        {
            if self.block >= 1 << segment.header.block_bits {
                self.segments.pop_front();
                self.block = 0;
                continue;
            }
            if let Ok(Some(block)) = segment.block(self.block) {
                self.read_block(segment, block)?;
            }
            self.block += 1;
        }
        let batch = match self.full.pop_front() {
            Some(batch) => Some(batch),
            None => self.rows.take()?,
        };
        Ok(batch.map(|batch| SourceBatch {
            source: "the table itself".into(),
            first_row: 1,
            batch,
        }))
    }
}
