//! A network file system: a store there can be read only.

use crate::common::{Batches, create, load, name, rows_of_all_kinds};
use idmatch_engine::EngineStore;
use idmatch_engine::disk::{Disk, Lock, Mapped, NewFile, OpenFile, OsDisk};
use idmatch_model::Keep;
use idmatch_store::{Error, ErrorKind, OpenTables};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Real files, said to be on NFS.
#[derive(Debug)]
struct NetworkDisk;

impl Disk for NetworkDisk {
    fn network_file_system(&self, _: &Path) -> io::Result<Option<&'static str>> {
        Ok(Some("NFS"))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        OsDisk.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsDisk.list(dir)
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        OsDisk.create(file)
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        OsDisk.read(file)
    }

    fn read_from(&self, file: &Path, offset: u64) -> io::Result<Vec<u8>> {
        OsDisk.read_from(file, offset)
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn OpenFile>> {
        OsDisk.open(file)
    }

    fn map(&self, file: &Path) -> io::Result<Arc<dyn Mapped>> {
        OsDisk.map(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(from, to)
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.link_or_copy(from, to)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        OsDisk.remove(file)
    }

    fn sync(&self, file: &Path) -> io::Result<()> {
        OsDisk.sync(file)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        OsDisk.sync_dir(dir)
    }

    fn try_lock(&self, file: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        OsDisk.try_lock(file)
    }
}

fn assert_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("network file system (NFS)"), "{error}");
}

#[test]
fn a_store_on_a_network_file_system_can_be_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let (root, new) = (dir.path().join("store"), dir.path().join("new"));
    let rows = rows_of_all_kinds(50);
    let local = create(&EngineStore::open(&root).unwrap(), "t", Keep::Last).unwrap();
    load(&local, &mut Batches::of_rows(&rows, 50)).unwrap();

    let store = EngineStore::open_on(Arc::new(NetworkDisk), &root).unwrap();
    let table = store.table(&name("t")).unwrap();
    assert!(table.last_seen(&rows[0].0, &rows[0].1).unwrap().is_some());
    assert_refused(&load(&table, &mut Batches::of_rows(&rows, 50)).unwrap_err());
    assert_refused(&table.compact().unwrap_err());
    let refused = EngineStore::recover(Arc::new(NetworkDisk), &root, false, false).unwrap_err();
    assert_refused(&refused);

    let store = EngineStore::open_on(Arc::new(NetworkDisk), &new).unwrap();
    assert_refused(&create(&store, "t", Keep::Last).err().unwrap());
    assert!(!new.exists());
}
