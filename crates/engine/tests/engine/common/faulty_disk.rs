//! A disk on which chosen operations fail.

use idmatch_engine::disk::{Disk, Lock, Mapped, NewFile, OpenFile, OsDisk};
use std::io::{self, Write};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How an operation fails.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// It does nothing but return this error.
    Error(io::ErrorKind),
    /// A write takes half of the bytes and says so, which is no error; others do not fail.
    ShortWrite,
    /// A write takes half of the bytes, then the disk is full; others fail at once.
    TornWrite,
    /// It panics.
    Panic,
    /// The process ends at once, as by a kill.
    Abort,
}

/// Real files. Operations are counted from 0, those on open files included, and a range of
/// them fails. Nothing is made durable: no test with it can tell, and they are many.
#[derive(Debug)]
pub(crate) struct FaultyDisk(Arc<Plan>);

#[derive(Debug)]
struct Plan {
    next: AtomicU64,
    failing: Range<u64>,
    fault: Fault,
}

impl Plan {
    /// Counts an operation; says how it is to fail.
    fn step(&self) -> Option<Fault> {
        self.failing.contains(&self.next.fetch_add(1, Relaxed)).then_some(self.fault)
    }

    /// Counts an operation that is no write.
    fn pass(&self) -> io::Result<()> {
        match self.step() {
            Some(Fault::Error(kind)) => Err(injected(kind)),
            Some(Fault::TornWrite) => Err(injected(io::ErrorKind::StorageFull)),
            Some(Fault::Panic) => panic!("injected panic"),
            Some(Fault::Abort) => std::process::abort(),
            Some(Fault::ShortWrite) | None => Ok(()),
        }
    }
}

fn injected(kind: io::ErrorKind) -> io::Error {
    io::Error::new(kind, "injected fault")
}

impl FaultyDisk {
    pub(crate) fn new(failing: Range<u64>, fault: Fault) -> FaultyDisk {
        FaultyDisk(Arc::new(Plan { next: AtomicU64::new(0), failing, fault }))
    }

    /// One that only leaves out making things durable.
    pub(crate) fn without_faults() -> FaultyDisk {
        FaultyDisk::new(u64::MAX..u64::MAX, Fault::ShortWrite)
    }

    /// Whether operations have come as far as the first that fails.
    pub(crate) fn was_hit(&self) -> bool {
        self.0.next.load(Relaxed) > self.0.failing.start
    }
}

impl Disk for FaultyDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.pass()?;
        OsDisk.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.pass()?;
        OsDisk.list(dir)
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        self.0.pass()?;
        Ok(Box::new(Faulty { inner: OsDisk.create(file)?, plan: self.0.clone() }))
    }

    fn create_unnamed(&self, dir: &Path) -> io::Result<(Box<dyn NewFile>, Box<dyn OpenFile>)> {
        self.0.pass()?;
        let (writer, reader) = OsDisk.create_unnamed(dir)?;
        Ok((
            Box::new(Faulty { inner: writer, plan: self.0.clone() }),
            Box::new(Faulty { inner: reader, plan: self.0.clone() }),
        ))
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.0.pass()?;
        OsDisk.read(file)
    }

    fn read_from(&self, file: &Path, offset: u64) -> io::Result<Vec<u8>> {
        self.0.pass()?;
        OsDisk.read_from(file, offset)
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn OpenFile>> {
        self.0.pass()?;
        Ok(Box::new(Faulty { inner: OsDisk.open(file)?, plan: self.0.clone() }))
    }

    fn map(&self, file: &Path) -> io::Result<Arc<dyn Mapped>> {
        self.0.pass()?;
        Ok(Arc::new(Faulty { inner: OsDisk.map(file)?, plan: self.0.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.pass()?;
        OsDisk.rename(from, to)
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.pass()?;
        OsDisk.link_or_copy(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.pass()?;
        OsDisk.link(from, to)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.pass()?;
        OsDisk.remove_dir_all(dir)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.0.pass()?;
        OsDisk.remove(file)
    }

    fn sync(&self, _: &Path) -> io::Result<()> {
        self.0.pass()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.0.pass()
    }

    fn try_lock(&self, file: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.0.pass()?;
        let plan = self.0.clone();
        Ok(OsDisk.try_lock(file)?.map(|inner| Box::new(Faulty { inner, plan }) as Box<dyn Lock>))
    }
}

/// An open file whose operations follow the plan of its disk.
struct Faulty<F> {
    inner: F,
    plan: Arc<Plan>,
}

impl Write for Faulty<Box<dyn NewFile>> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let half = &bytes[..bytes.len().div_ceil(2)];
        match self.plan.step() {
            None => self.inner.write(bytes),
            Some(Fault::ShortWrite) => self.inner.write(half),
            Some(Fault::TornWrite) => {
                self.inner.write_all(half)?;
                Err(injected(io::ErrorKind::StorageFull))
            }
            Some(Fault::Error(kind)) => Err(injected(kind)),
            Some(Fault::Panic) => panic!("injected panic"),
            Some(Fault::Abort) => std::process::abort(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl NewFile for Faulty<Box<dyn NewFile>> {
    fn sync(&mut self) -> io::Result<()> {
        self.plan.pass()
    }
}

impl OpenFile for Faulty<Box<dyn OpenFile>> {
    fn read_at(&self, piece: &mut [u8], offset: u64) -> io::Result<()> {
        self.plan.pass()?;
        self.inner.read_at(piece, offset)
    }
}

impl Mapped for Faulty<Arc<dyn Mapped>> {
    fn bytes(&self) -> &[u8] {
        self.inner.deref().bytes()
    }

    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        self.plan.pass()?;
        self.inner.populate(range)
    }
}

impl Lock for Faulty<Box<dyn Lock>> {
    fn read(&self) -> io::Result<Vec<u8>> {
        self.plan.pass()?;
        self.inner.read()
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.plan.pass()?;
        self.inner.write(bytes)
    }
}
