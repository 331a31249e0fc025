//! The block that was read last in each segment, with its pages, so that neighbouring keys
//! share one verification.

use super::RowCursor;
use crate::erasures::KeyErasures;
use crate::segment::Segment;
use idmatch_store::Result;
use std::ops::Range;
use std::sync::Arc;

/// One remembered cursor for each segment of a list.
pub(crate) struct BlockCache<'s> {
    segments: &'s [Arc<Segment>],
    last: Vec<Option<(u32, RowCursor<'s>)>>,
}

impl<'s> BlockCache<'s> {
    pub(crate) fn new(segments: &'s [Arc<Segment>]) -> BlockCache<'s> {
        BlockCache { segments, last: segments.iter().map(|_| None).collect() }
    }

    /// A cursor over rows of a block of the segment with this number in the list, without those
    /// that were erased.
    pub(crate) fn rows(
        &mut self,
        segment: u32,
        block: u32,
        rows: Range<u32>,
        erased: Option<Arc<KeyErasures>>,
    ) -> Result<&mut RowCursor<'s>> {
        let at = segment as usize;
        let (Some(segment), Some(last)) = (self.segments.get(at), self.last.get_mut(at)) else {
            return Err(idmatch_store::Error::new(
                idmatch_store::ErrorKind::InvalidArgument,
                format!("there is no segment number {at}"),
            ));
        };
        let cursor = match last.take() {
            Some((number, cursor)) if number == block => cursor.moved_to(rows),
            _ => RowCursor::new(segment, segment.known_block(block)?, rows),
        };
        Ok(&mut last.insert((block, cursor.visible(erased))).1)
    }
}
