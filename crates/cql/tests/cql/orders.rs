//! The same writes and erasures in random orders, some repeated, by several threads: always what the
//! reference answers.

use crate::common::{erase, fresh, load, open_with, some_of, upsert};
use idmatch_model::{Keep, Side, TableOptions, Target, Window};
use idmatch_store::{OpenTables, Table};
use idmatch_testkit::MemoryStore;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const WRITES: usize = 150;
const THREADS: usize = 4;
const FIRST: i64 = 1_700_000_000_000;

type Row = (String, String, i64);

#[derive(Clone)]
enum Write {
    Upsert(Vec<Row>),
    Load(Vec<Row>),
    Erase(Vec<Target>, i64),
}

fn any_row(random: &mut fastrand::Rng) -> Row {
    // Few identifiers and few dates, so that everything meets; both sides share some.
    let id = |random: &mut fastrand::Rng| format!("é{}", random.u32(..20));
    (id(random), id(random), FIRST + random.i64(0..10))
}

fn writes(random: &mut fastrand::Rng) -> Vec<Write> {
    let mut write = || {
        let count = if random.bool() { 1 } else { random.usize(1..40) };
        let rows: Vec<Row> = (0..count).map(|_| any_row(random)).collect();
        match random.u32(..10) {
            0 => {
                let (id, partner_id, at) = any_row(random);
                let target = match random.u32(..3) {
                    0 => Target::Id(id),
                    1 => Target::PartnerId(partner_id),
                    _ => Target::Pair { id, partner_id },
                };
                Write::Erase(vec![target], at)
            }
            1 => Write::Load(rows),
            _ => Write::Upsert(rows),
        }
    };
    (0..WRITES).map(|_| write()).collect()
}

fn apply(table: &Table, write: &Write) {
    match write {
        Write::Upsert(rows) => upsert(table, rows),
        Write::Load(rows) => load(table, rows),
        Write::Erase(targets, at) => {
            erase(table, targets, *at);
        }
    }
}

/// Everything there is to be asked by one key, and of each pair.
fn answers(table: &Table) -> Vec<String> {
    let keys: Vec<String> = (0..20).map(|n| format!("é{n}")).collect();
    let mut all = Vec::new();
    for by in Side::BOTH {
        for key in &keys {
            let answers = table.answers(by, key, Window::ALL).unwrap();
            all.extend(answers.of(0).map(|(value, date)| format!("{by:?} {key} {value} {date}")));
        }
    }
    for (id, partner_id) in keys.iter().flat_map(|id| keys.iter().map(move |other| (id, other))) {
        all.push(format!("{id} {partner_id} {:?}", table.history(id, partner_id).unwrap()));
    }
    all
}

fn write_all(table: &Table, writes: &[Write]) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(write) = writes.get(next.fetch_add(1, Relaxed)) {
                    apply(table, write);
                }
            });
        }
    });
}

#[test]
fn every_order_ends_alike() {
    orders("orders", "", 3);
}

#[test]
fn every_order_ends_alike_where_keys_have_many_rows() {
    orders("orders_hot", "&hot_key_rows=8", 1);
}

fn orders(keyspace: &str, options: &str, orders: usize) {
    let seed = 20_261_121;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let writes = writes(&mut random);
    fresh(keyspace);
    let store = open_with(keyspace, options);
    for keep in some_of([Keep::Last, Keep::All]) {
        let options = TableOptions { keep, retention: None };
        let reference = MemoryStore::new().table_with(&"r".parse().unwrap(), &options).unwrap();
        writes.iter().for_each(|write| apply(&reference, write));
        let right = answers(&reference);
        for order in 0..orders {
            let name = format!("{keep:?}.{order}").parse().unwrap();
            let table = store.table_with(&name, &options).unwrap();
            let mut writes = writes.clone();
            let some: Vec<usize> = (0..WRITES / 6).map(|_| random.usize(..WRITES)).collect();
            writes.extend(some.into_iter().map(|n| writes[n].clone()).collect::<Vec<_>>());
            random.shuffle(&mut writes);
            write_all(&table, &writes);
            assert_eq!(answers(&table), right, "{keep:?}, order {order}");
            assert_eq!(table.verify().unwrap(), []);
            table.compact().unwrap();
            assert_eq!(answers(&table), right, "{keep:?}, order {order}, compacted");
        }
    }
}
