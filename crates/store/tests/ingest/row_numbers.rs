//! The numbers of good rows in their sources, against plain lists.
#![expect(clippy::single_range_in_vec_init, reason = "lists of ranges are compared")]

use super::{NOW, columns, partner_ids, rows_of, some_dates, texts};
use idmatch_model::SeenAt;
use idmatch_store::{
    BatchSource, Ingest, ObservationSource, Observations, Reject, RejectSink, Result, RowNumbers,
    RowRun, SourceBatch, stored_rows,
};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;

struct Ignored;

impl RejectSink for Ignored {
    fn reject(&mut self, _: Vec<Reject>) -> Result<()> {
        Ok(())
    }
}

struct Batches(Vec<SourceBatch>);

impl BatchSource for Batches {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        Ok(self.0.pop())
    }
}

/// The rows of a source from this number on. Those that are good have their number as `id`.
fn batch(source: &str, first_row: u64, good: &[bool]) -> SourceBatch {
    let ids: Vec<String> = (first_row..)
        .zip(good)
        .map(|(row, good)| if *good { row.to_string() } else { String::new() })
        .collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let columns = columns(texts(&ids), partner_ids(good.len()), some_dates(good.len()));
    SourceBatch { source: source.into(), first_row, ..columns }
}

fn judged(batch: &SourceBatch) -> Observations {
    Ingest::new(false, SeenAt::parse(NOW).unwrap(), &mut Ignored).observations(batch).unwrap()
}

/// Source and number of each row.
fn listed(numbers: &RowNumbers) -> Vec<(String, u64)> {
    let runs = numbers.runs().iter();
    runs.flat_map(|run| run.rows.clone().map(|row| (run.source.to_string(), row))).collect()
}

fn ranges(numbers: &RowNumbers) -> Vec<Range<u64>> {
    numbers.runs().iter().map(|run| run.rows.clone()).collect()
}

#[test]
fn a_batch_without_rejected_rows_is_one_run() {
    let whole = batch("a.csv", 11, &[true; 3]);
    let rows = judged(&whole).rows;
    assert_eq!(rows.runs().len(), 1);
    assert!(Arc::ptr_eq(&rows.runs()[0].source, &whole.source));
    assert_eq!(ranges(&rows), [11..14]);
}

#[test]
fn rejected_rows_are_left_out() {
    let some = [false, true, true, false, false, true, false];
    let rows = judged(&batch("a.csv", 101, &some)).rows;
    assert_eq!(ranges(&rows), [102..104, 106..107]);
    assert_eq!(ranges(&rows.slice(0..2)), [102..104]);
    assert_eq!(ranges(&rows.slice(1..3)), [103..104, 106..107]);
    for none in [&[][..], &[false, false]] {
        assert!(judged(&batch("a.csv", 1, none)).rows.is_empty());
    }
}

#[test]
fn stored_rows_have_numbers() {
    let mut source = Batches(vec![batch("the table", 7, &[true; 4])]);
    let rows = stored_rows(&mut source).next_batch().unwrap().unwrap().rows;
    assert_eq!(ranges(&rows), [7..11]);
}

#[test]
fn equal_numbers_of_two_sources_stay_apart() {
    let mut rows = judged(&batch("a.csv", 1, &[true; 2])).rows;
    rows.extend(&judged(&batch("b.csv", 3, &[true; 2])).rows);
    rows.extend(&judged(&batch("b.csv", 5, &[true; 2])).rows);
    assert_eq!(ranges(&rows), [1..3, 3..7]);
    assert_eq!(listed(&rows)[2], ("b.csv".to_owned(), 3));
}

/// Batches of two sources, each with what is good in it.
fn batches() -> impl Strategy<Value = Vec<(bool, Vec<bool>)>> {
    prop::collection::vec((any::<bool>(), prop::collection::vec(any::<bool>(), 0..12)), 0..8)
}

proptest! {
    #[test]
    fn numbers_are_those_of_a_plain_list(batches in batches(), cuts in any::<[u8; 2]>()) {
        let (mut next, mut numbers, mut plain) = ([1, 1], RowNumbers::default(), Vec::new());
        for (is_second, good) in batches {
            let (source, first) = (["a", "b"][usize::from(is_second)], &mut next[usize::from(is_second)]);
            let judged = judged(&batch(source, *first, &good));
            let ids = rows_of(&judged).into_iter().map(|(id, _, _)| (source.to_owned(), id.parse().unwrap()));
            let ids: Vec<(String, u64)> = ids.collect();
            prop_assert_eq!(&listed(&judged.rows), &ids);
            prop_assert_eq!(judged.rows.len(), judged.len());
            numbers.extend(&judged.rows);
            plain.extend(ids);
            *first += good.len() as u64;
        }
        prop_assert_eq!(&listed(&numbers), &plain);
        prop_assert_eq!(numbers.is_empty(), plain.is_empty());
        // No run can be joined with the next.
        let are_apart = |two: &[RowRun]| two[0].source != two[1].source || two[0].rows.end < two[1].rows.start;
        prop_assert!(numbers.runs().windows(2).all(are_apart));
        let [from, to] = cuts.map(|cut| usize::from(cut) % (plain.len() + 3));
        let (from, to) = (from.min(to), from.max(to));
        let sliced = plain.get(from.min(plain.len())..to.min(plain.len())).unwrap();
        prop_assert_eq!(listed(&numbers.slice(from..to)), sliced);
    }
}
