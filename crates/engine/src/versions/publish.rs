//! A publication: table files, the manifest, and then the version that readers see.
//!
//! Invariants: the caller has the writer lock. Table files are durable before the manifest names them, and a
//! version is opened before it is published. A file that the manifest no longer names is removed with the
//! last version that has it.

use super::paths::LOCK;
use super::{FileNames, LockNote, Manifest, OpenSegments, StoreVersion, TableEntry, VersionSet};
use crate::disk::{io_error, place};
use crate::identity::{Hex64, Identity};
use crate::sync::Ordering::Relaxed;
use idmatch_model::{TableName, TableOptions};
use idmatch_store::{Error, ErrorKind, Result, now};
use std::sync::Arc;
use tracing::warn;

impl VersionSet {
    /// Changes the manifest.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Manifest) -> Result<()>) -> Result<()> {
        let _collected = self.collect_obsolete();
        let _publishing = self.lock_publish();
        self.publish_locked(change, |version| version)
    }

    /// Changes the manifest for a caller that holds the publish lock; `adapt` may change the new version.
    pub(crate) fn publish_locked(
        &self,
        change: impl FnOnce(&mut Manifest) -> Result<()>,
        adapt: impl FnOnce(StoreVersion) -> StoreVersion,
    ) -> Result<()> {
        let published = self.published()?;
        if self.is_replaced(&published) && !self.manifest_in_doubt.load(Relaxed) {
            let what = format!(
                "the MANIFEST of {} was replaced while this process was writing; nothing was \
                 published. Close the store and open it again",
                self.root.display()
            );
            let path = Manifest::path(&self.root);
            return Err(Error::new(ErrorKind::Corrupt, what).with_fields(place(&path, None)));
        }
        let mut manifest = published.clone();
        change(&mut manifest)?;
        manifest.forget_dropped(now().millis());
        if manifest == published
            && published.is_published()
            && !self.manifest_in_doubt.load(Relaxed)
        {
            self.install(adapt(self.open_version(manifest, &mut OpenSegments::new())?));
            return Ok(());
        }
        manifest.generation += 1;
        manifest.publication = Hex64::random()?;
        manifest.commit = self.last_commit().max(manifest.commit);
        let now = now().millis();
        manifest.clock.note(now);
        let names = FileNames::new(&self.next_file);
        let outcome = self.write_and_install(manifest, &published, &names, now, adapt);
        // The manifest may have been replaced in spite of the error: the manifest on disk decides.
        outcome.inspect_err(|_| self.remove_unpublished(&names.taken()))
    }

    fn write_and_install(
        &self,
        mut manifest: Manifest,
        published: &Manifest,
        names: &FileNames<'_>,
        now: u64,
        adapt: impl FnOnce(StoreVersion) -> StoreVersion,
    ) -> Result<()> {
        let folder = self.segments();
        manifest.write_tables(&*self.disk, &folder, published, now, || names.take_for("tab"))?;
        manifest.next_file = self.next_file.load(Relaxed);
        let bytes = manifest.encode()?;
        // The version is opened before it is published, so that no unreadable segment is published.
        let version = adapt(self.open_version(manifest.clone(), &mut OpenSegments::new())?);
        // The doubt remains after a panic in between, too.
        self.manifest_in_doubt.store(true, Relaxed);
        if let Err(e) = Manifest::publish(&*self.disk, &self.root, &bytes) {
            if let Ok(now) = self.published()
                && now.publication == manifest.publication
            {
                // The new manifest may not be durable, so the files of the one before stay.
                self.install(version);
                warn!(
                    file = %Manifest::path(&self.root).display(),
                    generation = manifest.generation,
                    error = e.chain(),
                    "a manifest may not be durable: the next publication makes it so"
                );
            }
            return Err(e);
        }
        self.manifest_in_doubt.store(false, Relaxed);
        self.current().mark_obsolete_files(&version);
        self.install(version);
        self.note_in_lock(&manifest).ok();
        Ok(())
    }

    /// Notes the published generation in LOCK. An older note protects less, and harms nothing.
    pub(crate) fn note_in_lock(&self, manifest: &Manifest) -> Result<()> {
        let Some(lock) = self.reaper.held() else { return Ok(()) };
        let kept_before = self.kept_before.load(Relaxed);
        let note = LockNote::of_this_process(manifest, kept_before);
        let path = self.root.join(LOCK);
        lock.write(&note.encode()?).map_err(|e| io_error("write", &path, e))
    }

    /// Whether a manifest in place is another one than this process has published or read last.
    pub(super) fn is_replaced(&self, published: &Manifest) -> bool {
        let known = &self.current().manifest;
        known.is_published() && published.publication != known.publication
    }

    /// The manifest on disk. A missing one means an empty store only if there never was one: the
    /// manifest decides which files are removed.
    pub(crate) fn published(&self) -> Result<Manifest> {
        let current = self.current();
        match Manifest::read(&*self.disk, &self.root, &current.manifest)? {
            Some(manifest) => Ok(manifest),
            None if !current.manifest.is_published() => Ok(Manifest::clone(&current.manifest)),
            None => Err(Error::new(
                ErrorKind::NotAStore,
                format!("{} has lost its MANIFEST; restore it from a backup", self.root.display()),
            )),
        }
    }
}

impl Manifest {
    /// Makes a table of this identity, or finds the table of that name with the same options. Returns its
    /// identity.
    ///
    /// # Errors
    /// `TableExists` for other options.
    pub(crate) fn make_table(
        &mut self,
        name: &TableName,
        id: Identity,
        options: &TableOptions,
    ) -> Result<Identity> {
        match self.named(name) {
            Some(there) => {
                same_options(name, &there.options.table_options(), options).map(|()| there.id)
            }
            None => {
                self.tables.insert(id, Arc::new(TableEntry::new(id, name.clone(), options)));
                Ok(id)
            }
        }
    }
}

/// Refuses other options than those of an existing table.
pub(crate) fn same_options(
    name: &TableName,
    there: &TableOptions,
    wanted: &TableOptions,
) -> Result<()> {
    if there == wanted { Ok(()) } else { Err(Error::other_options(name, there, wanted)) }
}
