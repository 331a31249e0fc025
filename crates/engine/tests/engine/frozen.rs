//! A snapshot keeps what it shows, and the files of it; what a version is, and when it is another.

use crate::common::{
    Batches, Child, Row, assert_nothing_leaked, assert_same, create, erase, listed, load, manifest,
    name, role, rows_of_all_kinds, table_file, upsert, whole,
};
use idmatch_engine::disk::OsDisk;
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::{Keep, Period, TableOptions, Target, Window};
use idmatch_store::{
    Admin, Call, Counting, OpenTables, Snapshot, Status, Store, Table, Version, now,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const DAY: i64 = 86_400_000;

/// Rows of all kinds, seen lately.
fn rows() -> Vec<Row> {
    let today = now().millis_i64();
    let row = |(n, (id, partner_id, _)): (usize, Row)| {
        (id, partner_id, today - DAY * (n as i64 % 90) - DAY / 2)
    };
    rows_of_all_kinds(300).into_iter().enumerate().map(row).collect()
}

/// A table with two loads and a memtable.
fn filled(store: &EngineStore) -> Table {
    let retention = Some(Period::parse("100d").unwrap());
    let options = TableOptions { keep: Keep::All, retention };
    let table = store.table_with(&name("t"), &options).unwrap();
    for rows in rows()[..200].chunks(100) {
        load(&table, &mut Batches::of_rows(rows, 40)).unwrap();
    }
    upsert(&table, &mut Batches::of_rows(&rows()[200..], 40)).unwrap();
    table
}

fn paths(root: &Path) -> BTreeSet<PathBuf> {
    let inside = |folder: &str| {
        let folder = root.join(folder);
        listed(&folder).into_iter().map(move |name| folder.join(name))
    };
    inside("segments").chain(inside("journal")).collect()
}

/// Writes of every kind, after which no file is named that was before.
fn write_all(table: &Table) {
    let id = |n: usize| Target::Id(rows()[n].0.clone());
    erase(table, &[id(0), id(1), id(2)], now().millis_i64()).unwrap();
    table.set_retention(Some(Period::parse("20d").unwrap())).unwrap();
    let late: Vec<Row> = rows().into_iter().map(|(id, p, at)| (p, id, at)).collect();
    load(table, &mut Batches::of_rows(&late, 99)).unwrap();
    upsert(table, &mut Batches::of_rows(&late, 99)).unwrap();
    table.compact().unwrap();
    erase(table, &[id(7)], now().millis_i64()).unwrap();
    table.compact().unwrap();
}

#[test]
fn a_snapshot_answers_as_before_from_files_that_stay_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = filled(&store);
    let ids: Vec<String> = rows().into_iter().map(|row| row.0).collect();
    let partner_ids: Vec<String> = rows().into_iter().take(40).map(|row| row.1).collect();
    let snapshot = store.snapshot(&Call::default()).unwrap();
    let frozen = table.snapshot().unwrap();
    let told = || whole(&*frozen, [&ids, &partner_ids], &[Window::ALL]);
    let (before, files, tables) = (told(), paths(dir.path()), snapshot.tables(&Call::default()));
    assert!(before.iter().all(|(_, rows)| !rows.is_empty()));
    let version = frozen.version();

    write_all(&table);
    create(&store, "another", Keep::Last).unwrap();
    assert_same(&told(), &before, "after all writes");
    assert_eq!(frozen.version(), version);
    assert_eq!(frozen.options().retention, Some(Period::parse("100d").unwrap()));
    assert_eq!(snapshot.tables(&Call::default()).unwrap(), tables.unwrap());
    assert!(paths(dir.path()).is_superset(&files), "files of the snapshot are gone");
    // One of both is enough.
    drop(snapshot);
    assert_same(&told(), &before, "without the snapshot of all tables");
    assert!(paths(dir.path()).is_superset(&files), "files of the table's snapshot are gone");
    drop(frozen);
    assert_nothing_leaked(dir.path());
    assert!(paths(dir.path()).is_disjoint(&files), "nothing was written anew");
    assert_eq!(table.verify().unwrap(), []);
}

/// The files that the manifest does not name, by their bytes.
fn unnamed_bytes(root: &Path) -> u64 {
    let (table, json) = table_file(root, "t");
    let first = manifest(root).unwrap()["journal"]["first"].as_u64().unwrap();
    let history = &manifest(root).unwrap()["history"][0]["file"];
    let mut named = BTreeSet::from([table, history.as_str().unwrap().to_owned()]);
    for list in ["segments", "erasures"] {
        let files = json[list].as_array().unwrap().iter();
        named.extend(files.map(|file| file["file"].as_str().unwrap().to_owned()));
    }
    let is_unnamed = |path: &&PathBuf| {
        let file = path.file_name().unwrap().to_str().unwrap();
        let is_read = file.ends_with(".log") && *file >= *format!("{first:010}.log");
        !named.contains(file) && !is_read
    };
    paths(root).iter().filter(is_unnamed).map(|path| fs::metadata(path).unwrap().len()).sum()
}

/// The status of a writer whose replaced files are gone.
fn nothing_pinned() -> Status {
    Status { is_writer: true, ..Status::default() }
}

#[test]
fn the_status_tells_what_snapshots_keep() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = filled(&store);
    assert_eq!(store.status(), nothing_pinned());
    let first = store.snapshot(&Call::default()).unwrap();
    assert_eq!(store.status(), nothing_pinned(), "what is published is not pinned");
    let before = Instant::now();
    table.compact().unwrap();
    let after = Instant::now();
    let of_first = store.status();
    assert_eq!(of_first.pinned_bytes, unnamed_bytes(dir.path()));
    assert!(of_first.pinned_bytes > 10_000, "{of_first:?}");
    let second = store.snapshot(&Call::default()).unwrap();
    write_all(&table);
    let least = after.elapsed();
    let of_both = store.status();
    let age = of_both.oldest_pinned.unwrap();
    assert!(least <= age && age <= before.elapsed(), "{age:?}, at least {least:?}");
    assert_eq!(of_both.pinned_bytes, unnamed_bytes(dir.path()));
    assert!(of_both.pinned_bytes > of_first.pinned_bytes, "{of_both:?}");
    drop(first);
    let of_second = store.status();
    assert!(of_second.pinned_bytes < of_both.pinned_bytes, "{of_second:?}");
    assert!(of_second.oldest_pinned.unwrap() <= after.elapsed(), "{of_second:?}");
    drop(second);
    assert_eq!(store.status(), nothing_pinned());
    assert_nothing_leaked(dir.path());
}

#[test]
fn a_version_is_the_same_until_something_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let [root, backup, restored] =
        ["store", "backup", "restored"].map(|folder| dir.path().join(folder));
    let store = EngineStore::open(&root).unwrap();
    let table = filled(&store);
    let version = |store: &EngineStore| -> Version {
        let call = Call::default();
        let snapshot = store.snapshot(&call).unwrap();
        let of_table = snapshot.table(snapshot.resolve(&name("t"), &call).unwrap(), &call).unwrap();
        assert_eq!(of_table.version().0, snapshot.version());
        snapshot.version().unwrap()
    };
    let late = |n: i64| [(format!("late {n}"), "p".to_owned(), now().millis_i64() - n)];
    let mut versions = vec![version(&store)];
    let steps: [(&str, &dyn Fn()); 6] = [
        ("upsert", &|| upsert(&table, &mut Batches::of_rows(&late(1), 1)).unwrap()),
        ("load", &|| load(&table, &mut Batches::of_rows(&late(2), 1)).unwrap()),
        ("erase", &|| {
            erase(&table, &[Target::Id("nobody".to_owned())], now().millis_i64()).unwrap();
        }),
        ("compact", &|| table.compact().unwrap()),
        ("set_retention", &|| table.set_retention(None).unwrap()),
        ("create", &|| drop(create(&store, "another", Keep::Last).unwrap())),
    ];
    for (what, step) in steps {
        step();
        let now = version(&store);
        assert!(!versions.contains(&now), "{what}: {now:?}");
        // Reading changes nothing, nor does another handle.
        table.verify().unwrap();
        table.counted(Counting::All).unwrap();
        assert_eq!(version(&store), now, "{what}");
        assert_eq!(version(&EngineStore::open(&root).unwrap()), now, "{what}");
        versions.push(now);
    }
    store.backup(&backup, &Call::default()).unwrap();
    let now = version(&store);
    let restored = EngineStore::restore(&backup, &restored, true, &Call::default()).unwrap();
    let there = [&EngineStore::open(&backup).unwrap(), &restored].map(version);
    assert!(there[0] != there[1] && !there.contains(&now), "{there:?} {now:?}");
    assert!(there.iter().all(|version| !versions.contains(version)));
    // A restored store that is opened again goes on as itself.
    assert_eq!(there[1].store, now.store);
}

/// Threads of this process that remove files.
fn reapers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // It may have ended by now.
    let name =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.map(|task| name(task.unwrap())).filter(|name| name.starts_with("idmatch-reaper")).count()
}

/// Memory of this process that is of no file, in bytes.
fn own_memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
#[ignore = "started by a test of this file as another process"]
fn process_with_snapshots() {
    const OPEN: usize = 1_000;
    const AT_REST: usize = 100_000;
    let role = role();
    let limits = MemoryLimits { memtable_bytes: 100_000, ..MemoryLimits::default() };
    let store = EngineStore::open_with(Arc::new(OsDisk), &role.store, limits).unwrap();
    let tables: Vec<Table> =
        (0..20).map(|n| create(&store, &format!("t{n}"), Keep::Last).unwrap()).collect();
    let row = |n: usize| [(format!("i{n}"), "p".to_owned(), n as i64)];
    let write = |n: usize| {
        upsert(&tables[n % tables.len()], &mut Batches::of_rows(&row(n), 1)).unwrap();
    };
    let call = Call::default();
    let mut open: Vec<Arc<dyn Snapshot>> = Vec::new();
    for n in 0..OPEN {
        write(n);
        open.push(store.snapshot(&call).unwrap());
    }
    // Each shows what was written before it.
    for (n, snapshot) in open.iter().enumerate() {
        let tables = [n, n + 1].map(|n| {
            let id = snapshot.resolve(&name(&format!("t{}", n % 20)), &call).unwrap();
            snapshot.table(id, &call).unwrap()
        });
        assert!(tables[0].last_seen(&row(n)[0].0, "p", &call).unwrap().is_some(), "{n}");
        assert!(tables[1].last_seen(&row(n + 1)[0].0, "p", &call).unwrap().is_none(), "{n}");
    }
    let files = paths(&role.store).len();
    assert!(store.status().pinned_bytes > 0);
    drop(open);
    let reapers = reapers();
    // One may end while the next begins.
    assert!(reapers <= 2, "{reapers} threads remove files");
    assert_eq!(store.status(), nothing_pinned());
    let before = own_memory();
    let open: Vec<Arc<dyn Snapshot>> =
        (0..AT_REST).map(|_| store.snapshot(&call).unwrap()).collect();
    let each = own_memory().saturating_sub(before) / AT_REST;
    write(OPEN);
    drop(open);
    store.end_writing().unwrap();
    role.tell(&format!("{files} files, {each} bytes"));
}

/// They keep the files of each version, and a few bytes each.
#[test]
fn many_open_snapshots_cost_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Child::start("frozen::process_with_snapshots", dir.path());
    let told = child.hear().expect("the process has failed");
    let figures: Vec<usize> = told.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(figures[0] > 100, "{told}: hardly anything was flushed");
    assert!(figures[1] < 500, "{told} for a snapshot");
    child.finish();
    assert_nothing_leaked(dir.path());
}
