//! Random tables: the engine answers like the in-memory reference.

use crate::common::{
    Batches, Row, ask, create, erase, load, name, open_apart, questions, runs, upsert,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, SeenAt, Target, Window};
use idmatch_store::{Call, OpenTables, Store};
use idmatch_testkit::MemoryStore;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Alike but for case, a space, a leading zero or the form of a letter; or nearly of a kind.
const ALIKE: [&str; 17] = [
    "a",
    "A",
    "a ",
    " a",
    "é",
    "e\u{301}",
    "7",
    "07",
    "007",
    "ab",
    "AB",
    "0",
    "18446744073709551615",
    "18446744073709551616",
    "01234567-89ab-cdef-0123-456789abcdef",
    "0123456789abcdef0123456789abcdef",
    "01234567-89AB-CDEF-0123-456789ABCDEF",
];

/// Few distinct identifiers, so that they meet: of every kind and of both extreme lengths.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(&ALIKE[..]).prop_map(str::to_owned),
        3 => (0u64..20).prop_map(|n| n.to_string()),
        2 => (0u128..8).prop_map(|n| format!("{:032x}", n * 0x0123_4567_89ab_cdef_fedc)),
        1 => (0u8..4).prop_map(|n| char::from(b'w' + n).to_string().repeat(1024)),
    ]
}

/// Few distinct dates, so that there are ties.
fn date() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0i64..6,
        2 => (0i64..6).prop_map(|n| 1_700_000_000_000 + n * 86_400_000),
        1 => Just(1_767_225_600_000i64),
    ]
}

/// What is done with a table.
#[derive(Debug, Clone)]
enum Action {
    Load(Vec<Row>),
    Upsert(Vec<Row>),
    Erase(Vec<Target>, i64),
    Compact,
    Reopen,
    Refresh,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((id(), id(), date()), 0..120)
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        2 => id().prop_map(Target::Id),
        2 => id().prop_map(Target::PartnerId),
        1 => (id(), id()).prop_map(|(id, partner_id)| Target::Pair { id, partner_id }),
    ]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        3 => rows().prop_map(Action::Load),
        3 => rows().prop_map(Action::Upsert),
        2 => (prop::collection::vec(target(), 1..4), date()).prop_map(|(t, at)| Action::Erase(t, at)),
        1 => Just(Action::Compact),
        1 => Just(Action::Reopen),
        1 => Just(Action::Refresh),
    ];
    prop::collection::vec(action, 1..8)
}

fn window() -> impl Strategy<Value = Window> {
    (prop::option::of(date()), prop::option::of(date())).prop_map(|(a, b)| {
        let instant = |ms: Option<i64>| ms.and_then(|ms| SeenAt::from_millis(ms).ok());
        let (since, until) = match (a, b) {
            (Some(a), Some(b)) => (Some(a.min(b)), Some(a.max(b))),
            open => open,
        };
        Window::new(instant(since), instant(until)).unwrap()
    })
}

/// From one segment a direction to the smallest pieces that there can be.
fn limits() -> impl Strategy<Value = MemoryLimits> {
    prop_oneof![
        4 => Just(MemoryLimits::default()),
        4 => Just(MemoryLimits {
            segment_rows: 30,
            chunk_bytes: 200,
            run_bytes: 600,
            population_bytes: 100,
            memtable_bytes: 5_000,
        }),
        1 => Just(MemoryLimits {
            segment_rows: 1,
            chunk_bytes: 1,
            run_bytes: 1,
            population_bytes: 40,
            memtable_bytes: 1
        }),
    ]
}

/// A folder in memory where there is one: a table in its smallest pieces is hundreds of files, each
/// of them synced.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn open(root: &Path, limits: MemoryLimits) -> EngineStore {
    EngineStore::open_with(Arc::new(OsDisk), root, limits).unwrap()
}

fn answers_like_the_reference(
    keep: Keep,
    actions: &[Action],
    windows: &[Window],
    limits: MemoryLimits,
) -> Result<(), TestCaseError> {
    let dir = folder();
    let reference = MemoryStore::new();
    let expected = create(&reference, "t", keep).unwrap();
    let mut store = open(dir.path(), limits);
    let mut table = create(&store, "t", keep).unwrap();
    let mut all = Vec::new();
    for action in actions {
        match action {
            Action::Load(rows) | Action::Upsert(rows) => {
                load(&expected, &mut Batches::of_rows(rows, 40)).unwrap();
                let mut batches = Batches::of_rows(rows, 17);
                match action {
                    Action::Load(_) => load(&table, &mut batches).unwrap(),
                    _ => upsert(&table, &mut batches).unwrap(),
                }
                all.extend_from_slice(rows);
            }
            Action::Erase(targets, at) => {
                let right = erase(&expected, targets, *at).unwrap();
                prop_assert_eq!(erase(&table, targets, *at).unwrap(), right, "{:?}", action);
            }
            Action::Compact => table.compact().unwrap(),
            Action::Refresh => store.refresh(&Call::default()).unwrap(),
            Action::Reopen => {
                // Closed or not: what was acknowledged is there.
                if all.len() % 2 == 1 {
                    store.end_writing().unwrap();
                }
                drop((table, store));
                store = open(dir.path(), limits);
                table = create(&store, "t", keep).unwrap();
            }
        }
    }
    let reader = open_apart(dir.path());
    let tables = [table, reader.table(&name("t")).unwrap()];
    for question in questions(&all, windows) {
        let right = ask(&expected, &question).unwrap();
        for table in &tables {
            prop_assert_eq!(&right, &ask(table, &question).unwrap(), "{:?}", question);
        }
    }
    for table in &tables {
        prop_assert_eq!(table.verify().unwrap(), vec![]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(runs(60) as u32) })]

    #[test]
    fn keep_last_answers_like_the_reference(
        actions in actions(), window in window(), limits in limits(),
    ) {
        answers_like_the_reference(Keep::Last, &actions, &[Window::ALL, window], limits)?;
    }

    #[test]
    fn keep_all_answers_like_the_reference(
        actions in actions(), window in window(), limits in limits(),
    ) {
        answers_like_the_reference(Keep::All, &actions, &[Window::ALL, window], limits)?;
    }
}

/// One key with rows on many pages and in several segments, which random tables never have.
#[test]
fn a_hot_key_answers_like_the_reference() {
    let rows: Vec<Row> = (0..5_000)
        .map(|n| {
            let id = if n % 3 == 0 { format!("{n:032x}") } else { format!("{n}@mail.example") };
            (id, "hot".to_owned(), 1_700_000_000_000 + n * 7_919 % 1_009)
        })
        .collect();
    let loads = [rows[..3_000].to_vec(), rows[2_000..].to_vec()];
    let instant = |n: i64| SeenAt::from_millis(1_700_000_000_000 + n).ok();
    let windows = [Window::ALL, Window::new(instant(300), instant(301)).unwrap()];
    let limits = MemoryLimits {
        segment_rows: 600,
        chunk_bytes: 10_000,
        run_bytes: 60_000,
        population_bytes: 1_000,
        memtable_bytes: 20_000,
    };
    for (keep, limits) in [(Keep::Last, MemoryLimits::default()), (Keep::All, limits)] {
        // Asking for every pair of a hot key on both stores would take minutes.
        let dir = folder();
        let (reference, store) = (MemoryStore::new(), open(dir.path(), limits));
        let expected = create(&reference, "t", keep).unwrap();
        let table = create(&store, "t", keep).unwrap();
        for rows in &loads {
            load(&expected, &mut Batches::of_rows(rows, 1_000)).unwrap();
            load(&table, &mut Batches::of_rows(rows, 700)).unwrap();
        }
        let asked: Vec<Row> = rows.iter().step_by(500).cloned().collect();
        for question in questions(&asked, &windows) {
            let right = ask(&expected, &question).unwrap();
            assert!(ask(&table, &question).unwrap() == right, "{question:?}");
        }
        assert_eq!(table.verify().unwrap(), []);
    }
}
