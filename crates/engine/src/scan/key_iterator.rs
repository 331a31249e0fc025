//! All keys of a hash partition, each with its rows from all sources.

use crate::encoding::Packed;
use crate::hash_partition::HashPartition;
use crate::lookup::{MergeIterator, ROWS_BETWEEN_CHECKS, RowCursor};
use crate::memtable::Commit;
use crate::segment::{Block, Segment};
use crate::versions::TableVersion;
use idmatch_model::{Keep, SeenAt, Side, Window};
use idmatch_store::{Call, Result};

/// Calls `take` with every key of a partition, in order, and its visible rows. Cost: the partition is read
/// once.
pub(crate) fn for_each_key(
    table: &TableVersion,
    side: Side,
    partition: HashPartition,
    last: Commit,
    mut take: impl FnMut(Packed<'_>, MergeIterator<'_>) -> Result<()>,
) -> Result<()> {
    let segments = table.sources_in(side, partition, last)?;
    let mut sources: Vec<KeyIterator<'_>> =
        segments.iter().map(|segment| KeyIterator::new(table, segment, partition)).collect();
    loop {
        let mut next: Option<(u64, Packed<'_>)> = None;
        for source in &mut sources {
            if let Some(key) = source.key()?
                && next.is_none_or(|least| order(key) < order(least))
            {
                next = Some(key);
            }
        }
        let Some((hash, key)) = next else { return Ok(()) };
        let mut cursors = Vec::new();
        for source in &mut sources {
            if source.key()? == Some((hash, key)) {
                cursors.extend(source.take()?);
            }
        }
        take(key, MergeIterator::new(cursors, table.row_rules.keep, Window::ALL))?;
    }
}

/// Calls `take` with every visible observation of a partition, each once: key, value, date. Cost: the
/// partition is read once.
pub(crate) fn for_each_observation(
    table: &TableVersion,
    side: Side,
    partition: HashPartition,
    last: Commit,
    call: &Call,
    mut take: impl FnMut(Packed<'_>, Packed<'_>, SeenAt) -> Result<()>,
) -> Result<()> {
    let mut rows = 0usize;
    let mut take = |key: Packed<'_>, value: Packed<'_>, seen_at| {
        rows += 1;
        if rows.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            call.check()?;
        }
        take(key, value, seen_at)
    };
    for_each_key(table, side, partition, last, |key, mut merge| {
        match table.row_rules.keep {
            Keep::Last => {
                while let Some((seen_at, value)) = merge.next()? {
                    take(key, value, seen_at)?;
                }
            }
            Keep::All => {
                // Rows come in one order from all sources, so repeats are neighbours.
                let mut last = None;
                while let Some((seen_at, value)) = merge.next_row()? {
                    if last != Some((seen_at, value)) {
                        take(key, value, seen_at)?;
                    }
                    last = Some((seen_at, value));
                }
            }
        }
        Ok(())
    })
}

fn order<'a>((hash, key): (u64, Packed<'a>)) -> (u64, crate::encoding::Kind, &'a [u8]) {
    (hash, key.kind, key.payload)
}

/// The keys of a segment in a hash partition, in order. The pages of a block stay verified while its keys are
/// read.
struct KeyIterator<'s> {
    table: &'s TableVersion,
    segment: &'s Segment,
    partition: HashPartition,
    number: u32,
    /// The block of that number, and a cursor that has its latest pages.
    block: Option<(Block<'s>, RowCursor<'s>)>,
    at: u32,
    /// The current key and its hash, if it was looked at.
    current: Option<(u64, Packed<'s>)>,
}

impl<'s> KeyIterator<'s> {
    fn new(
        table: &'s TableVersion,
        segment: &'s Segment,
        partition: HashPartition,
    ) -> KeyIterator<'s> {
        let number = segment.header.block_of(partition.first_hash());
        KeyIterator { table, segment, partition, number, block: None, at: 0, current: None }
    }

    /// The current key and its hash, or `None` after the last one of the partition.
    fn key(&mut self) -> Result<Option<(u64, Packed<'s>)>> {
        if self.current.is_some() {
            return Ok(self.current);
        }
        while self.number < 1 << self.segment.header.block_bits {
            if self.block.is_none()
                && let Some(block) = self.segment.block(self.number)?
            {
                // Other reads prove a key by its hash; here only the checksum of its page does.
                self.segment.check_keys(&block)?;
                self.block = Some((block, RowCursor::new(self.segment, block, 0..0)));
            }
            if let Some((block, _)) = &self.block {
                while self.at < block.keys {
                    let key = self.segment.key(block, self.at)?;
                    let hash = key.hash(self.segment.seed());
                    // A block of a small segment spans several partitions.
                    match HashPartition::of(hash).0.cmp(&self.partition.0) {
                        std::cmp::Ordering::Less => self.at += 1,
                        std::cmp::Ordering::Equal => {
                            self.current = Some((hash, key));
                            return Ok(self.current);
                        }
                        std::cmp::Ordering::Greater => return Ok(None),
                    }
                }
            }
            self.number += 1;
            (self.at, self.block) = (0, None);
        }
        Ok(None)
    }

    /// The rows of the current key; goes on to the next one.
    fn take(&mut self) -> Result<Option<RowCursor<'s>>> {
        let Some((_, key)) = self.key()? else { return Ok(None) };
        let Some((block, rows)) = &mut self.block else { return Ok(None) };
        let mut of_key = rows.clone().moved_to(block.rows_of(self.at));
        if of_key.has_row()? {
            // The next keys use its pages, too.
            of_key.date()?;
            of_key.value()?;
        }
        rows.clone_from(&of_key);
        let erased = self.table.tombstones_in(self.segment, self.segment.header.side, key);
        self.at += 1;
        self.current = None;
        Ok(Some(of_key.skipping_hidden(erased)))
    }
}
