//! ID columns: every type that can hold identifiers, read as bytes.

use super::{SourceBatch, Wrong};
use crate::{Error, ErrorKind, Result};
use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray};
use arrow_schema::{DataType, Field};
use idmatch_model::check_id;

/// A column of checked identifiers: no nulls, each non-empty UTF-8 of bounded length.
#[derive(Debug, Clone)]
pub struct IdColumn(BinaryViewArray);

impl IdColumn {
    pub(super) fn trusted(array: BinaryViewArray) -> IdColumn {
        IdColumn(array)
    }

    pub(super) fn filtered(array: &BinaryViewArray, good: &BooleanArray) -> Result<IdColumn> {
        let kept = arrow_select::filter::filter(array, good)
            .map_err(|e| Error::with_source(ErrorKind::Source, "cannot filter a batch", e))?;
        Ok(IdColumn(kept.as_binary_view().clone()))
    }

    /// The identifiers' bytes, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        // There are no nulls, so a missing value cannot occur; empty bytes would be harmless.
        (&self.0).into_iter().map(Option::unwrap_or_default)
    }
}

/// The bytes of a population's ID column, which may hold anything: what is no identifier
/// (null, empty, too long) simply matches nothing.
pub fn population_ids(source: &SourceBatch) -> Result<BinaryViewArray> {
    match (source.batch.schema_ref().fields().first(), source.batch.columns()) {
        (Some(field), [array]) => bytes_of((field, array), field.name()),
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "a population has one ID column, {} has {}",
                source.source,
                source.batch.num_columns()
            ),
        )),
    }
}

/// Reads a column as bytes; integers in canonical decimal, UUIDs in canonical text.
pub(super) fn bytes_of(
    (field, array): (&Field, &ArrayRef),
    name: &str,
) -> Result<BinaryViewArray> {
    use DataType::*;
    let read = |to: &DataType| {
        arrow_cast::cast(array, to).map_err(|e| {
            Error::with_source(ErrorKind::Source, format!("cannot read column {name:?}"), e)
        })
    };
    let as_text = || Ok(read(&Utf8View)?.as_string_view().clone().to_binary_view());
    let is_uuid = field.metadata().get("ARROW:extension:name").is_some_and(|n| n == "arrow.uuid");
    match array.data_type() {
        FixedSizeBinary(16) if is_uuid => Ok(uuids_as_text(array)),
        BinaryView => Ok(array.as_binary_view().clone()),
        Utf8View => Ok(array.as_string_view().clone().to_binary_view()),
        // Through the bytes: a cast from text to text would check UTF-8 and fail as a whole.
        Utf8 | LargeUtf8 => {
            let bytes = if *array.data_type() == Utf8 { Binary } else { LargeBinary };
            let array = read(&bytes)?;
            cast_bytes(&array, name)
        }
        Binary | LargeBinary | FixedSizeBinary(_) => cast_bytes(array, name),
        Dictionary(_, values) if is_readable(values) => {
            let plain = read(values)?;
            let field = Field::new(name, values.as_ref().clone(), true);
            bytes_of((&field, &plain), name)
        }
        other if other.is_integer() => as_text(),
        other => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "column {name:?} has type {other}, which cannot hold identifiers; \
                 use text, binary, integers, UUIDs or a dictionary of these"
            ),
        )),
    }
}

fn is_readable(values: &DataType) -> bool {
    use DataType::*;
    values.is_integer()
        || matches!(values, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

fn cast_bytes(array: &ArrayRef, name: &str) -> Result<BinaryViewArray> {
    let views = arrow_cast::cast(array, &DataType::BinaryView).map_err(|e| {
        Error::with_source(ErrorKind::Source, format!("cannot read column {name:?}"), e)
    })?;
    Ok(views.as_binary_view().clone())
}

fn uuids_as_text(array: &ArrayRef) -> BinaryViewArray {
    let mut text = BinaryViewBuilder::with_capacity(array.len());
    for uuid in array.as_fixed_size_binary() {
        text.append_option(uuid.map(|bytes| {
            let mut shown = String::with_capacity(36);
            for (at, byte) in bytes.iter().enumerate() {
                if matches!(at, 4 | 6 | 8 | 10) {
                    shown.push('-');
                }
                shown.push_str(&format!("{byte:02x}"));
            }
            shown
        }));
    }
    text.finish()
}

/// Notes every row that is no identifier.
pub(super) fn check(array: &BinaryViewArray, column: &'static str, wrong: &mut Wrong) {
    for (row, value) in array.into_iter().enumerate() {
        match value {
            Some(bytes) => {
                if let Err(e) = check_id(bytes) {
                    wrong.add(row, column, e);
                }
            }
            None => wrong.add(row, column, "is missing"),
        }
    }
}
