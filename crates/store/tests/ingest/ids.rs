//! ID columns: every type that can hold identifiers.

use super::{Outcome, columns, field, ingest, partner_ids, some_dates, source_of, texts};
use arrow_array::types::{Int32Type, UInt8Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray,
    FixedSizeBinaryArray, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, NullArray, StringArray, StringViewArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use idmatch_store::{ErrorKind, SourceBatch, population_ids};
use std::collections::HashMap;
use std::sync::Arc;

const LONG: &str = "longer than the twelve bytes that a view holds in place";
const UUID_BYTES: [u8; 16] = [
    0x55, 0x0e, 0x84, 0x00, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44, 0x00, 0x0f,
];
const UUID_TEXT: &str = "550e8400-e29b-41d4-a716-44665544000f";

/// The outcome of a load with this `id` column.
fn load(ids: ArrayRef) -> Outcome {
    let rows = ids.len();
    ingest(&columns(ids, partner_ids(rows), some_dates(rows))).unwrap()
}

fn ids_taken(ids: ArrayRef) -> Vec<String> {
    load(ids).rows.into_iter().map(|(id, _, _)| id).collect()
}

/// Row and reason of each rejected row.
fn ids_rejected(ids: ArrayRef) -> Vec<(u64, String)> {
    load(ids).rejects.into_iter().map(|(row, _, reason)| (row, reason)).collect()
}

/// A population of one column.
fn population(ids: ArrayRef) -> SourceBatch {
    source_of(vec![(field("cookie", &ids), ids)])
}

fn uuid_field(name: &str, array: &ArrayRef) -> Field {
    let extension = ("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned());
    field(name, array).with_metadata(HashMap::from([extension]))
}

fn dictionary(keys: Vec<Option<i32>>, values: ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(keys), values))
}

/// Text columns of every type with these bytes in them, whether they are UTF-8 or not.
fn text_columns_unchecked(values: &[&[u8]]) -> Vec<ArrayRef> {
    let bytes = BinaryArray::from_iter_values(values);
    let data = bytes.value_data().to_vec();
    let offsets = OffsetBuffer::from_lengths(values.iter().map(|value| value.len()));
    let large_offsets = OffsetBuffer::from_lengths(values.iter().map(|value| value.len()));
    let views = BinaryViewArray::from_iter_values(values);
    // SAFETY: nothing here reads the values as text; that ingest must not do so either is
    // what the tests are about.
    unsafe {
        let text = StringArray::new_unchecked(offsets, data.clone().into(), None);
        let large = LargeStringArray::new_unchecked(large_offsets, data.into(), None);
        let keys = ScalarBuffer::from_iter(0..values.len() as i32);
        let keys = Int32Array::new(keys, None);
        let in_dictionary = DictionaryArray::<Int32Type>::new(keys, Arc::new(text.clone()));
        let views = views.to_string_view_unchecked();
        vec![Arc::new(text), Arc::new(large), Arc::new(views), Arc::new(in_dictionary)]
    }
}

#[test]
fn text_and_binary_columns_of_every_type() {
    let values = ["a", LONG, "é😀", " ", "\0"];
    let bytes: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
    let columns: [ArrayRef; 6] = [
        Arc::new(StringArray::from_iter_values(values)),
        Arc::new(LargeStringArray::from_iter_values(values)),
        Arc::new(StringViewArray::from_iter_values(values)),
        Arc::new(BinaryArray::from_iter_values(&bytes)),
        Arc::new(LargeBinaryArray::from_iter_values(&bytes)),
        Arc::new(BinaryViewArray::from_iter_values(&bytes)),
    ];
    for column in columns {
        assert_eq!(ids_taken(column.clone()), values, "{}", column.data_type());
        assert_eq!(
            ids_taken(column.slice(1, 3)),
            values[1..4],
            "a slice of {}",
            column.data_type()
        );
    }
}

#[test]
fn missing_values_of_every_type() {
    let columns: [ArrayRef; 8] = [
        Arc::new(StringArray::from(vec![None, Some("a")])),
        Arc::new(LargeStringArray::from(vec![None, Some("a")])),
        Arc::new(StringViewArray::from(vec![None, Some("a")])),
        Arc::new(BinaryArray::from(vec![None, Some("a".as_bytes())])),
        Arc::new(LargeBinaryArray::from(vec![None, Some("a".as_bytes())])),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size([None, Some(b"a")].into_iter(), 1)
                .unwrap(),
        ),
        dictionary(vec![None, Some(0)], texts(&["a"])),
        dictionary(vec![Some(0), Some(1)], Arc::new(StringArray::from(vec![None, Some("a")]))),
    ];
    for column in columns {
        let expected = match column.data_type() {
            DataType::FixedSizeBinary(_) => "61",
            _ => "a",
        };
        assert_eq!(ids_taken(column.clone()), [expected], "{}", column.data_type());
        assert_eq!(ids_rejected(column), [(1, "is missing".to_owned())]);
    }
}

#[test]
fn a_column_without_a_type_has_only_missing_values() {
    let rejected = ids_rejected(Arc::new(NullArray::new(2)));
    assert_eq!(rejected, [(1, "is missing".to_owned()), (2, "is missing".to_owned())]);
    let population = population_ids(&population(Arc::new(NullArray::new(2)))).unwrap();
    assert_eq!((population.len(), population.null_count()), (2, 2));
}

#[test]
fn integers_of_every_type_are_canonical_decimals() {
    fn check(column: impl Array + 'static, expected: &[&str]) {
        let column: ArrayRef = Arc::new(column);
        assert_eq!(ids_taken(column.clone()), expected, "{}", column.data_type());
    }
    check(Int8Array::from(vec![i8::MIN, 0, 7, i8::MAX]), &["-128", "0", "7", "127"]);
    check(Int16Array::from(vec![i16::MIN, 0, i16::MAX]), &["-32768", "0", "32767"]);
    check(Int32Array::from(vec![i32::MIN, -1, i32::MAX]), &["-2147483648", "-1", "2147483647"]);
    let ends = ["-9223372036854775808", "0", "9223372036854775807"];
    check(Int64Array::from(vec![i64::MIN, 0, i64::MAX]), &ends);
    check(UInt8Array::from(vec![0, u8::MAX]), &["0", "255"]);
    check(UInt16Array::from(vec![0, u16::MAX]), &["0", "65535"]);
    check(UInt32Array::from(vec![0, u32::MAX]), &["0", "4294967295"]);
    check(UInt64Array::from(vec![0, u64::MAX]), &["0", "18446744073709551615"]);
    let rejected = ids_rejected(Arc::new(UInt64Array::from(vec![Some(1), None])));
    assert_eq!(rejected, [(2, "is missing".to_owned())]);
}

#[test]
fn dictionaries_of_every_readable_type() {
    let keys = || vec![Some(1), Some(0), Some(1)];
    let of_text = ["b", LONG];
    let values: [ArrayRef; 6] = [
        texts(&of_text),
        Arc::new(LargeStringArray::from_iter_values(of_text)),
        Arc::new(StringViewArray::from_iter_values(of_text)),
        Arc::new(BinaryArray::from_iter_values(of_text)),
        Arc::new(LargeBinaryArray::from_iter_values(of_text)),
        Arc::new(BinaryViewArray::from_iter_values(of_text)),
    ];
    for values in values {
        let kind = values.data_type().clone();
        assert_eq!(
            ids_taken(dictionary(keys(), values)),
            [LONG, "b", LONG],
            "dictionary of {kind}"
        );
    }
    let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![7, u64::MAX]));
    assert_eq!(
        ids_taken(dictionary(keys(), numbers)),
        ["18446744073709551615", "7", "18446744073709551615"]
    );
    let narrow: DictionaryArray<UInt8Type> = ["x", "y", "x"].into_iter().collect();
    assert_eq!(ids_taken(Arc::new(narrow)), ["x", "y", "x"]);
}

#[test]
fn fixed_size_binary_is_lowercase_hex() {
    let values = [Some(b"abc".as_slice()), None, Some(b"\x00\xff\x1d"), Some(b"\xab\xcd\xef")];
    let column: ArrayRef = Arc::new(
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 3).unwrap(),
    );
    assert_eq!(ids_taken(column.clone()), ["616263", "00ff1d", "abcdef"]);
    assert_eq!(ids_taken(column.slice(2, 2)), ["00ff1d", "abcdef"]);
    assert_eq!(ids_rejected(column.clone()), [(2, "is missing".to_owned())]);
    let column = dictionary(vec![Some(3), Some(0), None, Some(3)], column);
    assert_eq!(ids_taken(column), ["abcdef", "616263", "abcdef"]);
}

#[test]
fn fixed_size_binary_has_1_to_512_bytes() {
    let widest = vec![0xa5; 512];
    let column = FixedSizeBinaryArray::try_from_iter([&widest].into_iter()).unwrap();
    assert_eq!(ids_taken(Arc::new(column)), ["a5".repeat(512)]);
    for width in [0, 513] {
        let values = [Some(vec![0; width])];
        let column: ArrayRef = Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), width as i32)
                .unwrap(),
        );
        let error = ingest(&columns(texts(&["a"]), column.clone(), some_dates(1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = format!("column \"partner_id\" has values of {width} bytes");
        assert!(error.to_string().starts_with(&text), "{error}");
        let error = population_ids(&population(column)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn sixteen_bytes_are_a_uuid_only_where_the_field_says_so() {
    let values = [Some(UUID_BYTES.as_slice()), None, Some(&[0; 16]), Some(b"sixteen letters!")];
    let column: ArrayRef = Arc::new(
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 16).unwrap(),
    );
    let uuids = source_of(vec![
        (uuid_field("id", &column), column.clone()),
        (field("partner_id", &partner_ids(4)), partner_ids(4)),
        (field("seen_at", &some_dates(4)), some_dates(4)),
    ]);
    let outcome = ingest(&uuids).unwrap();
    let ids: Vec<&str> = outcome.rows.iter().map(|(id, _, _)| id.as_str()).collect();
    let letters = "73697874-6565-6e20-6c65-747465727321";
    assert_eq!(ids, [UUID_TEXT, "00000000-0000-0000-0000-000000000000", letters]);
    assert_eq!(outcome.rejects, [(2, "id", "is missing".to_owned())]);

    let plain = load(column);
    let ids: Vec<&str> = plain.rows.iter().map(|(id, _, _)| id.as_str()).collect();
    let hex = |text: &str| text.replace('-', "");
    assert_eq!(ids, [hex(UUID_TEXT), "0".repeat(32), hex(letters)]);
    assert_eq!(plain.rejects, [(2, "id", "is missing".to_owned())]);
}

#[test]
fn a_dictionary_of_uuids() {
    let values: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_from_iter([UUID_BYTES].into_iter()).unwrap());
    let column = dictionary(vec![Some(0), None, Some(0)], values);
    let source = source_of(vec![(uuid_field("uuid", &column), column)]);
    let ids = population_ids(&source).unwrap();
    let ids: Vec<Option<&[u8]>> = ids.iter().collect();
    assert_eq!(ids, [Some(UUID_TEXT.as_bytes()), None, Some(UUID_TEXT.as_bytes())]);
}

#[test]
fn bytes_that_are_not_utf8_in_a_text_column_reject_their_row_alone() {
    for column in text_columns_unchecked(&[b"a", b"b\xffc", b"d", b"\xc3", b"e\xed\xa0\x80"]) {
        let kind = column.data_type().clone();
        assert_eq!(ids_taken(column.clone()), ["a", "d"], "{kind}");
        let offsets = [(2, 1), (4, 0), (5, 1)];
        let expected =
            offsets.map(|(row, at)| (row, format!("is not UTF-8 (bad byte at offset {at})")));
        assert_eq!(ids_rejected(column), expected, "{kind}");
    }
}

#[test]
fn bytes_that_are_not_utf8_in_a_population_stay_what_they_are() {
    for column in text_columns_unchecked(&[b"a", b"b\xffc"]) {
        let ids = population_ids(&population(column)).unwrap();
        assert_eq!(ids.iter().collect::<Vec<_>>(), [Some(b"a".as_slice()), Some(b"b\xffc")]);
    }
}

#[test]
fn types_that_cannot_hold_identifiers_are_named() {
    let floats = || Arc::new(Float64Array::from(vec![1.0])) as ArrayRef;
    let unreadable: [ArrayRef; 3] =
        [floats(), Arc::new(BooleanArray::from(vec![true])), dictionary(vec![Some(0)], floats())];
    for column in unreadable {
        let error = ingest(&columns(texts(&["a"]), column.clone(), some_dates(1))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(
            text.contains("\"partner_id\"") && text.contains("cannot hold identifiers"),
            "{text}"
        );
        let error = population_ids(&population(column)).unwrap_err();
        assert!(error.to_string().contains("\"cookie\""), "{error}");
    }
}

#[test]
fn a_population_has_one_column() {
    let column = texts(&["a"]);
    let two = source_of(vec![(field("a", &column), column.clone()), (field("b", &column), column)]);
    let error = population_ids(&two).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.to_string(), "a population has one ID column, matches.parquet has 2");
    let error = population_ids(&source_of(Vec::new())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
