//! Handles of one directory in one process share the writer; each is closed for itself.

use crate::common::{Batches, create, load, name, rows_of_all_kinds, upsert};
use idmatch_engine::EngineStore;
use idmatch_model::Keep;
use idmatch_store::{ErrorKind, OpenTables, Store, Table};

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
