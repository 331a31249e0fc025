//! A disk in memory that can lose its power.
//!
//! What was not synced may be there afterwards or not: bytes of files, and names in folders,
//! each for itself. A file is what its last sync left, or more of it; a name is what the last
//! sync of its folder left, or what it was changed to since.

use idmatch_engine::disk::{Disk, Lock, Mapped, NewFile, OpenFile};
use idmatch_store::locks::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What becomes of that which was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsynced {
    Lost,
    Kept,
    /// Some of it is lost, by this seed: names, ends of files, and single pages before them.
    Torn(u64),
}

/// The disk. Clones share it.
#[derive(Clone)]
pub(crate) struct PowerDisk(Arc<Mutex<State>>);

#[derive(Default, Clone)]
struct State {
    files: Vec<FileState>,
    /// The file of each name, as it is and as it is durably; `None` for a folder.
    names: BTreeMap<PathBuf, Option<usize>>,
    durable_names: BTreeMap<PathBuf, Option<usize>>,
    locked: BTreeSet<PathBuf>,
    operations: u64,
    power_fails_at: Option<u64>,
}

#[derive(Default, Clone)]
struct FileState {
    bytes: Vec<u8>,
    durable: Vec<u8>,
}

impl PowerDisk {
    /// A disk with one folder.
    pub(crate) fn new(folder: &Path) -> PowerDisk {
        let names = BTreeMap::from([(folder.to_owned(), None)]);
        let state = State { durable_names: names.clone(), names, ..State::default() };
        PowerDisk(Arc::new(Mutex::new(state)))
    }

    /// The power will fail at an operation, counted from now.
    pub(crate) fn fail_in(&self, operations: u64) {
        let mut state = self.state();
        state.power_fails_at = Some(state.operations + operations);
    }

    /// Whether the power has failed.
    pub(crate) fn is_off(&self) -> bool {
        let state = self.state();
        state.power_fails_at.is_some_and(|at| state.operations > at)
    }

    /// The disk as it is found when the power is back.
    pub(crate) fn restarted(&self, unsynced: Unsynced) -> PowerDisk {
        let before = self.state().clone();
        let mut random = Random(match unsynced {
            Unsynced::Torn(seed) => seed | 1,
            _ => 1,
        });
        let keep = |random: &mut Random| match unsynced {
            Unsynced::Lost => false,
            Unsynced::Kept => true,
            Unsynced::Torn(_) => random.next().is_multiple_of(2),
        };
        let mut names = BTreeMap::new();
        let all: BTreeSet<&PathBuf> =
            before.names.keys().chain(before.durable_names.keys()).collect();
        for path in all {
            let (now, durable) = (before.names.get(path), before.durable_names.get(path));
            let found = if now == durable || keep(&mut random) { now } else { durable };
            // What is in a folder that is gone is gone too.
            let has_folder = path.parent().is_none_or(|parent| {
                names.contains_key(parent) || !before.names.contains_key(parent)
            });
            if let Some(found) = found.filter(|_| has_folder) {
                names.insert(path.clone(), *found);
            }
        }
        let files = before.files.iter().map(|file| {
            let bytes = match unsynced {
                Unsynced::Lost => file.durable.clone(),
                Unsynced::Kept => file.bytes.clone(),
                Unsynced::Torn(_) => torn(file, &mut random),
            };
            FileState { durable: bytes.clone(), bytes }
        });
        let files = files.collect();
        PowerDisk(Arc::new(Mutex::new(State {
            files,
            durable_names: names.clone(),
            names,
            ..State::default()
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Counts an operation; an error when there is no power.
    fn step(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.operations += 1;
        match state.power_fails_at {
            Some(at) if state.operations > at => Err(io::Error::other("the power failed")),
            _ => Ok(state),
        }
    }
}

/// A file that was being written: some length, some of the new pages zero.
fn torn(file: &FileState, random: &mut Random) -> Vec<u8> {
    const PAGE: usize = 64;
    let synced = file.durable.len();
    let len = synced + random.next() as usize % (file.bytes.len() - synced + 1);
    let mut bytes = file.bytes[..len].to_vec();
    let mut at = synced;
    while at < len {
        let end = (at + PAGE).min(len);
        if random.next().is_multiple_of(4) {
            bytes[at..end].fill(0);
        }
        at = end;
    }
    bytes
}

/// Xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}

impl State {
    fn file(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().flatten().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.files[self.file(path)?].bytes.clone())
    }
}

impl std::fmt::Debug for PowerDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PowerDisk")
    }
}

impl Disk for PowerDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        for folder in dir.ancestors().filter(|folder| folder.parent().is_some()) {
            state.names.entry(folder.to_owned()).or_insert(None);
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.step()?;
        if state.names.get(dir) != Some(&None) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect())
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut state = self.step()?;
        if state.names.get(file.parent().unwrap()) != Some(&None) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.names.contains_key(file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // A file that is made anew is another file: the old one's bytes may come back.
        let number = state.files.len();
        state.files.push(FileState::default());
        state.names.insert(file.to_owned(), Some(number));
        Ok(Box::new(Open { disk: self.clone(), number }))
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        self.step()?.bytes(file)
    }

    fn read_from(&self, file: &Path, offset: u64) -> io::Result<Vec<u8>> {
        let bytes = self.step()?.bytes(file)?;
        Ok(bytes.get(offset as usize..).unwrap_or_default().to_vec())
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(Bytes(self.step()?.bytes(file)?)))
    }

    fn map(&self, file: &Path) -> io::Result<Arc<dyn Mapped>> {
        Ok(Arc::new(Bytes(self.step()?.bytes(file)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        let file = state.file(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        let file = state.file(from)?;
        state.names.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        state.file(file)?;
        state.names.remove(file);
        Ok(())
    }

    fn sync(&self, file: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        let number = state.file(file)?;
        let file = &mut state.files[number];
        file.durable = file.bytes.clone();
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        let inside = |path: &PathBuf| path.parent() == Some(dir);
        let now: Vec<_> = state
            .names
            .iter()
            .filter(|(path, _)| inside(path))
            .map(|(p, f)| (p.clone(), *f))
            .collect();
        state.durable_names.retain(|path, _| !inside(path));
        state.durable_names.extend(now);
        Ok(())
    }

    fn try_lock(&self, file: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let mut state = self.step()?;
        if !state.locked.insert(file.to_owned()) {
            return Ok(None);
        }
        let number = state.files.len();
        let number = match state.names.get(file) {
            Some(Some(number)) => *number,
            _ => {
                state.files.push(FileState::default());
                state.names.insert(file.to_owned(), Some(number));
                number
            }
        };
        Ok(Some(Box::new(Held { disk: self.clone(), path: file.to_owned(), number })))
    }
}

struct Held {
    disk: PowerDisk,
    path: PathBuf,
    number: usize,
}

impl Lock for Held {
    fn read(&self) -> io::Result<Vec<u8>> {
        Ok(self.disk.step()?.files[self.number].bytes.clone())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.step()?;
        let there = &mut state.files[self.number].bytes;
        there.resize(there.len().max(bytes.len()), 0);
        there[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
    }
}

struct Open {
    disk: PowerDisk,
    number: usize,
}

impl Write for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.step()?;
        state.files[self.number].bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for Open {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.step()?;
        let file = &mut state.files[self.number];
        file.durable = file.bytes.clone();
        Ok(())
    }
}

struct Bytes(Vec<u8>);

impl OpenFile for Bytes {
    fn read_at(&self, piece: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset as usize + piece.len();
        let bytes = self.0.get(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        piece.copy_from_slice(bytes);
        Ok(())
    }
}

impl Mapped for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn populate(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }
}
