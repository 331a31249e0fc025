//! The tables of a store: making them, and changing their options.

use crate::identity::Identity;
use crate::versions::VersionSet;
use crate::writer_lock::WriterLock;
use idmatch_model::{Period, TableName, TableOptions};
use idmatch_store::{Result, now};

/// Makes a table unless there is one with these options.
///
/// # Errors
/// `TableExists` if there is one with others, `InvalidArgument` for a retention of less than a day, `Busy` if
/// another process writes, `Io`.
pub(crate) fn create_table(
    versions: &VersionSet,
    lock: &WriterLock,
    name: &TableName,
    options: &TableOptions,
) -> Result<()> {
    versions.check_options(name, options)?;
    if versions.has_table(name) {
        return Ok(());
    }
    let _guard = lock.acquire()?;
    let id = versions.table_id(name)?;
    versions.publish(|manifest| manifest.entry(name, id, options).map(drop))
}

/// Sees to it that a table exists durably: the publication that made it may be in doubt.
///
/// # Errors
/// `TableNotFound`, `Busy` if another process writes, `Io`.
pub(crate) fn make_durable(
    versions: &VersionSet,
    lock: &WriterLock,
    table: Identity,
) -> Result<()> {
    let (version, name) = (versions.current(), versions.name_of(table)?);
    create_table(versions, lock, &name, &versions.table_of(&version, &name)?.options)
}

/// Sets the retention of a table. What a shorter one hides is kept for a day, so that it can be set back.
///
/// # Errors
/// `InvalidArgument` for less than a day, `TableNotFound`, `Busy` if another process writes, `Io`.
pub(crate) fn set_retention(
    versions: &VersionSet,
    lock: &WriterLock,
    name: &TableName,
    retention: Option<Period>,
) -> Result<()> {
    retention.as_ref().map_or(Ok(()), Period::check_retention)?;
    let _guard = lock.acquire()?;
    versions.table_of(&versions.current(), name)?;
    versions.publish(|manifest| {
        let confirmed = manifest.clock.confirmed;
        if let Some(entry) = manifest.table_mut(name) {
            // A clock that is behind must not shorten the day.
            entry.set_retention(retention, now().millis().max(confirmed));
        }
        Ok(())
    })
}
