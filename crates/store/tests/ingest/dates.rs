//! Date columns: timestamps of every unit and zone, dates, ISO 8601 text.

use super::{NOW, Outcome, Rejects, columns, ingest, partner_ids, texts};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Date32Array, Date64Array, DictionaryArray,
    Float64Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, NullArray,
    StringArray, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use idmatch_model::{DateRules, SeenAt};
use idmatch_store::{ErrorKind, Ingest};
use std::sync::Arc;

const SECONDS: i64 = 1_772_366_400;
/// 2026-03-29T02:30:00.
const SKIPPED: i64 = 1_774_751_400;
const INSTANT: &str = "2026-03-01T12:00:00.000Z";

fn load(seen_at: ArrayRef) -> Outcome {
    let rows = seen_at.len();
    let ids = vec!["a"; rows];
    ingest(&columns(texts(&ids), partner_ids(rows), seen_at)).unwrap()
}

fn dates_taken(seen_at: ArrayRef) -> Vec<String> {
    load(seen_at).rows.into_iter().map(|(_, _, seen_at)| seen_at).collect()
}

/// Row and reason of each rejected row.
fn dates_rejected(seen_at: ArrayRef) -> Vec<(u64, String)> {
    let rejects = load(seen_at).rejects.into_iter();
    rejects
        .map(|(row, column, reason)| {
            assert_eq!(column, "seen_at");
            (row, reason)
        })
        .collect()
}

/// Whether the rejected rows are these, each with a reason that contains the text.
fn assert_rejected(seen_at: ArrayRef, expected: &[(u64, &str)]) {
    let rejected = dates_rejected(seen_at);
    let is_same = rejected.len() == expected.len()
        && rejected
            .iter()
            .zip(expected)
            .all(|(got, expected)| got.0 == expected.0 && got.1.contains(expected.1));
    assert!(is_same, "expected {expected:?}, got {rejected:?}");
}

#[test]
fn timestamps_of_every_unit_and_zone_are_instants() {
    for zone in [None, Some("UTC"), Some("+02:00"), Some("Europe/Berlin"), Some("-11:30")] {
        let columns: [ArrayRef; 4] = [
            Arc::new(TimestampSecondArray::from(vec![SECONDS]).with_timezone_opt(zone)),
            Arc::new(
                TimestampMillisecondArray::from(vec![SECONDS * 1_000]).with_timezone_opt(zone),
            ),
            Arc::new(
                TimestampMicrosecondArray::from(vec![SECONDS * 1_000_000]).with_timezone_opt(zone),
            ),
            Arc::new(
                TimestampNanosecondArray::from(vec![SECONDS * 1_000_000_000])
                    .with_timezone_opt(zone),
            ),
        ];
        for column in columns {
            assert_eq!(dates_taken(column.clone()), [INSTANT], "{}", column.data_type());
        }
    }
}

#[test]
fn below_a_millisecond_is_cut_towards_the_past() {
    let micros = TimestampMicrosecondArray::from(vec![1_999, 1_000, 999]);
    assert_eq!(
        dates_taken(Arc::new(micros)),
        ["1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.000Z"]
    );
    let nanos = TimestampNanosecondArray::from(vec![1_999_999, 999_999]);
    assert_eq!(
        dates_taken(Arc::new(nanos)),
        ["1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.000Z"]
    );
    assert_rejected(Arc::new(TimestampMicrosecondArray::from(vec![-1])), &[(1, "is before 1970")]);
    assert_rejected(Arc::new(TimestampNanosecondArray::from(vec![-1])), &[(1, "is before 1970")]);
}

#[test]
fn days_are_their_midnight_in_utc() {
    let midnights = ["1970-01-01T00:00:00.000Z", "2026-03-01T00:00:00.000Z"];
    assert_eq!(dates_taken(Arc::new(Date32Array::from(vec![0, 20_513]))), midnights);
    assert_eq!(dates_taken(Arc::new(Date64Array::from(vec![0, 20_513 * 86_400_000]))), midnights);
    assert_rejected(Arc::new(Date32Array::from(vec![-1])), &[(1, "is before 1970")]);
}

#[test]
fn a_day_ahead_is_the_limit() {
    let limit = 1_772_496_000_000; // 2026-03-03T00:00:00Z, a day after the clock of the tests
    let column = TimestampMillisecondArray::from(vec![limit, limit + 1]);
    assert_eq!(dates_taken(Arc::new(column.clone())), ["2026-03-03T00:00:00.000Z"]);
    let reason = "is out of range: it is more than one day in the future";
    assert_eq!(dates_rejected(Arc::new(column)), [(2, reason.to_owned())]);
}

#[test]
fn dates_that_overflow_are_rejected_on_their_own_side() {
    let (before, after) = ("is before 1970", "is after 9999-12-30T22:00:00Z");
    let both = [(1, before), (2, after)];
    assert_rejected(Arc::new(TimestampSecondArray::from(vec![i64::MIN, i64::MAX])), &both);
    assert_rejected(Arc::new(TimestampMillisecondArray::from(vec![i64::MIN, i64::MAX])), &both);
    assert_rejected(Arc::new(Date64Array::from(vec![i64::MIN, i64::MAX])), &both);
    assert_rejected(Arc::new(Date32Array::from(vec![i32::MIN, i32::MAX])), &both);
    assert_rejected(Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, i64::MAX])), &both);
    let nanos = TimestampNanosecondArray::from(vec![i64::MIN, i64::MAX]);
    assert_rejected(Arc::new(nanos), &[(1, before), (2, "is more than one day in the future")]);
}

#[test]
fn missing_dates_of_every_type() {
    let columns: [ArrayRef; 7] = [
        Arc::new(TimestampSecondArray::from(vec![None, Some(0)])),
        Arc::new(TimestampMillisecondArray::from(vec![None, Some(0)])),
        Arc::new(TimestampMicrosecondArray::from(vec![None, Some(0)])),
        Arc::new(TimestampNanosecondArray::from(vec![None, Some(0)])),
        Arc::new(Date32Array::from(vec![None, Some(0)])),
        Arc::new(Date64Array::from(vec![None, Some(0)])),
        Arc::new(StringArray::from(vec![None, Some("1970-01-01")])),
    ];
    for column in columns {
        assert_eq!(dates_taken(column.clone()), ["1970-01-01T00:00:00.000Z"]);
        assert_eq!(dates_rejected(column), [(1, "is missing".to_owned())]);
    }
    assert_eq!(dates_rejected(Arc::new(NullArray::new(1))), [(1, "is missing".to_owned())]);
    assert_eq!(dates_rejected(texts(&[""])), [(1, "is missing".to_owned())]);
}

#[test]
fn text_of_every_type_and_form() {
    let values = [
        "2026-03-01T12:00:00Z",
        "2026-03-01T14:00:00+02:00",
        "2026-03-01T12:00:00",
        "2026-03-01 12:00:00.000",
        "2026-03-01t12:00:00.0009z",
        "2026-03-01T12:00",
        "20260301T120000Z",
    ];
    let text: ArrayRef = texts(&values);
    let keys = Int32Array::from_iter_values(0..values.len() as i32);
    let columns: [ArrayRef; 7] = [
        text.clone(),
        Arc::new(LargeStringArray::from_iter_values(values)),
        Arc::new(StringViewArray::from_iter_values(values)),
        Arc::new(BinaryArray::from_iter_values(values)),
        Arc::new(LargeBinaryArray::from_iter_values(values)),
        Arc::new(BinaryViewArray::from_iter_values(values)),
        Arc::new(DictionaryArray::<Int32Type>::new(keys, text)),
    ];
    for column in columns {
        assert_eq!(dates_taken(column.clone()), [INSTANT; 7], "{}", column.data_type());
    }
    assert_eq!(dates_taken(texts(&["2026-03-01"])), ["2026-03-01T00:00:00.000Z"]);
}

#[test]
fn text_that_is_no_date() {
    let texts_of_no_date = [
        "soon",
        "2026-02-29",
        "2026-13-01",
        "2026-03",
        " 2026-03-01",
        "01.03.2026",
        "03/01/2026",
        "2026-03-01T25:00:00Z",
        "2026-03-01T12:00:00[Europe/Berlin]",
    ];
    let rejected = dates_rejected(texts(&texts_of_no_date));
    assert_eq!(rejected.len(), texts_of_no_date.len(), "{rejected:?}");
    for ((_, reason), text) in rejected.iter().zip(texts_of_no_date) {
        // Its form, and nothing that could be an identifier.
        let form: String = text
            .chars()
            .map(|c| {
                if c.is_alphabetic() {
                    'a'
                } else if c.is_numeric() {
                    '0'
                } else {
                    c
                }
            })
            .collect();
        let start = format!("is no date: its form is {form:?}; it is not an ISO 8601 date");
        assert!(reason.starts_with(&start), "{reason}");
    }
    assert_rejected(texts(&["1969-12-31T23:59:59Z"]), &[(1, "is out of range: it is before 1970")]);
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values([b"2026\xff"]));
    assert_rejected(bytes, &[(1, "is no date")]);
}

#[test]
fn a_dictionary_of_timestamps() {
    let values = Arc::new(TimestampSecondArray::from(vec![0, SECONDS]));
    let keys = Int32Array::from(vec![Some(1), None, Some(0)]);
    let column: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, values));
    assert_eq!(dates_taken(column.clone()), [INSTANT, "1970-01-01T00:00:00.000Z"]);
    assert_eq!(dates_rejected(column), [(2, "is missing".to_owned())]);
}

#[test]
fn types_that_are_no_dates_are_named() {
    let keys = Int32Array::from(vec![0]);
    let floats = || Arc::new(Float64Array::from(vec![0.0]));
    let in_dictionary = DictionaryArray::<Int32Type>::new(keys, floats());
    let unreadable: [ArrayRef; 3] =
        [floats(), Arc::new(Time64MicrosecondArray::from(vec![0])), Arc::new(in_dictionary)];
    for column in unreadable {
        let error = ingest(&columns(texts(&["a"]), texts(&["p"]), column)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("\"seen_at\"") && text.contains("is no date"), "{text}");
    }
}

#[test]
fn whole_numbers_are_days_or_milliseconds_and_nothing_else() {
    let seconds = "a number of 10 digits looks like seconds; say --date-format s";
    let numbers = [SECONDS * 1_000, 20_260_301, SECONDS, 0];
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(numbers)),
        Arc::new(UInt64Array::from_iter_values(numbers.map(i64::cast_unsigned))),
        texts(&numbers.map(|number| number.to_string()).each_ref().map(String::as_str)),
    ];
    for column in columns {
        assert_eq!(dates_taken(column.clone()), [INSTANT, "2026-03-01T00:00:00.000Z"]);
        assert_rejected(column, &[(3, seconds), (4, "a number of 1 digit is neither a day")]);
    }
    let days: ArrayRef = Arc::new(Int32Array::from(vec![Some(20_260_301), None]));
    assert_rejected(days, &[(2, "is missing")]);
    assert_rejected(Arc::new(UInt64Array::from(vec![u64::MAX])), &[(1, "more than 64 bits")]);
}

#[test]
fn dates_are_read_by_the_rules_of_their_source() {
    let read = |seen_at: ArrayRef, format: Option<&str>, zone: Option<&str>| {
        let rules = DateRules::new(format, zone).unwrap();
        let (mut rejects, now) = (Rejects::default(), SeenAt::parse(NOW).unwrap());
        let ids: Vec<_> = ["a", "b"].into_iter().take(seen_at.len()).collect();
        let source = columns(texts(&ids), partner_ids(seen_at.len()), seen_at);
        let ingest = Ingest::new(false, now, &mut rejects).with_dates(rules);
        let dates = ingest.observations(&source).unwrap().seen_at;
        let rejects = rejects.0;
        (dates.iter().map(ToString::to_string).collect::<Vec<_>>(), rejects)
    };
    let (dates, rejects) = read(texts(&["01/03/2026", "2026-03-01"]), Some("%d/%m/%Y"), None);
    assert_eq!(dates, ["2026-03-01T00:00:00.000Z"]);
    assert_eq!((rejects[0].row, rejects[0].column), (2, "seen_at"));
    assert!(rejects[0].reason.contains("does not fit \"%d/%m/%Y\""), "{rejects:?}");
    let seconds: ArrayRef = Arc::new(Int64Array::from(vec![SECONDS, 1]));
    let (dates, _) = read(seconds, Some("s"), None);
    assert_eq!(dates, [INSTANT, "1970-01-01T00:00:01.000Z"]);
    let local: ArrayRef = Arc::new(TimestampSecondArray::from(vec![SECONDS, SKIPPED]));
    let (dates, rejects) = read(local, None, Some("Europe/Paris"));
    assert_eq!(dates, ["2026-03-01T11:00:00.000Z"]);
    assert!(rejects[0].reason.contains("Europe/Paris skips"), "{rejects:?}");
    // Local times that have no instant, or none that can be stored.
    let before = "is out of range: it is before 1970-01-01";
    let after = "is out of range: it is after 9999-12-30T22:00:00Z, the latest date there is";
    let most = 253_402_300_799; // 9999-12-31T23:59:59
    for (local, reason) in [(i64::MIN / 1_000, before), (most, after), (most + 1, after)] {
        let local: ArrayRef = Arc::new(TimestampSecondArray::from(vec![local]));
        let (_, rejects) = read(local, None, Some("America/New_York"));
        assert_eq!(rejects[0].reason, reason);
    }
    let instants = TimestampSecondArray::from(vec![SECONDS, SECONDS]).with_timezone("+05:00");
    assert_eq!(read(Arc::new(instants), None, Some("Europe/Paris")).0, [INSTANT, INSTANT]);
}
