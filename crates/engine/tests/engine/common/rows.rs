//! Rows, and the batches that bring them into a table.

use super::question::{Question, ask};
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use idmatch_model::{Keep, Pick, SeenAt, Side, TableName, TableOptions, Target, Window};
use idmatch_store::{
    BatchSource, Erased, Ingest, MatchQuery, ObservationSource, Observations, OpenTables, Reject,
    RejectSink, Result, SourceBatch, Table, now,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// An id, a partner_id and a date in milliseconds.
pub(crate) type Row = (String, String, i64);

/// Batches that are in memory.
pub(crate) struct Batches(VecDeque<RecordBatch>);

impl Batches {
    /// Observations, this many a batch.
    pub(crate) fn of_rows(rows: &[Row], batch_rows: usize) -> Batches {
        let batch = |rows: &[Row]| {
            let ids = StringArray::from_iter_values(rows.iter().map(|(id, _, _)| id));
            let partner_ids = StringArray::from_iter_values(rows.iter().map(|(_, p, _)| p));
            let dates = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.2));
            RecordBatch::try_from_iter([
                ("id", Arc::new(ids) as ArrayRef),
                ("partner_id", Arc::new(partner_ids) as ArrayRef),
                ("seen_at", Arc::new(dates.with_timezone("UTC")) as ArrayRef),
            ])
        };
        Batches(rows.chunks(batch_rows.max(1)).map(|rows| batch(rows).unwrap()).collect())
    }

    /// A population, in batches of a few rows, so that several threads get some.
    pub(crate) fn of_population(keys: &[String]) -> Batches {
        let batch = |keys: &[String]| {
            let keys = StringArray::from_iter_values(keys);
            RecordBatch::try_from_iter([("population", Arc::new(keys) as ArrayRef)])
        };
        Batches(keys.chunks(3).map(|keys| batch(keys).unwrap()).collect())
    }
}

impl BatchSource for Batches {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let next = self.0.pop_front();
        Ok(next.map(|batch| SourceBatch { source: "test".into(), first_row: 1, batch }))
    }
}

/// A source that says when it was first asked, and then waits.
pub(crate) struct Paused {
    pub(crate) asked: Sender<()>,
    pub(crate) go_on: Receiver<()>,
    pub(crate) rows: Batches,
}

impl BatchSource for Paused {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        self.asked.send(()).ok();
        self.go_on.recv().ok();
        self.rows.next_batch()
    }
}

/// No row of these tests is a bad one.
pub(crate) struct NoRejects;

impl RejectSink for NoRejects {
    fn reject(&mut self, rejects: Vec<Reject>) -> Result<()> {
        panic!("rejected {rejects:?}");
    }
}

/// Loads from a source; a bad row would be an error.
pub(crate) fn load(table: &Table, source: &mut dyn BatchSource) -> Result<()> {
    table.load(&Ingest::new(true, now(), &mut NoRejects).judged(source))
}

/// The rows of a source, judged.
pub(crate) fn observations(source: &mut dyn BatchSource) -> Vec<Observations> {
    let mut rejects = NoRejects;
    let ingest = Ingest::new(true, now(), &mut rejects);
    let judged = ingest.judged(source);
    std::iter::from_fn(|| judged.next_batch().unwrap()).collect()
}

/// How many of these rows a table has, both directions alike.
pub(crate) fn count_rows(table: &Table, rows: &[Row]) -> usize {
    let mut found = 0;
    for (id, partner_id, _) in rows {
        let by_id = table.answers(Side::Id, id, Window::ALL).unwrap().of(0).count();
        let by_partner_id =
            table.answers(Side::PartnerId, partner_id, Window::ALL).unwrap().of(0).count();
        assert_eq!(by_id, by_partner_id, "{id}");
        found += by_id;
    }
    found
}

/// Batches of so many rows, which can be told apart.
pub(crate) struct NumberedRows(pub(crate) usize);

impl NumberedRows {
    /// A batch: its ids are its own, and so is one partner_id that half of them have.
    pub(crate) fn batch(&self, number: usize) -> Vec<Row> {
        let partner = |row: usize| match row % 2 {
            0 => format!("hot-{number}"),
            _ => format!("{:032x}", number * self.0 + row),
        };
        (0..self.0).map(|row| (format!("{number}-{row}"), partner(row), row as i64)).collect()
    }

    /// Whether a batch is in a table: whole and in both directions, or not at all.
    pub(crate) fn are_in(&self, table: &Table, number: usize) -> bool {
        let rows = self.batch(number);
        let population = Arc::new(rows.iter().map(|(id, _, _)| id.clone()).collect());
        let query =
            MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };
        let mut matches = ask(table, &Question::Match(population, query)).unwrap().split_off(1);
        let hot = Question::Answers(Side::PartnerId, format!("hot-{number}"), Window::ALL);
        let of_hot = ask(table, &hot).unwrap();
        if matches.is_empty() {
            assert_eq!(of_hot, [], "batch {number} is there by partner_id only");
            return false;
        }
        matches.sort_by_key(|row| row.2);
        assert_eq!(matches, rows, "batch {number} is there in part");
        assert_eq!(of_hot.len(), self.0 / 2, "batch {number} is there by id only");
        true
    }
}

/// Upserts from a source; a bad row would be an error.
pub(crate) fn upsert(table: &Table, source: &mut dyn BatchSource) -> Result<()> {
    table.upsert(&Ingest::new(true, now(), &mut NoRejects).judged(source), None)
}

/// Erases what there is of some targets up to a date in milliseconds.
pub(crate) fn erase(table: &Table, targets: &[Target], at: i64) -> Result<Erased> {
    table.erase(targets, SeenAt::from_millis(at).unwrap())
}

/// The name of a table.
pub(crate) fn name(text: &str) -> TableName {
    text.parse().unwrap()
}

/// Makes a table that forgets nothing.
pub(crate) fn create(store: &dyn OpenTables, table: &str, keep: Keep) -> Result<Table> {
    store.table_with(&name(table), &TableOptions { keep, retention: None })
}

/// Rows with identifiers of every kind, packed and not, of one byte and of 1,024; pairs and
/// dates come more than once.
pub(crate) fn rows_of_all_kinds(count: usize) -> Vec<Row> {
    let id = |n: usize| match n % 6 {
        0 => format!("{:032x}", n as u128 * 0x9e37_79b9_7f4a_7c15),
        1 => format!("{}", 1_000_000_007 * n as u64),
        2 => format!("{n:08x}-0000-4000-8000-00000000{n:04x}"),
        3 => format!("person-{n}@mail.example"),
        4 => char::from(b'A' + (n % 26) as u8).to_string(),
        _ => format!("Ünïcode {n} "),
    };
    let mut rows: Vec<Row> = (0..count)
        .map(|n| {
            let date = 1_700_000_000_000 + (n as i64 * 7_919 % 50) * 3_600_000;
            (id(n % 37), id(n * n % 41 + 100), date)
        })
        .collect();
    if let Some(last) = rows.last_mut() {
        last.0 = "L".repeat(1024);
    }
    rows
}
