//! Handles of one directory in one process share the writer; each is closed for itself. A fork has no part in it.

use crate::common::{
    Batches, EVENT_TIMEOUT, GatedDisk, create, listed, load, name, open_apart, rows_of_all_kinds,
    upsert,
};
use idmatch_engine::{EngineStore, MemoryLimits};
use idmatch_model::Keep;
use idmatch_store::{ErrorKind, OpenTables, Store, Table};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::Duration;

fn write(table: &Table, id: &str) -> idmatch_store::Result<()> {
    upsert(table, &mut Batches::of_rows(&[(id.to_owned(), "p".to_owned(), 1_000)], 1))
}

fn has(table: &Table, id: &str) -> bool {
    table.last_seen(id, "p").unwrap().is_some()
}

#[test]
fn handles_of_one_process_share_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    // The first one is opened before there is a directory.
    let stores = [(); 3].map(|()| EngineStore::open(&root).unwrap());
    create(&stores[0], "t", Keep::Last).unwrap();
    let tables = stores.each_ref().map(|store| store.table(&name("t")).unwrap());
    for (number, table) in tables.iter().enumerate() {
        write(table, &format!("{number}")).unwrap();
        load(table, &mut Batches::of_rows(&rows_of_all_kinds(9), 5)).unwrap();
    }
    for table in &tables {
        assert!((0..3).all(|number| has(table, &number.to_string())));
    }
    // By another path, too.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&root, &link).unwrap();
    let linked = EngineStore::open(&link).unwrap().table(&name("t")).unwrap();
    write(&linked, "linked").unwrap();
    assert!(has(&tables[0], "linked"));

    // Reading goes on through a closed handle, and writing through the others.
    stores[0].close().unwrap();
    stores[0].close().unwrap();
    let refused = write(&tables[0], "late").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(refused.to_string().contains("is closed"), "{refused}");
    write(&tables[1], "on").unwrap();
    assert!(has(&tables[0], "on"));
}

#[test]
fn a_directory_that_was_made_anew_is_another_store() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let old = create(&EngineStore::open(&root).unwrap(), "t", Keep::Last).unwrap();
    write(&old, "old").unwrap();
    for is_written in [false, true] {
        std::fs::remove_dir_all(&root).unwrap();
        let store = EngineStore::open(&root).unwrap();
        assert_eq!(store.tables().unwrap(), []);
        if is_written {
            let table = create(&store, "t", Keep::Last).unwrap();
            write(&table, "new").unwrap();
            let again = EngineStore::open(&root).unwrap().table(&name("t")).unwrap();
            assert!(has(&again, "new") && !has(&again, "old"));
        } else {
            create(&store, "other", Keep::Last).unwrap();
        }
    }
    assert!(has(&old, "old"));
}

#[test]
fn a_directory_that_does_not_exist_yet_is_the_same_by_every_path() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let linked = EngineStore::open(&link.join("new/store")).unwrap();
    let store = EngineStore::open(&real.join("new/store")).unwrap();
    let table = create(&linked, "t", Keep::Last).unwrap();
    write(&table, "linked").unwrap();
    let table = store.table(&name("t")).unwrap();
    write(&table, "real").unwrap();
    assert!(has(&table, "linked"));
}

/// A flush that goes on after the last handle is dropped holds the lock for longer than a writer waits for
/// another process.
#[test]
fn a_store_that_is_opened_again_writes_after_the_flush_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let limits = MemoryLimits { memtable_bytes: 50_000, ..MemoryLimits::default() };
    let disk = GatedDisk::new();
    let open = || EngineStore::open_with(disk.clone(), &root, limits).unwrap();
    let store = open();
    let table = create(&store, "t", Keep::Last).unwrap();
    let gate = disk.close_for(".seg");
    let flushing = (0..).find(|number| {
        write(&table, &format!("{number}")).unwrap();
        // The flush has begun. Many more rows would wait for it.
        listed(&root.join("journal")).len() > 1
    });
    gate.reached.recv_timeout(EVENT_TIMEOUT).unwrap();
    drop((store, table));
    // Nobody waits to read.
    let store = open();
    let table = store.table(&name("t")).unwrap();
    assert!(has(&table, "0"));
    std::thread::scope(|scope| {
        let written = scope.spawn(|| write(&table, "again"));
        // As another process: it waits as long as it does, in vain.
        let apart = open_apart(&root).table(&name("t")).unwrap();
        assert_eq!(write(&apart, "apart").unwrap_err().kind(), ErrorKind::Busy);
        gate.open.send(()).unwrap();
        written.join().unwrap().unwrap();
    });
    assert!(has(&table, &flushing.unwrap().to_string()) && has(&table, "again"));
}

/// Starts a fork of this process, which works and then becomes another program.
fn fork(
    work: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> JoinHandle<io::Result<Child>> {
    let mut command = Command::new("true");
    // SAFETY: the work takes no lock that another thread of this process may have.
    #[allow(unsafe_code, reason = "there is no safe fork")]
    unsafe {
        command.pre_exec(work)
    };
    std::thread::spawn(move || command.spawn())
}

/// Also ends when the test has failed, with its folder.
fn wait_while_there(file: &Path) -> io::Result<()> {
    while file.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[test]
fn a_fork_does_not_keep_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    write(&table, "a").unwrap();
    let (mut was_begun, mut begun) = io::pipe().unwrap();
    let running = dir.path().join("running");
    std::fs::write(&running, "").unwrap();
    let may_run = running.clone();
    let forked = fork(move || {
        begun.write_all(b"!")?;
        wait_while_there(&may_run)
    });
    was_begun.read_exact(&mut [0]).unwrap();
    store.close().unwrap();
    // As another process: it finds nobody who writes.
    write(&open_apart(dir.path()).table(&name("t")).unwrap(), "b").unwrap();
    std::fs::remove_file(running).unwrap();
    assert!(forked.join().unwrap().unwrap().wait().unwrap().success());
}

#[test]
fn a_fork_does_not_release_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let store = EngineStore::open(dir.path()).unwrap();
    let table = create(&store, "t", Keep::Last).unwrap();
    write(&table, "a").unwrap();
    let apart = open_apart(dir.path()).table(&name("t")).unwrap();
    let (mut was_dropped, mut dropped) = io::pipe().unwrap();
    let running = dir.path().join("running");
    std::fs::write(&running, "").unwrap();
    let may_run = running.clone();
    // These handles are the last ones of the fork.
    let mut handles = Some((store, table));
    let forked = fork(move || {
        drop(handles.take());
        dropped.write_all(b"!")?;
        wait_while_there(&may_run)
    });
    was_dropped.read_exact(&mut [0]).unwrap();
    assert_eq!(write(&apart, "b").unwrap_err().kind(), ErrorKind::Busy);
    std::fs::remove_file(running).unwrap();
    assert!(forked.join().unwrap().unwrap().wait().unwrap().success());
    // This process's handles went with the command.
    write(&apart, "b").unwrap();
}
