//! The matches of a hop beside the carried columns of their population rows.
//!
//! Must not know the use of the matches. Invariant: the matches of a row keep their order; rows come chunk by
//! chunk.

use crate::carried::{Level, LoadedChunk};
use crate::chunk_matches::ChunkMatches;
use crate::columns::{failed, pick_rows};
use crate::limits::GATHERED_ROWS;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_select::concat::concat_batches;
use idmatch_model::Side;
use idmatch_store::{Call, Error, ErrorKind, Result, SpilledBatch};
use std::sync::Arc;

/// The rows of a hop: the carried columns of its population, and its matches.
pub(crate) struct HopRows {
    pub(crate) by: Side,
    pub(crate) level: Level,
    pub(crate) matches: ChunkMatches,
}

/// Some matches of a chunk.
pub(crate) struct Gathered {
    /// The numbers of their population rows in the hop.
    pub(crate) rows: ArrayRef,
    pub(crate) answers: ArrayRef,
    pub(crate) dates: ArrayRef,
    /// The carried columns of these rows, in the order of the level.
    pub(crate) carried: Vec<ArrayRef>,
}

/// Reads the matches of a chunk.
pub(crate) struct ChunkReader<'a> {
    columns: usize,
    chunk: LoadedChunk,
    waiting: std::slice::Iter<'a, SpilledBatch>,
    /// Matches that were read, and how many of them were gathered.
    current: Option<(RecordBatch, usize)>,
}

impl HopRows {
    /// Reads a chunk, unless it has no match; `None` after the last.
    pub(crate) fn chunk(&self, number: usize, call: &Call) -> Result<Option<ChunkReader<'_>>> {
        let Some(chunk) = self.level.chunks.get(number) else { return Ok(None) };
        let waiting = self.matches.of_chunk(number);
        let chunk = match waiting {
            [] => LoadedChunk::default(),
            _ => chunk.load(call)?,
        };
        let columns = self.level.fields.len();
        Ok(Some(ChunkReader { columns, chunk, waiting: waiting.iter(), current: None }))
    }
}

impl ChunkReader<'_> {
    /// The next matches; `None` at the end.
    pub(crate) fn next(&mut self, call: &Call) -> Result<Option<Gathered>> {
        call.check()?;
        let (batch, start) = match self.current.take() {
            Some(current) => current,
            None => match self.read()? {
                Some(batch) => (batch, 0),
                None => return Ok(None),
            },
        };
        let end = batch.num_rows().min(start + GATHERED_ROWS);
        let part = batch.slice(start, end - start);
        self.current = (end < batch.num_rows()).then_some((batch, end));
        let [rows, answers, dates] = part.columns() else { return Err(other_form()) };
        let Some(numbers) = rows.as_primitive_opt::<UInt32Type>() else { return Err(other_form()) };
        let places: Vec<(usize, usize)> =
            numbers.values().iter().map(|row| self.chunk.place_of(*row)).collect();
        let carried = (0..self.columns)
            .map(|column| pick_rows(&self.chunk.batches, column, &places))
            .collect::<Result<_>>()?;
        let [rows, answers, dates] = [rows, answers, dates].map(Arc::clone);
        Ok(Some(Gathered { rows, answers, dates, carried }))
    }

    /// Reads spilled batches, together if they are small.
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let (mut batches, mut rows) = (Vec::new(), 0);
        while rows < GATHERED_ROWS
            && let Some(batch) = self.waiting.next()
        {
            rows += batch.rows();
            batches.push(batch.read()?);
        }
        let Some(first) = batches.first() else { return Ok(None) };
        concat_batches(first.schema_ref(), &batches).map(Some).map_err(failed)
    }
}

fn other_form() -> Error {
    Error::new(ErrorKind::Corrupt, "a match sent rows of another form; match again")
}
