//! The same writes in many orders, some of them repeated, as loads and as upserts, by one thread and by
//! several, with merges, refreshes and reopening between: always the same end state.

use crate::common::{
    Batches, FaultyDisk, Question, Random, Row, ask, create, load, name, questions, report,
    rows_of_all_kinds, runs, seed, upsert,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Pick, SeenAt, Side, Window};
use idmatch_store::{Call, OpenTables, Store, Table};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const WRITES: usize = 240;
/// One in so many writes comes a second time, anywhere.
const REPEATED: usize = 6;
const TABLES: [(&str, Keep); 2] = [("newest", Keep::Last), ("history", Keep::All)];

/// Writes of many sizes that share pairs, dates and whole observations.
fn writes(random: &mut Random) -> Vec<Vec<Row>> {
    let pool = rows_of_all_kinds(700);
    let any = |random: &mut Random| {
        let (id, partner_id, date) = pool[random.below(pool.len())].clone();
        // A few dates for each pair.
        (id, partner_id, date + random.below(4) as i64 * 86_400_000)
    };
    let size = |random: &mut Random| match random.below(10) {
        0 => 60,
        1..4 => 12,
        _ => 1 + random.below(4),
    };
    (0..WRITES).map(|_| (0..size(random)).map(|_| any(random)).collect()).collect()
}

/// What was observed: the dates of each pair.
struct Plain(BTreeMap<(String, String), BTreeSet<i64>>);

impl Plain {
    fn new(writes: &[Vec<Row>]) -> Plain {
        let mut dates: BTreeMap<_, BTreeSet<i64>> = BTreeMap::new();
        for (id, partner_id, date) in writes.iter().flatten().cloned() {
            dates.entry((id, partner_id)).or_default().insert(date);
        }
        Plain(dates)
    }

    /// What a question is to be answered with, as `ask` gives it.
    fn right(&self, keep: Keep, question: &Question) -> Vec<Row> {
        match question {
            Question::Answers(by, key, window) => self.answers(keep, *by, key, *window),
            Question::LastSeen(id, partner_id) => {
                self.dates(keep, id, partner_id).take(1).collect()
            }
            Question::History(id, partner_id) => self.dates(keep, id, partner_id).collect(),
            Question::Match(population, query) => {
                let of = |key: &String| {
                    let mut answers = self.answers(keep, query.by, key, query.window);
                    answers.truncate(if query.pick == Pick::Latest { 1 } else { usize::MAX });
                    answers
                };
                let matches: Vec<Vec<Row>> = population.iter().map(of).collect();
                let matched = matches.iter().filter(|answers| !answers.is_empty()).count();
                let mut rows = matches.concat();
                rows.sort();
                rows.insert(0, (population.len().to_string(), matched.to_string(), 0));
                rows
            }
        }
    }

    fn answers(&self, keep: Keep, by: Side, key: &str, window: Window) -> Vec<Row> {
        let mut answers = Vec::new();
        for ((id, partner_id), dates) in &self.0 {
            let (this, answer) = match by {
                Side::Id => (id, partner_id),
                Side::PartnerId => (partner_id, id),
            };
            let kept = dates.iter().rev().take(if keep == Keep::Last { 1 } else { usize::MAX });
            let mut seen = kept.filter(|ms| window.contains(SeenAt::from_millis(**ms).unwrap()));
            if let Some(date) = seen.next().filter(|_| this == key) {
                answers.push((key.to_owned(), answer.clone(), *date));
            }
        }
        answers.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.1.cmp(&b.1)));
        answers
    }

    fn dates(&self, keep: Keep, id: &str, partner_id: &str) -> impl Iterator<Item = Row> {
        let dates = self.0.get(&(id.to_owned(), partner_id.to_owned()));
        let count = if keep == Keep::Last { 1 } else { usize::MAX };
        let newest_first = dates.into_iter().flat_map(|dates| dates.iter().rev());
        newest_first.take(count).map(|date| (String::new(), String::new(), *date))
    }
}

fn limits(random: &mut Random) -> MemoryLimits {
    let memtable_bytes = [3_000, 12_000, 1 << 20][random.below(3)];
    let segment_rows = [40, 300, 1 << 20][random.below(3)];
    MemoryLimits {
        segment_rows,
        chunk_bytes: 1_000,
        run_bytes: 200_000,
        population_bytes: 1_000,
        memtable_bytes,
    }
}

/// A store that is used as one may use it. Nothing is made durable: no power fails here.
struct Played<'a> {
    root: &'a Path,
    store: EngineStore,
    /// Another one on the same files.
    reader: EngineStore,
}

fn open(root: &Path, random: &mut Random) -> EngineStore {
    let disk = FaultyDisk::without_faults();
    let store = EngineStore::open_with(Arc::new(disk), root, limits(random)).unwrap();
    for (table, keep) in TABLES {
        create(&store, table, keep).unwrap();
    }
    store
}

impl Played<'_> {
    fn new<'a>(root: &'a Path, random: &mut Random) -> Played<'a> {
        let store = open(root, random);
        Played { root, reader: open(root, random), store }
    }

    fn tables(&self) -> [Table; 2] {
        TABLES.map(|(table, _)| self.store.table(&name(table)).unwrap())
    }

    /// Does some writes, by several threads or by one.
    fn write(&self, writes: &[&Vec<Row>], random: &mut Random) {
        let next = AtomicUsize::new(0);
        let work = |mut random: Random| {
            while let Some(rows) = writes.get(next.fetch_add(1, Relaxed)) {
                for table in self.tables() {
                    let mut source = Batches::of_rows(rows, 1 + random.below(20));
                    match random.once_in(12) {
                        true => load(&table, &mut source).unwrap(),
                        false => upsert(&table, &mut source).unwrap(),
                    }
                }
            }
        };
        let work = &work;
        std::thread::scope(|scope| {
            for thread in 0..[0, 2][random.below(2)] {
                let random = Random::new(random.below(1 << 30) as u64, thread);
                scope.spawn(move || work(random));
            }
            work(Random::new(random.below(1 << 30) as u64, 9));
        });
    }

    /// What may come between writes, and changes nothing.
    fn interrupt(&mut self, random: &mut Random) {
        match random.below(8) {
            0 => self.tables().iter().for_each(|table| table.compact().unwrap()),
            1 => self.tables()[random.below(2)].compact().unwrap(),
            2 => {
                self.store.end_writing().unwrap();
                self.store = open(self.root, random);
            }
            3 => self.store.end_writing().unwrap(),
            4 => {
                // Not closed: what it upserted is read from the journal. Its threads may hold the
                // files for a moment longer, which the next writer waits for.
                self.store = EngineStore::open(&self.root.join("nowhere")).unwrap();
                self.store = open(self.root, random);
            }
            5 => {
                // The other one writes for a while.
                self.store.end_writing().unwrap();
                self.reader.refresh(&Call::default()).unwrap();
                std::mem::swap(&mut self.store, &mut self.reader);
            }
            _ => self.reader.refresh(&Call::default()).unwrap(),
        }
    }
}

/// Every answer there is.
type EndState = Vec<Vec<Row>>;

fn end_state(store: &EngineStore, questions: &[Question]) -> EndState {
    let mut state = Vec::new();
    for (table, _) in TABLES {
        let table = store.table(&name(table)).unwrap();
        assert_eq!(table.verify().unwrap(), []);
        state.extend(questions.iter().map(|question| ask(&table, question).unwrap()));
    }
    state
}

#[test]
fn every_order_of_writes_ends_alike() {
    let (orders, seed) = (runs(6), seed());
    let writes = writes(&mut Random::new(seed, 0));
    let plain = Plain::new(&writes);
    let instant = |day: i64| SeenAt::from_millis(1_700_000_000_000 + day * 86_400_000).ok();
    let window = Window::new(instant(1), instant(3)).unwrap();
    let questions = questions(&writes.concat(), &[Window::ALL, window]);
    let all = TABLES.iter().flat_map(|(_, keep)| questions.iter().map(|q| plain.right(*keep, q)));
    let right: EndState = all.collect();
    let mut states = HashSet::new();
    let mut played = 0;
    for number in 1..=orders {
        let mut random = Random::new(seed, number);
        let mut order: Vec<&Vec<Row>> = writes.iter().collect();
        for write in &writes {
            order.extend(random.once_in(REPEATED).then_some(write));
        }
        random.shuffle(&mut order);
        played += order.len();
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        let mut store = Played::new(&root, &mut random);
        let mut rest = order.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(1 + random.below(48)));
            store.write(now, &mut random);
            store.interrupt(&mut random);
            rest = later;
        }
        let state = end_state(&store.store, &questions);
        store.store.end_writing().unwrap();
        store.reader.refresh(&Call::default()).unwrap();
        let reread = end_state(&store.reader, &questions);
        for state in [state, reread] {
            if let Some(at) = (0..right.len()).find(|at| state[*at] != right[*at]) {
                let question = &questions[at % questions.len()];
                let found = &state[at];
                panic!("order {number}, seed {seed}: {question:?}: {found:?}, not {:?}", right[at]);
            }
            states.insert(state);
        }
    }
    report(&format!(
        "orders: {orders} orders of {WRITES} writes ({played} with repetitions), {} answers each, \
         {} distinct end state, seed {seed}",
        right.len(),
        states.len()
    ));
    assert_eq!(states.len(), 1);
}
