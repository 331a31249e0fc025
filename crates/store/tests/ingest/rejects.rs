//! Rows that are not taken: where they are, why, and what strict does.

use super::{NOW, Rejects, columns, field, ingest, partner_ids, some_dates, source_of, texts};
use arrow_array::{ArrayRef, StringArray};
use idmatch_model::SeenAt;
use idmatch_store::{Error, ErrorKind, Ingest, Reject, RejectSink, Result, SourceBatch};
use std::sync::Arc;

/// Ten rows of which the third, fourth and ninth are bad, as rows 101 to 110 of a file.
fn ten_rows() -> SourceBatch {
    let ids = texts(&["a", "b", "", "d", "e", "f", "g", "h", "i", "j"]);
    let partner_ids = texts(&["1", "2", "3", "", "5", "6", "7", "8", "9", "10"]);
    let seen_at: ArrayRef = Arc::new(StringArray::from(vec![
        Some("2026-01-01"),
        Some("2026-01-02"),
        None,
        Some("2026-01-04"),
        Some("2026-01-05"),
        Some("2026-01-06"),
        Some("2026-01-07"),
        Some("2026-01-08"),
        Some("never"),
        Some("2026-01-10"),
    ]));
    SourceBatch { first_row: 101, ..columns(ids, partner_ids, seen_at) }
}

fn now() -> SeenAt {
    SeenAt::parse(NOW).unwrap()
}

#[test]
fn good_rows_stay_together_and_in_order() {
    let outcome = ingest(&ten_rows()).unwrap();
    let row = |id: &str, partner_id: &str, day: &str| {
        (id.to_owned(), partner_id.to_owned(), format!("2026-01-{day}T00:00:00.000Z"))
    };
    assert_eq!(
        outcome.rows,
        [
            row("a", "1", "01"),
            row("b", "2", "02"),
            row("e", "5", "05"),
            row("f", "6", "06"),
            row("g", "7", "07"),
            row("h", "8", "08"),
            row("j", "10", "10"),
        ]
    );
}

#[test]
fn rejects_name_source_row_first_wrong_column_and_reason() {
    let mut rejects = Rejects::default();
    Ingest::new(false, now(), &mut rejects).observations(&ten_rows()).unwrap();
    let reject = |row, column, reason: &str| Reject {
        source: "matches.parquet".into(),
        row,
        column,
        reason: reason.to_owned(),
    };
    let no_date = "is no date: its form is \"aaaaa\"; it is not an ISO 8601 date or time, \
                   such as 2026-03-01 or 2026-03-01T12:30:00Z";
    assert_eq!(
        rejects.0,
        [
            reject(103, "id", "is empty; an identifier has 1 to 1024 bytes"),
            reject(104, "partner_id", "is empty; an identifier has 1 to 1024 bytes"),
            reject(109, "seen_at", no_date),
        ]
    );
}

#[test]
fn the_longest_identifier_is_taken_and_a_longer_one_is_not() {
    let longest = "x".repeat(1_024);
    let longer = "x".repeat(1_025);
    let in_bytes = "é".repeat(513);
    let ids = texts(&[&longest, &longer, &in_bytes]);
    let outcome = ingest(&columns(ids, partner_ids(3), some_dates(3))).unwrap();
    assert_eq!(outcome.rows.len(), 1);
    assert_eq!(outcome.rows[0].0, longest);
    let reason = |bytes| format!("is {bytes} bytes long; an identifier has 1 to 1024 bytes");
    assert_eq!(outcome.rejects, [(2, "id", reason(1_025)), (3, "id", reason(1_026))]);
}

#[test]
fn counts_add_up_over_batches() {
    let mut rejects = Rejects::default();
    let ingest = Ingest::new(false, now(), &mut rejects);
    for _ in 0..3 {
        assert_eq!(ingest.observations(&ten_rows()).unwrap().len(), 7);
    }
    assert_eq!((ingest.rows(), ingest.rejected()), (30, 9));
    assert_eq!(rejects.0.len(), 9);
}

#[test]
fn strict_stops_at_the_first_bad_row() {
    let mut rejects = Rejects::default();
    let ingest = Ingest::new(true, now(), &mut rejects);
    let error = ingest.observations(&ten_rows()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput);
    assert_eq!(
        error.to_string(),
        "matches.parquet, row 103: id is empty; an identifier has 1 to 1024 bytes"
    );
    assert!(rejects.0.is_empty());
}

#[test]
fn strict_takes_what_is_good() {
    let mut rejects = Rejects::default();
    let ingest = Ingest::new(true, now(), &mut rejects);
    let good = columns(texts(&["a"]), texts(&["p"]), some_dates(1));
    assert_eq!(ingest.observations(&good).unwrap().len(), 1);
}

#[test]
fn an_error_of_the_sink_is_the_error_of_the_load() {
    struct Full;
    impl RejectSink for Full {
        fn reject(&mut self, _: Vec<Reject>) -> Result<()> {
            Err(Error::new(ErrorKind::Io, "the rejects file is full"))
        }
    }
    let error = Ingest::new(false, now(), &mut Full).observations(&ten_rows()).unwrap_err();
    assert_eq!(error.to_string(), "the rejects file is full");
}

#[test]
fn a_batch_of_bad_rows_or_of_none_gives_no_observations() {
    let all_bad = columns(texts(&["", ""]), partner_ids(2), some_dates(2));
    let outcome = ingest(&all_bad).unwrap();
    assert_eq!((outcome.rows.len(), outcome.rejects.len()), (0, 2));
    let empty = columns(texts(&[]), partner_ids(0), some_dates(0));
    let outcome = ingest(&empty).unwrap();
    assert_eq!((outcome.rows.len(), outcome.rejects.len()), (0, 0));
}

#[test]
fn columns_come_in_any_order_and_others_are_ignored() {
    let source = source_of(vec![
        (field("seen_at", &some_dates(1)), some_dates(1)),
        (field("noise", &texts(&["?"])), texts(&["?"])),
        (field("partner_id", &texts(&["p"])), texts(&["p"])),
        (field("id", &texts(&["a"])), texts(&["a"])),
    ]);
    let row = ("a".to_owned(), "p".to_owned(), "1970-01-01T00:00:00.000Z".to_owned());
    assert_eq!(ingest(&source).unwrap().rows, [row]);
}

#[test]
fn a_missing_column_is_an_error_that_lists_those_there_are() {
    let source = source_of(vec![
        (field("id", &texts(&["a"])), texts(&["a"])),
        (field("uid", &texts(&["p"])), texts(&["p"])),
    ]);
    let error = ingest(&source).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        error.to_string(),
        "matches.parquet has no column \"partner_id\"; its columns are id, uid"
    );
}
