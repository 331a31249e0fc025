//! The targets of an erasure, from batches with the column `id`, `partner_id`, or both.

use super::ids::{bytes_of, check_value};
use super::judge::Ingest;
use super::rejects::BadRows;
use super::source::{BatchSource, SourceBatch, column};
use crate::Result;
use arrow_array::{Array, BinaryViewArray};
use idmatch_model::{SeenAt, Target, check_id};

impl Ingest<'_> {
    /// The targets of an erasure up to `at`: the good rows of a source. A row with both columns erases a
    /// pair. Where one of its two columns is null, it erases an identifier. Memory: all targets.
    ///
    /// # Errors
    /// As for [`Ingest::observations`]; `InvalidArgument` also where neither column is there, and for a
    /// date more than a day ahead.
    pub fn targets(&self, source: &mut dyn BatchSource, at: SeenAt) -> Result<Vec<Target>> {
        self.check_date(at)?;
        let mut targets = Vec::new();
        while let Some(batch) = source.next_batch()? {
            self.add_targets(&batch, &mut targets)?;
        }
        Ok(targets)
    }

    fn add_targets(&self, source: &SourceBatch, targets: &mut Vec<Target>) -> Result<()> {
        let schema = source.batch.schema_ref();
        let read = |name: &str| column(source, name).and_then(|found| bytes_of(found, name));
        let has = |name: &str| schema.index_of(name).is_ok();
        let ids = if has("id") || !has("partner_id") { Some(read("id")?) } else { None };
        let partner_ids = has("partner_id").then(|| read("partner_id")).transpose()?;
        let mut wrong = BadRows::default();
        for row in 0..source.batch.num_rows() {
            let mut text = |array: &Option<BinaryViewArray>, column| {
                let array = array.as_ref().filter(|array| array.is_valid(row))?;
                check_value(array.value(row), row, column, &mut wrong);
                check_id(array.value(row)).ok().map(str::to_owned)
            };
            match (text(&ids, "id"), text(&partner_ids, "partner_id")) {
                (Some(id), Some(partner_id)) => targets.push(Target::Pair { id, partner_id }),
                // A bad value is not taken as null: its row would erase more than the caller meant.
                _ if wrong.rows.contains_key(&row) => {}
                (Some(id), None) => targets.push(Target::Id(id)),
                (None, Some(partner_id)) => targets.push(Target::PartnerId(partner_id)),
                (None, None) => wrong.add(row, "id", "is missing, and there is no partner_id"),
            }
        }
        self.count(source.batch.num_rows());
        if !wrong.rows.is_empty() {
            self.report(source, wrong)?;
        }
        Ok(())
    }
}
