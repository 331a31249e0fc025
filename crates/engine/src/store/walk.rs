//! All keys of a part of the hash space, each with its rows from everywhere.

use super::view::TableView;
use crate::lookup::{Merge, RowCursor};
use crate::memtable::Commit;
use crate::packed::Packed;
use crate::part::Part;
use crate::segment::Segment;
use idmatch_model::{Side, Window};
use idmatch_store::Result;

/// Calls `take` with every key of a part, in order, and its visible rows. Cost: the part is read
/// once.
pub(super) fn for_each_key(
    table: &TableView,
    side: Side,
    part: Part,
    last: Commit,
    mut take: impl FnMut(Packed<'_>, Merge<'_>) -> Result<()>,
) -> Result<()> {
    let segments = table.sources_in(side, part, last)?;
    let mut sources: Vec<KeyWalk<'_>> =
        segments.iter().map(|segment| KeyWalk::new(table, segment, part)).collect();
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
        take(key, Merge::new(cursors, table.rules.keep, Window::ALL))?;
    }
}

fn order<'a>((hash, key): (u64, Packed<'a>)) -> (u64, crate::packed::Kind, &'a [u8]) {
    (hash, key.kind, key.payload)
}

/// The keys of a segment in a part of the hash space, in order.
struct KeyWalk<'s> {
    table: &'s TableView,
    segment: &'s Segment,
    part: Part,
    block: u32,
    key: u32,
}

impl<'s> KeyWalk<'s> {
    fn new(table: &'s TableView, segment: &'s Segment, part: Part) -> KeyWalk<'s> {
        let block = segment.header.block_of(part.first_hash());
        KeyWalk { table, segment, part, block, key: 0 }
    }

    /// The current key and its hash, or `None` after the last one of the part.
    fn key(&mut self) -> Result<Option<(u64, Packed<'s>)>> {
        while self.block < 1 << self.segment.header.block_bits {
            if let Some(block) = self.segment.block(self.block)? {
                while self.key < block.keys {
                    let key = self.segment.key(&block, self.key)?;
                    let hash = key.hash();
                    // A small segment's block spans several parts.
                    match Part::of(hash).0.cmp(&self.part.0) {
                        std::cmp::Ordering::Less => self.key += 1,
                        std::cmp::Ordering::Equal => return Ok(Some((hash, key))),
                        std::cmp::Ordering::Greater => return Ok(None),
                    }
                }
            }
            self.block += 1;
            self.key = 0;
        }
        Ok(None)
    }

    /// The rows of the current key; goes on to the next one.
    fn take(&mut self) -> Result<Option<RowCursor<'s>>> {
        let Some(block) = self.segment.block(self.block)? else { return Ok(None) };
        let key = self.segment.key(&block, self.key)?;
        let erased = self.table.erased_in(self.segment, self.segment.header.side, key);
        let rows = RowCursor::new(self.segment, block, block.rows_of(self.key)).visible(erased);
        self.key += 1;
        Ok(Some(rows))
    }
}
