//! A network file system: a store there can be read only.

use crate::common::{Batches, HookedDisk, Hooks, create, load, name, rows_of_all_kinds};
use idmatch_engine::EngineStore;
use idmatch_model::Keep;
use idmatch_store::{Call, Error, ErrorFields, ErrorKind, OpenTables};
use idmatch_testkit::LogCapture;
use std::sync::Arc;

/// Says that files are on NFS.
#[derive(Debug)]
struct OnNetwork;

impl Hooks for OnNetwork {
    const IS_SHARED: bool = false;

    fn network(&self) -> Option<&'static str> {
        Some("NFS")
    }
}

fn assert_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let instead = "the same call on a copy on a local disk".to_owned();
    assert_eq!(error.fields(), Some(&ErrorFields::Unsupported { instead }));
    assert!(error.to_string().contains("network file system (NFS)"), "{error}");
}

#[test]
fn a_store_on_a_network_file_system_can_be_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let (root, new) = (dir.path().join("store"), dir.path().join("new"));
    let rows = rows_of_all_kinds(50);
    let local = create(&EngineStore::open(&root).unwrap(), "t", Keep::Last).unwrap();
    load(&local, &mut Batches::of_rows(&rows, 50)).unwrap();

    let store = EngineStore::open_on(Arc::new(HookedDisk(OnNetwork)), &root).unwrap();
    let table = store.table(&name("t")).unwrap();
    assert!(table.last_seen(&rows[0].0, &rows[0].1).unwrap().is_some());
    assert_refused(&load(&table, &mut Batches::of_rows(&rows, 50)).unwrap_err());
    assert_refused(&table.compact().unwrap_err());
    let refused = EngineStore::recover(
        Arc::new(HookedDisk(OnNetwork)),
        &root,
        (false, false),
        &Call::default(),
    )
    .unwrap_err();
    assert_refused(&refused);

    let store = EngineStore::open_on(Arc::new(HookedDisk(OnNetwork)), &new).unwrap();
    assert_refused(&create(&store, "t", Keep::Last).err().unwrap());
    assert!(!new.exists());
}

#[test]
fn a_store_on_a_network_file_system_is_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    create(&EngineStore::open(dir.path()).unwrap(), "t", Keep::Last).unwrap();
    let log = LogCapture::new();
    EngineStore::open(dir.path()).unwrap();
    assert_eq!(log.take("WARN"), <[String; 0]>::default(), "a local disk is warned about");
    EngineStore::open_on(Arc::new(HookedDisk(OnNetwork)), dir.path()).unwrap();
    let warnings = log.take("WARN");
    assert!(matches!(&warnings[..], [one] if one.contains("kind=NFS")), "{warnings:?}");
}
