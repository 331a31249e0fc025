//! All observations of a table of the reference.

use idmatch_model::SeenAt;
use idmatch_store::{MatchSink, PARTS, Parts, Result, RowLane, Scan};
use twox_hash::XxHash3_64;

/// A copy of all rows.
pub(super) struct MemoryScan {
    rows: Vec<(String, String, SeenAt)>,
}

impl MemoryScan {
    pub(super) fn new(rows: Vec<(String, String, SeenAt)>) -> MemoryScan {
        MemoryScan { rows }
    }
}

impl Scan for MemoryScan {
    fn part(&self, id: &str) -> usize {
        XxHash3_64::oneshot(id.as_bytes()) as usize % PARTS
    }

    fn read(&self, parts: &Parts, sink: &dyn MatchSink) -> Result<()> {
        let mut lane = RowLane::new(sink.lane()?);
        for (id, partner_id, seen_at) in &self.rows {
            if parts.contains(self.part(id)) {
                lane.push(id, partner_id, *seen_at)?;
            }
        }
        lane.finish()
    }
}
