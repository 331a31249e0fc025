//! A stream of rows with the types that its reader requests, and casts that lose no value.
//!
//! Must not know where rows come from. Invariant: no value is replaced by null. A value that does not fit
//! into the requested type ends the stream with an error, which does not show it.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, Field, SchemaRef};
use idmatch_store::{Error, ErrorKind, Result};

const EXACT: CastOptions<'_> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// The values in the type of a field. Fails if a value does not fit into it; the error does not show the
/// value.
pub(crate) fn cast_exactly(
    values: &ArrayRef,
    field: &Field,
) -> std::result::Result<ArrayRef, ArrowError> {
    let unfit = || {
        let (name, kind) = (field.name(), field.data_type());
        ArrowError::CastError(format!("a value of column {name} does not fit the type {kind}"))
    };
    let kind = values.data_type();
    let cast = cast_with_options(values, field.data_type(), &EXACT).map_err(|_| unfit())?;
    // A cast cuts the parts that the type cannot hold: milliseconds, decimals. Floats are rounded as
    // everywhere.
    let is_rounded = kind.is_floating() && field.data_type().is_floating();
    let may_be_cut = (kind.is_numeric() || kind.is_temporal())
        && !is_rounded
        && can_cast_types(cast.data_type(), kind);
    if may_be_cut {
        let back = cast_with_options(&cast, kind, &EXACT).map_err(|_| unfit())?;
        if back.as_ref() != values.as_ref() {
            return Err(unfit());
        }
    }
    Ok(cast)
}

/// A stream whose batches are converted to a schema.
pub(crate) struct Requested<R> {
    rows: R,
    schema: SchemaRef,
    has_failed: bool,
}

impl<R: RecordBatchReader> Requested<R> {
    /// Fails with `InvalidArgument` where the columns have other names or another order, or a type cannot be
    /// converted.
    pub(crate) fn new(rows: R, schema: SchemaRef) -> Result<Requested<R>> {
        let ours = rows.schema();
        let pairs = ours.fields().iter().zip(schema.fields());
        let fits = |(from, to): (&arrow_schema::FieldRef, &arrow_schema::FieldRef)| {
            from.name() == to.name() && can_cast_types(from.data_type(), to.data_type())
        };
        if ours.fields().len() != schema.fields().len() || !pairs.into_iter().all(fits) {
            let columns: Vec<String> = ours
                .fields()
                .iter()
                .map(|field| format!("{} ({})", field.name(), field.data_type()))
                .collect();
            let text = format!(
                "the rows do not fit the requested schema; their columns: {}",
                columns.join(", ")
            );
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        Ok(Requested { rows, schema, has_failed: false })
    }

    fn convert(&self, batch: &RecordBatch) -> std::result::Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(values, field)| cast_exactly(values, field));
        let columns = columns.collect::<std::result::Result<_, _>>()?;
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}

impl<R: RecordBatchReader> Iterator for Requested<R> {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let batch = self.rows.next()?.and_then(|batch| self.convert(&batch));
        self.has_failed = batch.is_err();
        Some(batch)
    }
}

impl<R: RecordBatchReader> RecordBatchReader for Requested<R> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
