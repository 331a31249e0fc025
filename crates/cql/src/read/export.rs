//! All observations of a table, for a copy or a comparison.
//!
//! A scan reads token ranges in their order. The token of an id's bucket decides its part: the
//! highest bits of that token. So a scan meets the parts about one after another. Must not know how
//! a direction is scanned, nor the use of its rows.

use crate::context::TableContext;
use crate::error::unexpected;
use crate::read::scan::{RowVisitor, scan};
use crate::row_buffer::Rows;
use crate::schema::bucket::bucket;
use crate::schema::metadata_cache::Visible;
use idmatch_model::{SeenAt, Side, Window};
use idmatch_store::{Error, ErrorKind, MatchSink, PARTS, Parts, Result, RowLane, Scan};
use scylla::routing::partitioner::{Murmur3Partitioner, Partitioner};
use std::sync::Arc;
use tokio::sync::mpsc::{Sender, channel};

/// Batches of rows that may wait for the receiver.
const QUEUED_BATCHES: usize = 2;

/// A table, and the dates that its retention left when the export began.
pub(crate) struct CqlScan {
    context: Arc<TableContext>,
    visible: Visible,
    buckets: i32,
}

impl CqlScan {
    pub(crate) async fn begin(context: &Arc<TableContext>) -> Result<CqlScan> {
        let metadata = context.metadata_cache.refresh().await?;
        let (visible, buckets) = (metadata.visible(Window::ALL), metadata.definition.buckets);
        Ok(CqlScan { context: Arc::clone(context), visible, buckets })
    }
}

impl Scan for CqlScan {
    fn part(&self, id: &str) -> usize {
        part(id, self.buckets)
    }

    /// Cost: a scan of the direction by id, whichever parts are wanted.
    fn read(&self, parts: &Parts, sink: &dyn MatchSink) -> Result<()> {
        let client = &self.context.client;
        let (batches, mut received) = channel(QUEUED_BATCHES);
        let (context, parts) = (Arc::clone(&self.context), parts.clone());
        let (visible, buckets) = (self.visible, self.buckets);
        let export = Export { context: Arc::clone(&context), visible, buckets, parts, batches };
        let scanning = client.start(async move { scan(&context, Side::Id, export).await });
        let mut lane = RowLane::new(sink.lane()?);
        let mut taken = Ok(());
        while taken.is_ok()
            && let Some(rows) = client.wait(received.recv())
        {
            taken = (0..rows.len()).try_for_each(|row| {
                let (id, partner_id) = rows.pair(row, Side::Id);
                lane.push(id, partner_id, rows.seen_at(row))
            });
        }
        // The sender of the rows ends.
        drop(received);
        let read = client.wait(scanning);
        taken?;
        read.unwrap_or_else(|e| Err(unexpected(&self.context.what(), e)))?;
        lane.finish()
    }
}

/// The highest bits of the token of an id's bucket.
fn part(id: &str, buckets: i32) -> usize {
    let token = Murmur3Partitioner.hash_one(&bucket(id, buckets).to_be_bytes()).value();
    // Tokens are signed; the token ranges begin with the least.
    let from_least = token.cast_unsigned() ^ (1 << (u64::BITS - 1));
    (from_least >> (u64::BITS - PARTS.trailing_zeros())) as usize
}

/// Sends the wanted and visible rows.
struct Export {
    context: Arc<TableContext>,
    visible: Visible,
    buckets: i32,
    parts: Parts,
    batches: Sender<Rows>,
}

impl RowVisitor for Export {
    fn row(&self, key: &str, _: &str, seen_at: SeenAt) -> bool {
        self.visible.contains(seen_at) && self.parts.contains(part(key, self.buckets))
    }

    async fn batch(&self, rows: Rows) -> Result<()> {
        // Erasures that were published before the rows were read are known now, however long the
        // scan takes.
        let metadata = self.context.metadata_cache.current().await?;
        let rows = match metadata.erasures.len() {
            0 => rows,
            _ => rows.filtered(|id, partner_id, seen_at| {
                !metadata.erasures.hides(Side::Id, id, partner_id, seen_at)
            }),
        };
        let sent = self.batches.send(rows).await;
        sent.map_err(|_| Error::new(ErrorKind::Source, "the reader of a scan is gone"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_share_of_the_ring_that_its_token_is_in() {
        // Murmur3 tokens of the ints 0 and 1, as Cassandra's token() returns them.
        let token = |bucket: i32| Murmur3Partitioner.hash_one(&bucket.to_be_bytes()).value();
        assert_eq!(token(0), -3_485_513_579_396_041_028);
        assert_eq!(token(1), -4_069_959_284_402_364_209);
        // One bucket: all ids are in the part of token(0), which is 5,737,858,457,458,734,780 above
        // the least.
        assert_eq!(part("anybody", 1), (5_737_858_457_458_734_780_u64 >> 52) as usize);
        assert!((0..1_000).all(|n| part(&n.to_string(), 1_000) < PARTS));
    }
}
