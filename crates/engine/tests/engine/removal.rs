//! Files that nothing reads any more: what is removed, and what stays because it may be another file by now.

use crate::common::{
    Batches, EVENT_TIMEOUT, GatedDisk, create, listed, load, name, rows_of_all_kinds, upsert,
};
use idmatch_engine::EngineStore;
use idmatch_model::Keep;
use idmatch_store::{Admin, Call, OpenTables};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits until no thread removes files.
fn wait_for_reapers() {
    let is_reaping = || {
        let mut tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let name = |task: &Path| fs::read_to_string(task.join("comm")).unwrap_or_default();
        tasks.any(|task| name(&task).trim() == "idmatch-reaper")
    };
    let end = Instant::now() + EVENT_TIMEOUT;
    while is_reaping() {
        assert!(Instant::now() < end, "a thread still removes files");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A backup has hard links to the files of the store, under the same names.
#[test]
fn a_reader_of_a_store_that_was_restored_meanwhile_removes_no_file_of_it() {
    for is_writing in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (root, backup) = (dir.path().join("store"), dir.path().join("backup"));
        let disk = GatedDisk::new();
        let store = EngineStore::open_on(disk.clone(), &root).unwrap();
        let table = create(&store, "t", Keep::Last).unwrap();
        for rows in rows_of_all_kinds(300).chunks(100) {
            load(&table, &mut Batches::of_rows(rows, 100)).unwrap();
        }
        store.backup(&backup, &Call::default()).unwrap();
        let snapshot = table.snapshot().unwrap();
        table.compact().unwrap();
        if is_writing {
            let late = ("late".to_owned(), "p".to_owned(), 1_000);
            upsert(&table, &mut Batches::of_rows(&[late], 1)).unwrap();
        }

        fs::remove_dir_all(&root).unwrap();
        let restored = EngineStore::restore(&backup, &root, false, &Call::default()).unwrap();
        let files = listed(&root.join("segments"));
        // A thread is about to remove files, and looks whether it may.
        let gate = disk.close_for("MANIFEST");
        drop(snapshot);
        gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
        gate.open.send(()).unwrap();
        wait_for_reapers();
        assert_eq!(listed(&root.join("segments")), files, "writing: {is_writing}");
        assert_eq!(restored.table(&name("t")).unwrap().verify().unwrap(), []);
        drop((store, table));
    }
}
