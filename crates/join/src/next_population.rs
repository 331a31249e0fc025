//! The rows of a hop as the population of the next one.
//!
//! Columns: the answers as identifiers; the numbers of their rows in the first population; the carried
//! columns; if wanted, the hop's answers and dates. Must not know tables.

use crate::columns::{answer_fields, batch_of};
use crate::gather::{ChunkReader, Gathered, HopRows};
use arrow_array::{RecordBatch, new_empty_array};
use arrow_schema::{DataType, Field, FieldRef};
use idmatch_store::{BatchSource, Call, Result, SourceBatch};
use std::sync::Arc;

/// Reads the rows of a hop, chunk by chunk.
pub(crate) struct NextPopulation<'a> {
    hop: &'a HopRows,
    /// Whether it is the first hop. The rows of later hops already have the number of their row in the first
    /// population.
    is_first_hop: bool,
    with_hops: bool,
    call: &'a Call,
    source: Arc<str>,
    fields: Vec<FieldRef>,
    chunk: usize,
    reader: Option<ChunkReader<'a>>,
    next_row: u64,
}

impl<'a> NextPopulation<'a> {
    /// The rows of the hop with this number, counted from 1.
    pub(crate) fn new(
        hop: &'a HopRows,
        number: usize,
        with_hops: bool,
        call: &'a Call,
    ) -> NextPopulation<'a> {
        let is_first_hop = number == 1;
        let [answer, date] = answer_fields(hop.by);
        let mut fields = vec![Arc::clone(&answer)];
        if is_first_hop {
            fields.push(Arc::new(Field::new("population row", DataType::UInt32, false)));
        }
        fields.extend(hop.level.fields.iter().cloned());
        if with_hops {
            fields.extend([answer, date]);
        }
        NextPopulation {
            hop,
            is_first_hop,
            with_hops,
            call,
            source: format!("hop {number}").into(),
            fields,
            chunk: 0,
            reader: None,
            next_row: 1,
        }
    }

    fn batch(&self, gathered: Gathered) -> Result<RecordBatch> {
        let Gathered { rows, answers, dates, carried } = gathered;
        let mut columns = vec![Arc::clone(&answers)];
        if self.is_first_hop {
            columns.push(rows);
        }
        columns.extend(carried);
        if self.with_hops {
            columns.extend([answers, dates]);
        }
        batch_of(self.fields.clone(), columns)
    }

    /// A batch without rows, which tells the columns.
    fn no_rows(&self) -> Result<RecordBatch> {
        let columns = self.fields.iter().map(|field| new_empty_array(field.data_type()));
        batch_of(self.fields.clone(), columns.collect())
    }
}

impl BatchSource for NextPopulation<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let batch = loop {
            let Some(reader) = &mut self.reader else {
                self.reader = self.hop.chunk(self.chunk, self.call)?;
                self.chunk += 1;
                match self.reader {
                    Some(_) => continue,
                    None if self.next_row > 1 => return Ok(None),
                    None => break self.no_rows()?,
                }
            };
            match reader.next(self.call)? {
                Some(gathered) => break self.batch(gathered)?,
                None => self.reader = None,
            }
        };
        let first_row = self.next_row;
        // A batch without rows counts as one row, so that it is given only once.
        self.next_row += batch.num_rows().max(1) as u64;
        Ok(Some(SourceBatch { source: Arc::clone(&self.source), first_row, batch }))
    }
}
