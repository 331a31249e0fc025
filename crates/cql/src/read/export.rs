//! All observations of a table, or of some scan ranges. Must not know how a direction is scanned, nor the
//! use of its rows.

use crate::client::Use;
use crate::context::TableContext;
use crate::error::unexpected;
use crate::read::scan::{RowVisitor, ScanCall, scan_ranges};
use crate::row_buffer::RowBuffer;
use crate::schema::metadata_cache::VisibleRange;
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Call, Columns, Error, ErrorKind, MatchSink, Result, RowLane, ScanRanges};
use std::sync::Arc;
use tokio::sync::mpsc::{Sender, channel};

/// Batches of rows that may wait for the receiver.
const QUEUED_BATCHES: usize = 2;

/// Sends the visible rows of some scan ranges. Cost: reads these scan ranges of the direction by id.
pub(crate) fn export(
    context: &Arc<TableContext>,
    ranges: &ScanRanges,
    (visible, columns): (VisibleRange, Columns),
    sink: &dyn MatchSink,
    call: &Call,
) -> Result<()> {
    let client = &context.client;
    let (batches, mut received) = channel(QUEUED_BATCHES);
    let (table, ranges) = (Arc::clone(context), ranges.clone());
    let visitor = Export { context: Arc::clone(context), visible, batches };
    let scan_call = ScanCall(call.clone(), "scan");
    let scanning = client
        .start(async move { scan_ranges(&table, (Side::Id, &ranges), scan_call, visitor).await });
    let mut lane = RowLane::new(sink.lane()?, columns);
    let mut take = || {
        while let Some(rows) =
            client.wait_unless(call, Use::Read, async { Ok(received.recv().await) })?
        {
            for row in 0..rows.len() {
                let (id, partner_id) = rows.pair(row, Side::Id);
                lane.push(id, partner_id, rows.seen_at(row))?;
            }
        }
        Ok(())
    };
    if let Err(e) = take() {
        scanning.abort();
        return Err(e);
    }
    let ended = async { scanning.await.unwrap_or_else(|e| Err(unexpected(&context.what(), e))) };
    client.wait_unless(call, Use::Read, ended)?;
    lane.finish()
}

/// Sends the wanted and visible rows.
struct Export {
    context: Arc<TableContext>,
    visible: VisibleRange,
    batches: Sender<RowBuffer>,
}

impl RowVisitor for Export {
    fn row(&self, _: &str, _: &str, seen_at: SeenAt) -> bool {
        self.visible.contains(seen_at)
    }

    async fn batch(&self, rows: RowBuffer) -> Result<()> {
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
