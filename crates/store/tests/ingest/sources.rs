//! What backends get: judged rows on several threads, stored rows, which no clock judges, and targets.

use super::{NOW, columns, field, partner_ids, rows_of, some_dates, source_of, texts};
use arrow_array::{ArrayRef, TimestampMillisecondArray};
use idmatch_model::{SeenAt, Target};
use idmatch_store::{
    BatchSource, ErrorKind, Ingest, NoRejects, ObservationSource, Reject, RejectSink, Result,
    SourceBatch, stored_rows,
};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

struct Batches(Vec<SourceBatch>);

impl BatchSource for Batches {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        Ok(self.0.pop())
    }
}

fn now() -> SeenAt {
    SeenAt::parse(NOW).unwrap()
}

/// One row with this id, dated the latest instant there is.
fn of_the_last_day(id: &str) -> SourceBatch {
    let latest = TimestampMillisecondArray::from(vec![SeenAt::MAX.millis_i64()]);
    columns(texts(&[id]), partner_ids(1), Arc::new(latest) as ArrayRef)
}

#[test]
fn stored_rows_may_have_any_date() {
    let mut source = Batches(vec![of_the_last_day("a")]);
    let mut rejects = NoRejects;
    let ingest = Ingest::new(true, now(), &mut rejects);
    let refused = ingest.judged(&mut source).next_batch().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadInput);

    let mut source = Batches(vec![of_the_last_day("a")]);
    let stored = stored_rows(&mut source);
    let row = ("a".to_owned(), "1".to_owned(), SeenAt::MAX.to_string());
    assert_eq!(rows_of(&stored.next_batch().unwrap().unwrap()), [row]);
    assert!(stored.next_batch().unwrap().is_none());
}

#[test]
fn a_stored_row_that_is_malformed_is_damage() {
    let mut source = Batches(vec![SourceBatch { first_row: 7, ..of_the_last_day("") }]);
    let damaged = stored_rows(&mut source).next_batch().unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::Corrupt);
    let text = damaged.to_string();
    assert!(text.starts_with("matches.parquet, row 7: id is empty"), "{text}");
}

#[test]
fn only_judged_rows_are_strict() {
    for strict in [true, false] {
        let (mut source, mut rejects) = (Batches(Vec::new()), NoRejects);
        let ingest = Ingest::new(strict, now(), &mut rejects);
        assert_eq!(ingest.judged(&mut source).is_strict(), strict);
    }
    assert!(!stored_rows(&mut Batches(Vec::new())).is_strict());
}

/// Says when its last batch is pulled.
struct Announced(Batches, Sender<()>);

impl BatchSource for Announced {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let next = self.0.next_batch()?;
        if self.0.0.is_empty() {
            self.1.send(()).ok();
        }
        Ok(next)
    }
}

/// Waits for that.
struct Waiting(Receiver<()>);

impl RejectSink for Waiting {
    fn reject(&mut self, _: Vec<Reject>) -> Result<()> {
        let pulled = self.0.recv_timeout(Duration::from_secs(60));
        pulled.expect("no thread pulls while another one judges");
        Ok(())
    }
}

#[test]
fn a_thread_pulls_while_another_one_judges() {
    let bad = columns(texts(&[""]), partner_ids(1), some_dates(1));
    let good = columns(texts(&["a"]), partner_ids(1), some_dates(1));
    let (sender, receiver) = channel();
    let (mut source, mut sink) = (Announced(Batches(vec![good, bad]), sender), Waiting(receiver));
    let ingest = Ingest::new(false, now(), &mut sink);
    let rows = ingest.judged(&mut source);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| while rows.next_batch().unwrap().is_some() {});
        }
    });
    drop(rows);
    assert_eq!((ingest.rows(), ingest.rejected()), (2, 1));
}

#[test]
fn what_cannot_be_erased_is_refused() {
    let day = 86_400_000;
    let at = |millis: i64| SeenAt::from_millis(now().millis_i64() + millis).unwrap();
    let targets = |id: &str, at: SeenAt| {
        let batch = source_of(vec![(field("id", &texts(&[id])), texts(&[id]))]);
        Ingest::new(true, now(), &mut NoRejects).targets(&mut Batches(vec![batch]), at)
    };
    assert_eq!(targets("a", at(day)).unwrap(), [Target::Id("a".to_owned())]);
    let refused = targets("a", at(day + 1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let refused = targets("", at(0)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BadInput);
    assert!(refused.to_string().contains("is empty"), "{refused}");
}
