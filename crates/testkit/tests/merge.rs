//! Properties of the in-memory reference: the merge does not depend on order or repetition,
//! and every answer is what the list of all observations says.

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use idmatch_model::{Keep, SeenAt, Side, TableName, TableOptions, Window};
use idmatch_store::{
    BatchSource, Ingest, OpenTables, Reject, RejectSink, Result, SourceBatch, Table,
};
use idmatch_testkit::MemoryStore;
use proptest::prelude::*;
use std::sync::Arc;

/// id, partner_id and the milliseconds of seen_at.
type Observation = (String, String, i64);

/// One load in one batch.
struct Load(Option<RecordBatch>);

impl BatchSource for Load {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let batch = self.0.take();
        Ok(batch.map(|batch| SourceBatch { source: "load".into(), first_row: 1, batch }))
    }
}

struct NoRejects;

impl RejectSink for NoRejects {
    fn reject(&mut self, rejects: Vec<Reject>) -> Result<()> {
        panic!("rejected {rejects:?}");
    }
}

fn table(keep: Keep, loads: &[Vec<Observation>]) -> Table {
    let name: TableName = "t".parse().unwrap();
    let table = MemoryStore::new().table_with(&name, &TableOptions { keep, retention: None });
    let table = table.unwrap();
    for load in loads {
        let ids = StringArray::from_iter_values(load.iter().map(|row| &row.0));
        let partner_ids = StringArray::from_iter_values(load.iter().map(|row| &row.1));
        let seen_at = TimestampMillisecondArray::from_iter_values(load.iter().map(|row| row.2));
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(ids)),
            ("partner_id", Arc::new(partner_ids)),
            ("seen_at", Arc::new(seen_at)),
        ];
        let mut source = Load(Some(RecordBatch::try_from_iter(columns).unwrap()));
        let now = SeenAt::from_millis(1_000).unwrap();
        table.load(&Ingest::new(true, now, &mut NoRejects).judged(&mut source)).unwrap();
    }
    table
}

fn answers(table: &Table, by: Side, key: &str, window: Window) -> Vec<(String, i64)> {
    let answers = table.answers(by, key, window).unwrap();
    answers.of(0).map(|(answer, date)| (answer.to_owned(), date.millis_i64())).collect()
}

/// Everything that a table can say about a few identifiers.
fn everything(table: &Table) -> Vec<(String, Vec<(String, i64)>)> {
    let mut all = Vec::new();
    for key in IDS {
        for by in Side::BOTH {
            for window in windows() {
                all.push((format!("{key} {by:?} {window:?}"), answers(table, by, key, window)));
            }
        }
        for partner_id in IDS {
            let dates = table.history(key, partner_id).unwrap();
            let dates = dates.into_iter().map(|date| (String::new(), date.millis_i64())).collect();
            all.push((format!("{key} {partner_id}"), dates));
        }
    }
    all
}

const IDS: [&str; 5] = ["a", "B", "b", "ab", "é"];

fn windows() -> Vec<Window> {
    let at = |ms| SeenAt::from_millis(ms).ok();
    let windows = [(None, None), (at(2), None), (None, at(3)), (at(1), at(4)), (at(2), at(2))];
    windows.into_iter().map(|(since, until)| Window::new(since, until).unwrap()).collect()
}

/// The answers that the list of all observations gives, by looking at each pair.
fn answers_by_definition(
    keep: Keep,
    observations: &[Observation],
    key: &str,
    (since, until): (i64, i64),
) -> Vec<(String, i64)> {
    let mut answers = Vec::new();
    for partner_id in IDS {
        let mut dates: Vec<i64> = observations
            .iter()
            .filter(|row| row.0 == key && row.1 == partner_id)
            .map(|row| row.2)
            .collect();
        dates.sort_unstable();
        if keep == Keep::Last {
            dates = dates.last().copied().into_iter().collect();
        }
        let newest = dates.into_iter().filter(|date| (since..until).contains(date)).max();
        answers.extend(newest.map(|date| (partner_id.to_owned(), date)));
    }
    answers.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.as_bytes().cmp(b.0.as_bytes())));
    answers
}

fn observations() -> impl Strategy<Value = Vec<Observation>> {
    let id = || prop::sample::select(IDS.as_slice()).prop_map(str::to_owned);
    prop::collection::vec((id(), id(), 0..6_i64), 0..12)
}

fn keeps() -> impl Strategy<Value = Keep> {
    prop::sample::select(vec![Keep::Last, Keep::All])
}

proptest! {
    #[test]
    fn order_and_repetition_of_loads_change_nothing(
        keep in keeps(),
        (loads, mixed) in prop::collection::vec(observations(), 0..5).prop_flat_map(|loads| {
            let twice: Vec<_> = loads.iter().chain(&loads).cloned().collect();
            (Just(loads), Just(twice).prop_shuffle())
        }),
    ) {
        let in_one: Vec<Observation> = mixed.iter().flatten().rev().cloned().collect();
        let expected = everything(&table(keep, &loads));
        prop_assert_eq!(&everything(&table(keep, &mixed)), &expected);
        prop_assert_eq!(&everything(&table(keep, &[in_one])), &expected);
    }

    #[test]
    fn answers_are_what_the_observations_say(
        keep in keeps(),
        loads in prop::collection::vec(observations(), 0..4),
        since in 0..6_i64,
        length in 0..6_i64,
    ) {
        let until = since + length;
        let at = |ms| SeenAt::from_millis(ms).ok();
        let window = Window::new(at(since), at(until)).unwrap();
        let all: Vec<Observation> = loads.iter().flatten().cloned().collect();
        let mirrored: Vec<Observation> =
            all.iter().cloned().map(|(id, partner_id, ms)| (partner_id, id, ms)).collect();
        let table = table(keep, &loads);
        for key in IDS {
            let expected = answers_by_definition(keep, &all, key, (since, until));
            prop_assert_eq!(answers(&table, Side::Id, key, window), expected);
            let expected = answers_by_definition(keep, &mirrored, key, (since, until));
            prop_assert_eq!(answers(&table, Side::PartnerId, key, window), expected);
        }
        prop_assert!(table.verify().unwrap().is_empty());
    }
}
