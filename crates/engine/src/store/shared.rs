//! What a store and its tables share: the current view, and the steps of a write.

use super::Manifest;
use super::manifest::TableEntry;
use super::view::View;
use crate::disk::{Disk, Lock};
use crate::errors::io_error;
use crate::limits::MemoryLimits;
use crate::load::{LoadPlace, load};
use idmatch_model::{TableName, TableOptions};
use idmatch_store::{BatchSource, Error, ErrorKind, Ingest, Result};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

const LOCK: &str = "LOCK";
const SEGMENTS: &str = "segments";
const SCRATCH: &str = "scratch";

/// A reader that cleans up holds the lock for moments; a writer waits that long.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Shared {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    limits: MemoryLimits,
    view: RwLock<Arc<View>>,
    /// Held during a write: one at a time also within this process.
    writing: Mutex<()>,
}

impl Shared {
    pub(crate) fn open(disk: Arc<dyn Disk>, root: &Path, limits: MemoryLimits) -> Result<Shared> {
        let shared = Shared {
            disk,
            root: root.to_owned(),
            limits,
            view: RwLock::new(Arc::new(View::default())),
            writing: Mutex::new(()),
        };
        if Manifest::read(&*shared.disk, root)?.is_none() {
            if let Some(name) = first_foreign(&*shared.disk, root)? {
                return Err(Error::new(
                    ErrorKind::NotAStore,
                    format!(
                        "{} is not a store: it has no MANIFEST, but it has {name:?}; \
                         name a store, or a folder that is empty or does not exist",
                        root.display()
                    ),
                ));
            }
            return Ok(shared);
        }
        shared.refresh()?;
        shared.remove_leftovers_if_free();
        Ok(shared)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn limits(&self) -> MemoryLimits {
        self.limits
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// What is published, as far as this process knows.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over what any process has published.
    pub(crate) fn refresh(&self) -> Result<()> {
        match Manifest::read(&*self.disk, &self.root)? {
            Some(manifest) if manifest != self.view().manifest => {
                self.show(self.open_view(manifest)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn open_view(&self, manifest: Manifest) -> Result<View> {
        View::open(&*self.disk, &self.segments(), manifest, &self.view())
    }

    fn show(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }

    /// Refuses options that a table has not.
    pub(crate) fn check_options(&self, name: &TableName, options: &TableOptions) -> Result<()> {
        let view = self.view();
        view.tables.get(name).map_or(Ok(()), |table| same_options(name, &table.options, options))
    }

    pub(crate) fn create_table(&self, name: &TableName, options: &TableOptions) -> Result<()> {
        self.check_options(name, options)?;
        if self.view().tables.contains_key(name) {
            return Ok(());
        }
        self.write(|manifest| {
            if let Some(table) = manifest.tables.get(name) {
                return same_options(name, &table.options, options);
            }
            let entry = TableEntry { options: options.clone(), segments: Vec::new() };
            manifest.tables.insert(name.clone(), entry);
            Ok(())
        })
    }

    /// Loads into a table, which is made if there is none: all of the source is published, or
    /// nothing.
    pub(crate) fn load(
        &self,
        name: &TableName,
        options: &TableOptions,
        source: &mut dyn BatchSource,
        ingest: &Ingest<'_>,
    ) -> Result<()> {
        self.write(|manifest| {
            let table = manifest
                .tables
                .entry(name.clone())
                .or_insert_with(|| TableEntry { options: options.clone(), segments: Vec::new() });
            same_options(name, &table.options, options)?;
            let scratch = self.root.join(SCRATCH);
            self.disk.create_dir(&scratch).map_err(|e| io_error("make", &scratch, e))?;
            let next_file = AtomicU64::new(manifest.next_file);
            let place = LoadPlace {
                disk: &*self.disk,
                segments: &self.segments(),
                scratch: &scratch,
                next_file: &next_file,
                limits: self.limits,
            };
            table.segments.extend(load(&place, table.options.keep, source, ingest)?);
            manifest.next_file = next_file.load(Relaxed);
            Ok(())
        })
    }

    /// Changes the manifest under the lock. Where that fails, what `change` made is removed.
    fn write(&self, change: impl FnOnce(&mut Manifest) -> Result<()>) -> Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let segments = self.segments();
        self.disk.create_dir(&segments).map_err(|e| io_error("make", &segments, e))?;
        let _lock = self.lock()?;
        let published = self.published()?;
        self.remove_leftovers(&published)?;
        let mut manifest = published.clone();
        let done = change(&mut manifest).and_then(|()| {
            // Opened before it is published: a segment that cannot be read never is.
            let view = self.open_view(manifest.clone())?;
            if manifest != published {
                manifest.publish(&*self.disk, &self.root)?;
            }
            Ok(view)
        });
        match done {
            Ok(view) => self.show(view),
            Err(e) => {
                self.settle_after_failure();
                return Err(e);
            }
        }
        Ok(())
    }

    /// The manifest on disk. That there is none means an empty store only if there never was
    /// one: files are removed by its word.
    fn published(&self) -> Result<Manifest> {
        match Manifest::read(&*self.disk, &self.root)? {
            Some(manifest) => Ok(manifest),
            None if self.view().manifest == Manifest::default() => Ok(Manifest::default()),
            None => Err(Error::new(
                ErrorKind::NotAStore,
                format!("{} has lost its MANIFEST; restore it from a backup", self.root.display()),
            )),
        }
    }

    /// After a failed write: the manifest on disk decides, because the write may have got as
    /// far as replacing it. Files that it does not name go; where it cannot be read, nothing
    /// does. All of this is best effort: the next open does it again.
    fn settle_after_failure(&self) {
        if let Ok(now) = self.published()
            && let Ok(view) = self.open_view(now)
        {
            self.remove_leftovers(&view.manifest).ok();
            self.show(view);
        }
    }

    fn lock(&self) -> Result<Box<dyn Lock>> {
        let path = self.root.join(LOCK);
        for attempt in 0..LOCK_TRIES {
            if attempt > 0 {
                std::thread::sleep(LOCK_PAUSE);
            }
            let lock = self.disk.try_lock(&path).map_err(|e| io_error("lock", &path, e))?;
            if let Some(lock) = lock {
                return Ok(lock);
            }
        }
        Err(Error::new(
            ErrorKind::Busy,
            format!(
                "another process is writing {}; try again when it is done, reading is possible now",
                self.root.display()
            ),
        ))
    }

    /// Removes what a killed writer left, unless someone writes now or nothing may be removed here.
    fn remove_leftovers_if_free(&self) {
        if self.leftovers(&self.view().manifest).is_ok_and(|files| files.is_empty()) {
            return;
        }
        if let Ok(Some(_lock)) = self.disk.try_lock(&self.root.join(LOCK))
            && let Ok(Some(manifest)) = Manifest::read(&*self.disk, &self.root)
        {
            self.remove_leftovers(&manifest).ok();
        }
    }

    fn remove_leftovers(&self, manifest: &Manifest) -> Result<()> {
        for path in self.leftovers(manifest)? {
            self.disk.remove(&path).map_err(|e| io_error("remove", &path, e))?;
        }
        Ok(())
    }

    /// Files in the store's folders that the manifest does not name.
    fn leftovers(&self, manifest: &Manifest) -> Result<Vec<PathBuf>> {
        let named = manifest.files();
        let mut files = Vec::new();
        for folder in [self.segments(), self.root.join(SCRATCH)] {
            let names = match self.disk.list(&folder) {
                Ok(names) => names,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(io_error("list", &folder, e)),
            };
            let unnamed = names.iter().filter(|name| !named.contains(name.as_str()));
            files.extend(unnamed.map(|name| folder.join(name)));
        }
        Ok(files)
    }

    /// Copies the view to a new place; its manifest comes last, so that half a copy is no store.
    pub(crate) fn backup(&self, destination: &Path) -> Result<()> {
        let view = self.view();
        if Manifest::read(&*self.disk, &self.root)?.is_none() {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!("there is no store at {}; nothing was copied", self.root.display()),
            ));
        }
        if first_foreign(&*self.disk, destination)?.is_some() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{} is not empty; name a folder that is", destination.display()),
            ));
        }
        let segments = destination.join(SEGMENTS);
        self.disk.create_dir(&segments).map_err(|e| io_error("make", &segments, e))?;
        let copy = || -> Result<()> {
            for file in view.manifest.files() {
                let (from, to) = (self.segments().join(file), segments.join(file));
                self.disk.link_or_copy(&from, &to).map_err(|e| io_error("copy to", &to, e))?;
            }
            self.disk.sync_dir(&segments).map_err(|e| io_error("sync", &segments, e))?;
            view.manifest.publish(&*self.disk, destination)
        };
        copy().inspect_err(|_| self.remove_begun_backup(&view, destination))
    }

    /// Best effort, so that the same backup can be tried again. The manifest goes first, and
    /// if it stays so do the files: half a copy is never a store.
    fn remove_begun_backup(&self, view: &View, destination: &Path) {
        match self.disk.remove(&Manifest::path(destination)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {}
            _ => {
                for file in view.manifest.files() {
                    self.disk.remove(&destination.join(SEGMENTS).join(file)).ok();
                }
            }
        }
    }

    fn segments(&self) -> PathBuf {
        self.root.join(SEGMENTS)
    }
}

/// A name in a folder that a first write, or a backup that failed, cannot have left there.
fn first_foreign(disk: &dyn Disk, root: &Path) -> Result<Option<String>> {
    let list = |folder: &Path| match disk.list(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|e| io_error("open", folder, e)),
    };
    let begun = ["MANIFEST.new", LOCK, SEGMENTS, SCRATCH];
    let foreign = list(root)?.into_iter().find(|name| !begun.contains(&name.as_str()));
    Ok(foreign.or(list(&root.join(SEGMENTS))?.into_iter().next()))
}

fn same_options(name: &TableName, there: &TableOptions, wanted: &TableOptions) -> Result<()> {
    if there == wanted {
        return Ok(());
    }
    let words = |options: &TableOptions| {
        let retention = options.retention.as_ref().map_or("none".to_owned(), ToString::to_string);
        format!("keep {:?} and retention {retention}", options.keep).to_lowercase()
    };
    Err(Error::new(
        ErrorKind::TableExists,
        format!(
            "table {name} exists with {}, asked for were {}; use it as it is, or another name",
            words(there),
            words(wanted)
        ),
    ))
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("root", &self.root).finish_non_exhaustive()
    }
}
