//! The tables of a store: making, renaming, swapping and dropping them, and changing their options.
//!
//! Erasures outlive tables: a table that leaves a name leaves its tombstones there, and a table that takes a
//! name takes the tombstones that it finds. Must not know rows.
//!
//! Invariants: a change is one publication. No erasure runs meanwhile, so each erasure applies to the table
//! that has its name at that time.

use crate::erase::Eraser;
use crate::identity::Identity;
use crate::sync::RankedGuard;
use crate::tombstones::{TombstoneFile, TombstoneSet};
use crate::versions::{FileNames, Manifest, TableVersion, VersionSet, same_options};
use crate::write::WritePath;
use crate::writer_lock::{WriterGuard, WriterLock};
use idmatch_model::{Period, TableName, TableOptions};
use idmatch_store::{Call, Error, Result, now};
use std::sync::Arc;

/// The owners that changes of the catalog need.
pub(crate) struct Catalog<'a> {
    pub(crate) versions: &'a VersionSet,
    pub(crate) lock: &'a WriterLock,
    pub(crate) writes: &'a Arc<WritePath>,
    pub(crate) eraser: &'a Eraser,
}

impl Catalog<'_> {
    /// Makes a table unless there is one with these options. Returns its identity.
    ///
    /// # Errors
    /// `TableExists` if there is one with other options, `InvalidArgument` for a retention of less than a
    /// day, `Busy` if another process writes, `Io`, `Cancelled`.
    pub(crate) fn create(
        &self,
        name: &TableName,
        options: &TableOptions,
        call: &Call,
    ) -> Result<Identity> {
        if let Some(there) = self.versions.current().named(name) {
            same_options(name, &there.options, options)?;
            if self.versions.is_durable() {
                return Ok(there.row_rules.table);
            }
        } else {
            options.check()?;
        }
        let _locked = self.lock(call)?;
        let new = Identity::random()?;
        let left = self.left_at(name)?;
        let mut id = new;
        self.versions.add_segments(
            |names| self.eraser.write_new(names, new, &left),
            |file| {
                self.versions.publish(|manifest| {
                    id = manifest.make_table(name, new, options)?;
                    if let Some(file) = file {
                        manifest.table_mut(id)?.tombstones.push(file);
                        manifest.names_erasures.remove(name);
                    }
                    Ok(())
                })
            },
        )?;
        Ok(id)
    }

    /// Sets the retention of a table. Rows that a shorter retention hides are kept for a day, so that it can
    /// be set back.
    ///
    /// # Errors
    /// `InvalidArgument` for less than a day, `TableNotFound`, `Busy` if another process writes, `Io`.
    pub(crate) fn set_retention(
        &self,
        id: Identity,
        retention: Option<Period>,
        call: &Call,
    ) -> Result<()> {
        retention.as_ref().map_or(Ok(()), Period::check_retention)?;
        let _guard = self.lock.acquire_for(call)?;
        self.versions.publish(|manifest| {
            // A clock that is behind must not shorten the day.
            let now = now().millis().max(manifest.clock.confirmed);
            manifest.table_mut(id)?.set_retention(retention, now);
            Ok(())
        })
    }

    /// Gives a table another name.
    ///
    /// # Errors
    /// `TableNotFound`; `TableExists` if the name is taken; `Busy`, `Io`, `Cancelled`.
    pub(crate) fn rename(&self, from: &TableName, to: &TableName, call: &Call) -> Result<()> {
        let _locked = self.lock(call)?;
        let version = self.versions.current();
        let table = self.versions.table_named(&version, from)?;
        if version.named(to).is_some() {
            return Err(Error::name_taken(to));
        }
        let (id, taken) = (table.row_rules.table, self.left_at(to)?);
        self.versions.add_segments(
            |names| {
                let taken = self.eraser.write_added(names, (table, &version), taken)?;
                Ok((taken, self.write_left(names, table)?))
            },
            |(taken, left)| {
                self.writes.sync_upserts()?;
                self.versions.publish(|manifest| {
                    manifest.names_erasures.remove(to);
                    left.enter(manifest);
                    let entry = manifest.table_mut(id)?;
                    entry.name = to.clone();
                    taken.enter_unsearched(entry, table);
                    Ok(())
                })
            },
        )
    }

    /// Exchanges the names of two tables.
    ///
    /// # Errors
    /// `TableNotFound`, `Busy`, `Io`, `Cancelled`.
    pub(crate) fn swap(&self, one: &TableName, other: &TableName, call: &Call) -> Result<()> {
        let _locked = self.lock(call)?;
        let version = self.versions.current();
        let first = self.versions.table_named(&version, one)?;
        let second = self.versions.table_named(&version, other)?;
        if first.row_rules.table == second.row_rules.table {
            return Ok(());
        }
        self.versions.add_segments(
            |names| {
                let of =
                    |table, from| self.eraser.write_added(names, (table, &version), all_of(from));
                Ok([(first, other, of(first, second)?), (second, one, of(second, first)?)])
            },
            |changes| {
                self.writes.sync_upserts()?;
                self.versions.publish(|manifest| {
                    for (table, name, taken) in changes {
                        let entry = manifest.table_mut(table.row_rules.table)?;
                        entry.name = name.clone();
                        taken.enter_unsearched(entry, table);
                    }
                    Ok(())
                })
            },
        )
    }

    /// Removes a table. Its files are removed when no snapshot shows it any more, and no journal file has
    /// rows of it.
    ///
    /// # Errors
    /// `TableNotFound`, `Busy`, `Io`, `Cancelled`.
    pub(crate) fn drop_table(&self, name: &TableName, call: &Call) -> Result<()> {
        let _locked = self.lock(call)?;
        let version = self.versions.current();
        let table = self.versions.table_named(&version, name)?;
        let id = table.row_rules.table;
        self.versions.add_segments(
            |names| self.write_left(names, table),
            |left| {
                self.writes.at_rest(|journal| {
                    self.versions.publish(|manifest| {
                        left.enter(manifest);
                        manifest.drop_table(id, journal, now().millis())
                    })
                })
            },
        )
    }

    /// Keeps out erasures, other changes of the catalog, and other processes.
    fn lock(&self, call: &Call) -> Result<(RankedGuard<'_, ()>, Arc<WriterGuard>)> {
        let erasing = self.eraser.pause(call)?;
        let guard = self.lock.acquire_for(call)?;
        if !self.versions.is_durable() {
            self.versions.publish(|_| Ok(()))?;
        }
        Ok((erasing, guard))
    }

    /// The tombstones that tables have left at a name.
    fn left_at(&self, name: &TableName) -> Result<TombstoneSet> {
        let (version, folder) = (self.versions.current(), self.versions.segments());
        let (manifest, mut all) = (&version.manifest, TombstoneSet::default());
        for file in manifest.names_erasures.get(name).into_iter().flatten() {
            let owner = manifest.tombstone_owner(Identity::default());
            all.add_all(&file.read(&*self.versions.disk, &folder, owner)?);
        }
        Ok(all)
    }

    /// Writes the tombstones that a table leaves at its name.
    fn write_left(&self, names: &FileNames<'_>, table: &TableVersion) -> Result<Left> {
        let file = self.eraser.write_new(names, Identity::default(), &all_of(table))?;
        Ok(Left { name: table.name().clone(), file })
    }
}

/// The tombstones that a table leaves at a name.
struct Left {
    name: TableName,
    file: Option<TombstoneFile>,
}

impl Left {
    fn enter(self, manifest: &mut Manifest) {
        if let Some(file) = self.file {
            manifest.names_erasures.insert(self.name, vec![file]);
        }
    }
}

fn all_of(table: &TableVersion) -> TombstoneSet {
    let mut all = TombstoneSet::default();
    table.row_rules.tombstones.sets().iter().for_each(|set| all.add_all(set));
    all
}
