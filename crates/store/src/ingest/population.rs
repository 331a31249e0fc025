//! Checks a population as it passes: one with malformed rows and no identifier is an error at its
//! end. A positional match never fails so, because each row has a state. Must not know any backend.

use super::ids::population_ids;
use super::source::{BatchSource, SourceBatch};
use crate::{Error, ErrorFields, ErrorKind, MatchQuery, Result};
use idmatch_model::check_id;
use std::sync::Arc;

/// Rows that are looked at together: most populations have an identifier among their first rows.
const LOOK_ROWS: usize = 64;

/// Passes a population on. Its end is an error if it has malformed rows and no identifier. A positional match
/// tells each row's reason instead, so it gets no such error.
///
/// Cost: rows are looked at up to the first identifier.
pub struct JudgedPopulation<'a> {
    source: &'a mut dyn BatchSource,
    query: MatchQuery,
    /// The bad rows so far; `None` once nothing is left to judge.
    faults: Option<Faults>,
}

/// Rows without an identifier.
#[derive(Default)]
struct Faults {
    nulls: u64,
    malformed: u64,
    /// The first malformed row: its source, its number in the source from 1, and the reason.
    first: Option<(Arc<str>, u64, String)>,
}

impl<'a> JudgedPopulation<'a> {
    /// The population of a match.
    pub fn new(source: &'a mut dyn BatchSource, query: MatchQuery) -> JudgedPopulation<'a> {
        let faults = (!query.positions).then(Faults::default);
        JudgedPopulation { source, query, faults }
    }
}

impl BatchSource for JudgedPopulation<'_> {
    /// # Errors
    /// The errors of the source; at its end `BadInput` with the first malformed row, if there is one and no
    /// row is an identifier; `InvalidArgument` for a column that cannot hold identifiers.
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let next = self.source.next_batch()?;
        if let Some(faults) = &mut self.faults {
            match &next {
                Some(batch) if faults.find_identifier(batch)? => self.faults = None,
                Some(_) => {}
                None => faults.check(self.query)?,
            }
        }
        Ok(next)
    }
}

impl Faults {
    /// Adds the faults of a batch; returns whether the batch has an identifier.
    fn find_identifier(&mut self, source: &SourceBatch) -> Result<bool> {
        let rows = source.batch.num_rows();
        for start in (0..rows).step_by(LOOK_ROWS) {
            let first_row = source.first_row + start as u64;
            let batch = source.batch.slice(start, LOOK_ROWS.min(rows - start));
            let some = SourceBatch { source: source.source.clone(), first_row, batch };
            for (row, id) in (first_row..).zip(&population_ids(&some)?) {
                match id.map(check_id) {
                    Some(Ok(_)) => return Ok(true),
                    Some(Err(reason)) => {
                        self.malformed += 1;
                        self.first.get_or_insert_with(|| {
                            (source.source.clone(), row, reason.to_string())
                        });
                    }
                    None => self.nulls += 1,
                }
            }
        }
        Ok(false)
    }

    fn check(&self, query: MatchQuery) -> Result<()> {
        let Some((source, row, reason)) = &self.first else { return Ok(()) };
        let (malformed, nulls, column) = (self.malformed, self.nulls, query.by.column());
        let text = format!(
            "no row of the population is an identifier: {malformed} malformed, {nulls} null; \
             {source}, row {row}: {column} {reason}; name the column of identifiers, or convert it to text"
        );
        Err(Error::new(ErrorKind::BadInput, text).with_fields(ErrorFields::BadInput {
            source: source.to_string(),
            row: *row,
            column: column.to_owned(),
            reason: reason.clone(),
        }))
    }
}
