//! A disk of this process on which one operation waits until the test lets it go on.

use idmatch_engine::disk::{Disk, Lock, Mapped, NewFile, OpenFile, OsDisk};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// The ending of the files that wait, and both ends of the test.
type Closed = (&'static str, Sender<()>, Receiver<()>);

/// Real files. The first read, link or making of a file with some ending waits once the gate is closed.
#[derive(Debug, Default)]
pub(crate) struct GatedDisk {
    gate: Mutex<Option<Closed>>,
}

/// Says when the operation waits, and lets it go on.
pub(crate) struct Gate {
    pub(crate) reached: Receiver<()>,
    pub(crate) open: Sender<()>,
}

impl GatedDisk {
    pub(crate) fn new() -> Arc<GatedDisk> {
        Arc::default()
    }

    /// Closes the gate for the next read, link or making of a file with this ending.
    pub(crate) fn close_for(&self, ending: &'static str) -> Gate {
        let (reached, was_reached) = channel();
        let (open, opened) = channel();
        *self.gate.lock().unwrap() = Some((ending, reached, opened));
        Gate { reached: was_reached, open }
    }

    fn pass(&self, file: &Path) {
        let is_gated = |(ending, ..): &mut Closed| file.to_string_lossy().ends_with(*ending);
        let gate = self.gate.lock().unwrap().take_if(is_gated);
        if let Some((_, reached, opened)) = gate {
            reached.send(()).unwrap();
            opened.recv().unwrap();
        }
    }
}

impl Disk for GatedDisk {
    fn is_shared(&self) -> bool {
        true
    }

    fn directory_id(&self, dir: &Path) -> Option<(u64, u64)> {
        OsDisk.directory_id(dir)
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.pass(file);
        OsDisk.read(file)
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(from);
        OsDisk.link_or_copy(from, to)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        OsDisk.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsDisk.list(dir)
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        self.pass(file);
        OsDisk.create(file)
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
