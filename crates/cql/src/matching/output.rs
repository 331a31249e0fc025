//! The rows of a match until they are read: in memory, and beyond a limit in a temporary file.

use arrow_array::RecordBatch;
use idmatch_model::SeenAt;
use idmatch_store::locks::Mutex;
use idmatch_store::{MatchQuery, Result, RowBatch, SpilledBatch, SpilledBatches};

/// A batch is passed on when it has this many rows, or bytes of identifiers.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;

/// All rows of a match. Rows of one task keep their order.
pub(super) struct Output {
    query: MatchQuery,
    rows: SpilledBatches,
    batches: Mutex<Vec<SpilledBatch>>,
}

impl Output {
    /// Starts without rows. It keeps up to `most` bytes of them in memory.
    pub(super) fn new(query: MatchQuery, most: usize) -> Output {
        Output { query, rows: SpilledBatches::new(most), batches: Mutex::default() }
    }

    fn push(&self, batch: RecordBatch) -> Result<()> {
        let batch = self.rows.push_own(batch)?;
        self.batches.lock().push(batch);
        Ok(())
    }

    /// Returns all rows, in the order in which they came.
    pub(super) fn read(&self, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let batches = self.batches.lock().clone();
        batches.iter().try_for_each(|batch| take(batch.read()?))
    }
}

/// Collects the rows of one task into batches.
pub(super) struct RowBuilder<'o> {
    output: &'o Output,
    rows: RowBatch,
}

impl<'o> RowBuilder<'o> {
    pub(super) fn new(output: &'o Output) -> RowBuilder<'o> {
        let rows = RowBatch::of_query(&output.query, BATCH_ROWS, BATCH_BYTES);
        RowBuilder { output, rows }
    }

    pub(super) fn push(&mut self, key: &str, value: &str, seen_at: SeenAt) -> Result<()> {
        match self.rows.push(key, value, seen_at)? {
            Some(batch) => self.output.push(batch),
            None => Ok(()),
        }
    }

    /// Adds a row of a positional match.
    pub(super) fn push_position(&mut self, row: u32, value: &str, seen_at: SeenAt) -> Result<()> {
        let is_full = self.rows.push_position(row, |text| text.extend(value.bytes()), seen_at);
        if is_full { self.send() } else { Ok(()) }
    }

    /// Passes on the remaining rows.
    pub(super) fn finish(mut self) -> Result<()> {
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        match self.rows.take()? {
            Some(batch) => self.output.push(batch),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use idmatch_model::{Pick, Side, Window};

    const QUERY: MatchQuery =
        MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };

    #[test]
    fn what_is_too_much_for_memory_waits_in_a_file() {
        let read = |output: &Output| {
            let mut keys = Vec::new();
            let take = |batch: RecordBatch| {
                keys.extend(batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned));
                Ok(())
            };
            output.read(take).unwrap();
            keys
        };
        for (most, is_in_file) in [(1, true), (1 << 20, false)] {
            let output = Output::new(QUERY, most);
            for key in ["a", "b", "c"] {
                let mut rows = RowBuilder::new(&output);
                rows.push(key, "value", SeenAt::EPOCH).unwrap();
                rows.finish().unwrap();
            }
            assert_eq!(output.rows.is_in_file(), is_in_file);
            assert_eq!(read(&output), ["a", "b", "c"]);
            assert_eq!(read(&output), ["a", "b", "c"]);
        }
    }
}
