//! A network file system: a store there can be read only.

use crate::common::{Batches, HookedDisk, Hooks, create, load, name, rows_of_all_kinds};
use idmatch_engine::EngineStore;
use idmatch_model::Keep;
use idmatch_store::{Call, Error, ErrorFields, ErrorKind, OpenTables};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

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

/// Counts the warnings that name the kind of file system.
#[derive(Default)]
struct Warnings(Arc<AtomicUsize>);

impl Visit for &Warnings {
    fn record_str(&mut self, field: &Field, value: &str) {
        if (field.name(), value) == ("kind", "NFS") {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut &*self);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_store_on_a_network_file_system_is_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    create(&EngineStore::open(dir.path()).unwrap(), "t", Keep::Last).unwrap();
    let warnings = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Warnings(Arc::clone(&warnings)), || {
        EngineStore::open(dir.path()).unwrap();
        assert_eq!(warnings.load(Relaxed), 0, "a local disk is warned about");
        EngineStore::open_on(Arc::new(HookedDisk(OnNetwork)), dir.path()).unwrap();
        assert_eq!(warnings.load(Relaxed), 1);
    });
}
