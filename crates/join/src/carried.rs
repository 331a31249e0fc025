//! The carried columns of the population rows of a hop, spilled in chunks of consecutive rows.
//!
//! Must not know the use of the rows. Invariant: the chunks of a level are ascending, and together have each
//! row of the level once.

use crate::columns::{as_text, batch_of, check_names, failed, plain};
use crate::limits::{BATCH_ROWS, CHUNK_BYTES, CHUNK_ROWS, MEMORY_BYTES};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_select::concat::concat_batches;
use idmatch_store::{
    BatchSource, Call, Error, ErrorKind, Result, SourceBatch, SpilledBatch, SpilledBatches, Stage,
    Timings, population_ids,
};
use std::sync::Arc;

/// The carried columns of the population rows of a hop.
pub(crate) struct Level {
    /// The carried columns, in the order in which each batch has them.
    pub(crate) fields: Vec<FieldRef>,
    pub(crate) chunks: Vec<Chunk>,
}

/// Consecutive rows.
pub(crate) struct Chunk {
    pub(crate) first_row: u32,
    pub(crate) rows: usize,
    batches: Vec<SpilledBatch>,
}

/// A chunk in memory.
#[derive(Default)]
pub(crate) struct LoadedChunk {
    first_row: u32,
    pub(crate) batches: Vec<RecordBatch>,
    /// For each batch, the number of its first row in the chunk.
    starts: Vec<usize>,
}

impl Level {
    /// The chunk of a row.
    pub(crate) fn chunk_of(&self, row: u32) -> usize {
        self.chunks.partition_point(|chunk| chunk.first_row <= row).saturating_sub(1)
    }
}

impl Chunk {
    /// The batches of the chunk, in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch>> {
        self.batches.iter().map(SpilledBatch::read)
    }

    /// The whole chunk.
    pub(crate) fn load(&self, call: &Call) -> Result<LoadedChunk> {
        let mut loaded = LoadedChunk { first_row: self.first_row, ..LoadedChunk::default() };
        let mut rows = 0;
        for batch in self.batches() {
            call.check()?;
            let batch = batch?;
            loaded.starts.push(rows);
            rows += batch.num_rows();
            loaded.batches.push(batch);
        }
        Ok(loaded)
    }
}

impl LoadedChunk {
    /// The place of a row of the chunk: the number of its batch, and its number in the batch.
    pub(crate) fn place_of(&self, row: u32) -> (usize, usize) {
        let row = row.wrapping_sub(self.first_row) as usize;
        let batch = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
        (batch, row - self.starts.get(batch).copied().unwrap_or_default())
    }
}

/// A source that passes the identifiers of a population on to a match, and spills the columns beside them.
pub(crate) struct Tee<'a> {
    source: &'a mut dyn BatchSource,
    /// Set for the first hop, whose identifiers are carried, too: the fields of the result that are not
    /// carried.
    own: Option<Vec<FieldRef>>,
    timings: Arc<Timings>,
    spilled: SpilledBatches,
    level: Level,
    /// Small batches, until they are spilled.
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    chunk: Chunk,
    chunk_bytes: usize,
}

impl<'a> Tee<'a> {
    /// Reads a source whose first column has the identifiers. `own` is set for the first hop: the fields of
    /// the result that are not carried.
    pub(crate) fn new(
        source: &'a mut dyn BatchSource,
        own: Option<Vec<FieldRef>>,
        timings: Arc<Timings>,
    ) -> Tee<'a> {
        Tee {
            source,
            own,
            timings,
            spilled: SpilledBatches::new(MEMORY_BYTES),
            level: Level { fields: Vec::new(), chunks: Vec::new() },
            pending: Vec::new(),
            pending_rows: 0,
            chunk: Chunk { first_row: 0, rows: 0, batches: Vec::new() },
            chunk_bytes: 0,
        }
    }

    /// Spills the remaining rows, and returns the level.
    pub(crate) fn finish(mut self) -> Result<Level> {
        self.spill()?;
        self.end_chunk();
        if self.level.fields.is_empty() && self.own.is_some() {
            // The source has no batch.
            self.level.fields.push(identifier());
        }
        Ok(self.level)
    }

    fn keep(&mut self, source: &str, batch: RecordBatch) -> Result<()> {
        let fields = batch.schema_ref().fields();
        if self.level.fields.is_empty() {
            self.level.fields = fields.iter().map(nullable).collect();
            if let Some(own) = &self.own {
                check_names(own, self.level.fields.get(1..).unwrap_or_default())?;
            }
        }
        let columns = self.level.fields.len();
        if fields.len() != columns {
            let text = format!("{source} has {} columns to carry, others {columns}", fields.len());
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        for (expected, found) in self.level.fields.iter().zip(fields) {
            let (expected, found) = ((expected.name(), expected.data_type()), found);
            if expected != (found.name(), found.data_type()) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "column {:?} of {source} is {}, and {:?} of the sources before it is {}; write them \
                         alike, or match them one by one",
                        found.name(),
                        found.data_type(),
                        expected.0,
                        expected.1
                    ),
                ));
            }
        }
        self.pending_rows += batch.num_rows();
        self.pending.push(batch);
        if self.pending_rows >= BATCH_ROWS { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_rows = 0;
        let schema = Arc::new(Schema::new(self.level.fields.clone()));
        let batch = concat_batches(&schema, &pending).map_err(failed)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.chunk_bytes += batch.get_array_memory_size();
        self.chunk.rows += batch.num_rows();
        self.chunk.batches.push(self.spilled.push(&batch)?);
        if self.chunk.rows >= CHUNK_ROWS || self.chunk_bytes >= CHUNK_BYTES {
            self.end_chunk();
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        // Lossless: a positional match has fewer rows.
        let next = self.chunk.first_row + self.chunk.rows as u32;
        let empty = Chunk { first_row: next, rows: 0, batches: Vec::new() };
        let chunk = std::mem::replace(&mut self.chunk, empty);
        self.chunk_bytes = 0;
        if chunk.rows > 0 {
            self.level.chunks.push(chunk);
        }
    }
}

impl BatchSource for Tee<'_> {
    /// # Errors
    /// The errors of the source; `InvalidArgument` for batches whose carried columns differ, and for columns
    /// of identifiers that cannot hold any.
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let timings = Arc::clone(&self.timings);
        let next = {
            let stage = if self.own.is_some() { Stage::Population } else { Stage::Carrying };
            let _span = timings.span(stage);
            self.source.next_batch()?
        };
        let Some(SourceBatch { source, first_row, batch }) = next else { return Ok(None) };
        let _span = timings.span(Stage::Carrying);
        let mut columns = batch.schema_ref().fields().iter().zip(batch.columns());
        let Some((field, ids)) = columns.next() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "a population has no column"));
        };
        let given = Arc::clone(ids);
        let ids = batch_of(vec![Arc::clone(field)], vec![Arc::clone(ids)])?;
        let ids = SourceBatch { source: Arc::clone(&source), first_row, batch: ids };
        let ids = population_ids(&ids)?;
        let mut carried: Vec<(FieldRef, ArrayRef)> = Vec::new();
        if self.own.is_some() {
            let is_text = given.data_type() == &DataType::Utf8;
            carried.push((identifier(), if is_text { given } else { as_text(&ids)? }));
        }
        for column in columns {
            carried.push(plain(column)?);
        }
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = carried.into_iter().unzip();
        self.keep(&source, batch_of(fields, arrays)?)?;
        let field = Field::new(field.name(), DataType::BinaryView, true);
        let batch = batch_of(vec![Arc::new(field)], vec![Arc::new(ids)])?;
        Ok(Some(SourceBatch { source, first_row, batch }))
    }
}

fn identifier() -> FieldRef {
    Arc::new(Field::new("identifier", DataType::Utf8, true))
}

fn nullable(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_nullable(true))
}
