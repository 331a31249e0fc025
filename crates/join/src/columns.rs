//! The columns of a result, and Arrow work on them.

use crate::hop::{Hop, JoinOptions};
use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch, StringArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use arrow_select::interleave::interleave;
use idmatch_model::Side;
use idmatch_store::{Error, ErrorKind, Result, match_schema};
use std::collections::HashSet;
use std::sync::Arc;

/// The fields that a hop adds: its answers and their dates.
pub(crate) fn answer_fields(by: Side) -> [FieldRef; 2] {
    let schema = match_schema(by);
    [1, 2].map(|at| Arc::new(schema.field(at).clone()))
}

/// The fields of a result before the carried columns: the population's side, the hops between if they are
/// wanted, the last hop's answer and date.
pub(crate) fn own_fields(hops: &[Hop], options: JoinOptions) -> Result<Vec<FieldRef>> {
    let is_left = options.keep_unmatched;
    let nullable = |field: &FieldRef, name: &str| {
        Arc::new(field.as_ref().clone().with_name(name).with_nullable(is_left))
    };
    let text = Field::new("", DataType::Utf8, false);
    let (Some(first), Some(last)) = (hops.first(), hops.last()) else {
        return Err(Error::new(ErrorKind::InvalidArgument, "a match names no table; name one"));
    };
    let first_name = first.by.column();
    let mut fields = vec![nullable(&Arc::new(text), first_name)];
    if options.with_hops {
        for (number, hop) in (1..hops.len()).zip(hops) {
            let [answer, date] = answer_fields(hop.by);
            fields.push(nullable(&answer, &format!("hop_{number}_{}", answer.name())));
            fields.push(nullable(&date, &format!("hop_{number}_{}", date.name())));
        }
    }
    let [answer, date] = answer_fields(last.by);
    let is_taken = answer.name() == first_name;
    let name = if is_taken { format!("{}_2", answer.name()) } else { answer.name().clone() };
    fields.push(nullable(&answer, &name));
    fields.push(nullable(&date, date.name()));
    Ok(fields)
}

/// Checks that no carried column has the name of a column of the result, or of another carried column.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_names(ours: &[FieldRef], carried: &[FieldRef]) -> Result<()> {
    let mut names: HashSet<&str> = ours.iter().map(|field| field.name().as_str()).collect();
    for field in carried {
        let name = field.name();
        if !names.insert(name) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "the result has a column {name:?} of its own; carry the population's under another \
                     name: \"{name} as NAME\""
                ),
            ));
        }
    }
    Ok(())
}

/// The identifiers of a population as a column of text. U+FFFD replaces bytes that are not UTF-8.
///
/// # Errors
/// `InvalidArgument` if the text could have more than 2 GiB.
pub(crate) fn as_text(ids: &BinaryViewArray) -> Result<ArrayRef> {
    let bytes: usize = ids.iter().flatten().map(<[u8]>::len).sum();
    // A replacement has three bytes.
    if bytes.saturating_mul(3) > i32::MAX as usize {
        return Err(too_long());
    }
    let text = |bytes| String::from_utf8_lossy(bytes);
    Ok(Arc::new(StringArray::from_iter(ids.iter().map(|id| id.map(text)))))
}

fn too_long() -> Error {
    let text = "identifiers of a batch have more than 700 MB; a population of such values cannot be carried";
    Error::new(ErrorKind::InvalidArgument, text)
}

/// A column in a form that is stored row by row: dictionaries and views as their values.
pub(crate) fn plain((field, array): (&FieldRef, &ArrayRef)) -> Result<(FieldRef, ArrayRef)> {
    let to = match array.data_type() {
        DataType::Dictionary(_, values) => match values.as_ref() {
            DataType::Utf8View => DataType::LargeUtf8,
            values => values.clone(),
        },
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        _ => return Ok((Arc::clone(field), Arc::clone(array))),
    };
    let array = cast(array, &to).map_err(|e| {
        let text = format!("cannot carry column {:?}", field.name());
        Error::with_source(ErrorKind::Source, text, e)
    })?;
    Ok((Arc::new(field.as_ref().clone().with_data_type(to)), array))
}

/// A column of some batches, row by row in the order of `rows`: the number of a batch, and of a row in it.
pub(crate) fn pick_rows(
    batches: &[RecordBatch],
    column: usize,
    rows: &[(usize, usize)],
) -> Result<ArrayRef> {
    let values: Vec<&dyn Array> =
        batches.iter().filter_map(|batch| Some(batch.columns().get(column)?.as_ref())).collect();
    interleave(&values, rows).map_err(failed)
}

/// A batch of these columns.
pub(crate) fn batch_of(fields: impl Into<Fields>, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(failed)
}

/// The error of Arrow work on rows that were read already.
pub(crate) fn failed(e: ArrowError) -> Error {
    Error::with_source(ErrorKind::InvalidArgument, "cannot put rows of a match together", e)
}
