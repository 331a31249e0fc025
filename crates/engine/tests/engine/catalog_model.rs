//! Random changes of 300 names and write sessions by 8 threads, compared with the in-memory reference.

use crate::common::{
    Batches, Random, Row, assert_nothing_leaks_for_long, assert_same, erase, load, looked_up, name,
    seed, upsert, whole,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, SeenAt, Side, TableName, TableOptions, Target, Window};
use idmatch_store::locks::{Mutex, RwLock};
use idmatch_store::{
    Call, Counting, Error, ErrorKind, Ingest, Lookup, NewWrite, NoRejects, PartReceipt, Result,
    Sharing, Snapshot, Store, Table, TableSnapshot, WriteKind, WriteSession,
};
use idmatch_testkit::MemoryStore;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A memtable takes a few dozens of batches.
const LIMITS: MemoryLimits = MemoryLimits {
    segment_rows: 200,
    chunk_bytes: 2_000,
    run_bytes: 4 << 20,
    population_bytes: 2_000,
    memtable_bytes: 40_000,
};
const KEYS: usize = 12;
const NAMES: usize = 300;

fn open(root: &Path) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, LIMITS).unwrap()
}

/// A store and the reference, which get the same changes.
struct Twins {
    stores: [Arc<dyn Store>; 2],
    /// Held for reading while rows are written, which is the same in any order; for writing while names
    /// change.
    gate: RwLock<()>,
    written: AtomicUsize,
    sessions: Mutex<Vec<[Begun; 2]>>,
    committed: AtomicUsize,
}

/// A session with a staged part.
type Begun = (Box<dyn WriteSession>, PartReceipt);

impl Twins {
    fn both<T>(&self, work: impl Fn(&Arc<dyn Store>) -> Result<T>, what: &str) -> bool {
        let [ours, reference] = self.stores.each_ref().map(|store| work(store).map(drop));
        let kind = |outcome: &Result<()>| outcome.as_ref().err().map(|error| error.kind());
        assert_eq!(kind(&ours), kind(&reference), "{what}: {ours:?}, {reference:?}");
        ours.is_ok()
    }

    fn rows(random: &mut Random) -> Vec<Row> {
        let row = |random: &mut Random| {
            let (id, partner_id) = (random.below(KEYS), random.below(KEYS));
            (format!("i{id}"), format!("p{partner_id}"), random.below(1_000) as i64)
        };
        (0..5).map(|_| row(random)).collect()
    }

    fn step(&self, random: &mut Random) {
        let any = |random: &mut Random| name(&format!("n{}", random.below(NAMES)));
        let (one, other, call) = (any(random), any(random), Call::default());
        let keep = if random.once_in(2) { Keep::All } else { Keep::Last };
        match random.below(15) {
            0..2 => {
                let _gate = self.gate.write();
                let options = TableOptions { keep, retention: None };
                self.both(|store| store.create_table(&one, &options, None, &call), "create");
            }
            2 => {
                let _gate = self.gate.write();
                self.both(|store| store.rename_table(&one, &other, &call), "rename");
            }
            3 => {
                let _gate = self.gate.write();
                self.both(|store| store.swap_tables(&one, &other, &call), "swap");
            }
            4 => {
                let _gate = self.gate.write();
                self.both(|store| store.drop_table(&one, &call), "drop");
            }
            5..9 => {
                let rows = Self::rows(random);
                let add = if random.once_in(3) { load } else { upsert };
                let _gate = self.gate.read();
                let add =
                    |store: &_| add(&Table::named(store, &one), &mut Batches::of_rows(&rows, 3));
                self.written.fetch_add(self.both(add, "add").into(), Relaxed);
            }
            9..11 => {
                let target = [Target::Id(format!("i{}", random.below(KEYS)))];
                let at = random.below(1_000) as i64;
                let _gate = self.gate.write();
                self.both(|store| erase(&Table::named(store, &one), &target, at), "erase");
            }
            11..13 => {
                let rows = Self::rows(random);
                let kind = if random.once_in(3) { WriteKind::Add } else { WriteKind::Replace };
                let _gate = self.gate.write();
                self.begin(&one, kind, &rows);
            }
            13 => {
                let _gate = self.gate.write();
                self.end_one(random.below(usize::MAX), random.once_in(4));
            }
            _ => {
                let table = Table::named(&self.stores[0], &one);
                if let Err(error) = table.compact() {
                    assert_eq!(error.kind(), ErrorKind::TableNotFound, "{error}");
                }
            }
        }
    }

    fn begin(&self, table: &TableName, kind: WriteKind, rows: &[Row]) {
        let call = Call::default();
        let begun = self.stores.each_ref().map(|store| -> Result<Begun> {
            let table = store.snapshot(&call)?.resolve(table, &call)?;
            let write = NewWrite { kind, sharing: Sharing::Local, ..NewWrite::load(table) };
            let session = store.begin(write, &call)?;
            let mut no_rejects = NoRejects;
            let ingest = Ingest::new(true, SeenAt::MAX, &mut no_rejects);
            let part =
                session.stage(None, &ingest.judged(&mut Batches::of_rows(rows, 3)), &call)?;
            Ok((session, part))
        });
        match begun {
            [Ok(ours), Ok(reference)] => self.sessions.lock().push([ours, reference]),
            [ours, reference] => {
                let [ours, reference] = [ours, reference].map(|begun| begun.err());
                let kind = |error: &Option<Error>| error.as_ref().map(Error::kind);
                assert_eq!(kind(&ours), kind(&reference), "begin: {ours:?}, {reference:?}");
            }
        }
    }

    /// Commits or aborts a session, which may have begun long before, under another name of its table.
    fn end_one(&self, which: usize, aborts: bool) {
        let mut sessions = self.sessions.lock();
        if sessions.is_empty() {
            return;
        }
        let begun = sessions.len();
        let ended = sessions.swap_remove(which % begun).map(|(session, part)| match aborts {
            true => session.abort(),
            false => session.commit(&[part], &Call::default()).map(drop),
        });
        let [ours, reference] = &ended;
        let kind = |outcome: &Result<()>| outcome.as_ref().err().map(Error::kind);
        assert_eq!(kind(ours), kind(reference), "end: {ours:?}, {reference:?}");
        self.committed.fetch_add(usize::from(!aborts && ours.is_ok()), Relaxed);
    }

    fn snapshots(&self) -> [Arc<dyn Snapshot>; 2] {
        let _gate = self.gate.write();
        self.stores.each_ref().map(|store| store.snapshot(&Call::default()).unwrap())
    }
}

/// Both have the same tables; every so many of them say the same, and fewer say the same to all questions.
fn compare([ours, reference]: &[Arc<dyn Snapshot>; 2], every: usize, what: &str) {
    let call = Call::default();
    let names = ours.tables(&call).unwrap();
    assert_eq!(names, reference.tables(&call).unwrap(), "{what}");
    let keys = |letter| (0..KEYS).map(|n| format!("{letter}{n}")).collect::<Vec<_>>();
    let (ids, partner_ids) = (keys('i'), keys('p'));
    for (number, name) in names.iter().step_by(every).enumerate() {
        let what = format!("{what}, {name}");
        let [ours, reference] =
            [ours, reference].map(|snapshot| snapshot.table_named(name, &call).unwrap());
        assert_eq!(ours.options(), reference.options(), "{what}");
        let looked_up = |table: &dyn TableSnapshot| {
            let keys = [(Side::Id, &ids), (Side::PartnerId, &partner_ids)];
            keys.map(|(by, keys)| looked_up(table, keys, Lookup::by(by)))
        };
        assert_eq!(looked_up(&*ours), looked_up(&*reference), "{what}");
        if number % 20 == 0 {
            let told =
                |table: &dyn TableSnapshot| whole(table, [&ids, &partner_ids], &[Window::ALL]);
            assert_same(&told(&*ours), &told(&*reference), &what);
        }
        let erasures =
            |table: &dyn TableSnapshot| table.stats(Counting::Metadata, &call).unwrap().erasures;
        assert_eq!(erasures(&*ours), erasures(&*reference), "{what}");
    }
}

#[test]
fn three_hundred_names_and_eight_threads_equal_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Arc::new(open(dir.path())) as Arc<dyn Store>;
    let reference: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let twins = Twins {
        stores: [open(), reference.clone()],
        gate: RwLock::default(),
        written: 0.into(),
        sessions: Mutex::default(),
        committed: 0.into(),
    };
    for number in (0..NAMES).step_by(2) {
        let (name, options) = (name(&format!("n{number}")), TableOptions::default());
        twins.both(|store| store.create_table(&name, &options, None, &Call::default()), "create");
    }
    let mut kept = Vec::new();
    std::thread::scope(|scope| {
        let twins = &twins;
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = Random::new(seed(), thread);
                    (0..60).for_each(|_| twins.step(&mut random));
                })
            })
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            let pair = twins.snapshots();
            compare(&pair, 7, "beside the threads");
            kept.push(pair);
            kept.truncate(3);
        }
    });
    assert!(twins.written.load(Relaxed) > 20, "{:?} writes", twins.written);
    assert!(twins.committed.load(Relaxed) > 2, "{:?} commits", twins.committed);
    // Sessions that nobody ends leave nothing.
    twins.sessions.lock().clear();
    kept.iter().for_each(|pair| compare(pair, 7, "an old snapshot"));
    drop(kept);
    compare(&twins.snapshots(), 1, "the end");
    let Twins { stores: [ours, _], .. } = twins;
    ours.close().unwrap();
    drop(ours);
    let reopened = [open(), reference];
    let snapshots = reopened.each_ref().map(|store| store.snapshot(&Call::default()).unwrap());
    compare(&snapshots, 1, "opened anew");
    drop((snapshots, reopened));
    assert_nothing_leaks_for_long(dir.path());
}
