//! ID columns: every type that can hold identifiers, read as bytes.

use super::rejects::BadRows;
use super::source::SourceBatch;
use crate::{Error, ErrorKind, Result};
use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray};
use arrow_schema::{DataType, Field};
use idmatch_model::{MAX_ID_BYTES, check_id};
use uuid::Uuid;

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

/// The bytes of a population's ID column. It may have values that are no identifier (null, empty, too long),
/// which match nothing.
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

/// Reads a column as bytes; integers in canonical decimal, UUIDs in canonical text, other fixed-size binary
/// as lowercase hex.
pub(super) fn bytes_of((field, array): (&Field, &ArrayRef), name: &str) -> Result<BinaryViewArray> {
    use DataType::*;
    match array.data_type() {
        FixedSizeBinary(16) if is_uuid(field) => Ok(uuids_as_text(array)),
        BinaryView => Ok(array.as_binary_view().clone()),
        Utf8View => Ok(array.as_string_view().clone().to_binary_view()),
        // Through the bytes: a cast from text to text would check UTF-8 and fail as a whole.
        Utf8 => bytes_of((field, &cast(array, &Binary, name)?), name),
        LargeUtf8 => bytes_of((field, &cast(array, &LargeBinary, name)?), name),
        FixedSizeBinary(width) => hex(array, *width, name),
        Binary | LargeBinary | Null => Ok(cast(array, &BinaryView, name)?.as_binary_view().clone()),
        Dictionary(_, values) => bytes_of((field, &cast(array, values, name)?), name),
        other if other.is_integer() => bytes_of((field, &cast(array, &Utf8View, name)?), name),
        other => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "column {name:?} has type {other}, which cannot hold identifiers; \
                 use text, binary, integers, UUIDs or a dictionary of these"
            ),
        )),
    }
}

/// Casts a column to a type that holds all of its values.
pub(super) fn cast(array: &ArrayRef, to: &DataType, name: &str) -> Result<ArrayRef> {
    arrow_cast::cast(array, to).map_err(|e| {
        Error::with_source(ErrorKind::Source, format!("cannot read column {name:?}"), e)
    })
}

fn is_uuid(field: &Field) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.uuid")
}

fn uuids_as_text(array: &ArrayRef) -> BinaryViewArray {
    let mut texts = BinaryViewBuilder::with_capacity(array.len());
    let mut text = Uuid::encode_buffer();
    for bytes in array.as_fixed_size_binary() {
        let uuid = bytes.and_then(|bytes| Uuid::from_slice(bytes).ok());
        texts.append_option(uuid.map(|uuid| uuid.hyphenated().encode_lower(&mut text)));
    }
    texts.finish()
}

/// Lowercase hex of values of `width` bytes each. Cost: no allocation per row.
fn hex(array: &ArrayRef, width: i32, name: &str) -> Result<BinaryViewArray> {
    let mut text = [0; MAX_ID_BYTES];
    let digits = usize::try_from(width).unwrap_or(0).saturating_mul(2);
    let Some(text) = text.get_mut(..digits).filter(|text| !text.is_empty()) else {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "column {name:?} has values of {width} bytes; fixed-size binary is read as hex, and \
                 an identifier has 1 to {} bytes there; use hashes that fit, or text",
                MAX_ID_BYTES / 2
            ),
        ));
    };
    let mut texts = BinaryViewBuilder::with_capacity(array.len());
    for bytes in array.as_fixed_size_binary() {
        // The only error is a buffer that is too small.
        let digits = bytes.and_then(|bytes| faster_hex::hex_encode(bytes, text).ok());
        texts.append_option(digits);
    }
    Ok(texts.finish())
}

/// Notes every row that is no identifier.
pub(super) fn check(array: &BinaryViewArray, column: &'static str, wrong: &mut BadRows) {
    for (row, value) in array.into_iter().enumerate() {
        match value {
            Some(bytes) => check_value(bytes, row, column, wrong),
            None => wrong.add(row, column, "is missing"),
        }
    }
}

/// Notes a row whose value is no identifier.
pub(super) fn check_value(bytes: &[u8], row: usize, column: &'static str, wrong: &mut BadRows) {
    if let Err(e) = check_id(bytes) {
        wrong.add(row, column, e);
    }
}
