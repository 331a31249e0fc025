//! Verification of a table: reads and checks all of it.
//!
//! Every segment is checked by itself. Then both directions are compared by a checksum: the number of their
//! visible observations, and the sum of a 128-bit hash of each. It depends neither on the order of rows nor on
//! how they are spread over segments. Must not know how damage is repaired.

use crate::cpu;
use crate::encoding::Packed;
use crate::hash_partition::HashPartition;
use crate::identity::Identity;
use crate::memtable::Commit;
use crate::scan::for_each_observation;
use crate::segment::Segment;
use crate::sync::Mutex;
use crate::versions::{Manifest, StoreVersion, TableVersion, VersionSet, list};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Call, ErrorKind, Finding, Result, Sum, Unit};
use std::path::Path;
use std::sync::Arc;
use tracing::warn;
use twox_hash::xxhash3_128::Hasher;

/// Verifies a table as it is now, and names files of the store that no manifest names and no writer removes.
/// Cost: every file of the table is read once, and every row once more in each direction.
///
/// # Errors
/// `TableNotFound`, `Io` and `Cancelled`; damage is a finding.
pub(crate) fn verify_table(
    versions: &VersionSet,
    id: Identity,
    call: &Call,
) -> Result<Vec<Finding>> {
    let mut findings = verify_content(versions, id, call)?;
    // A damaged manifest was found. Of files that a later version keeps, only that version can tell.
    match versions.kept_files() {
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::UnsupportedFormat) => {}
        kept => {
            let kept: Vec<_> = kept?.iter().map(|path| kept_file(path)).collect();
            log_findings("", &kept);
            findings.extend(kept);
        }
    }
    Ok(findings)
}

/// Verifies the table alone, without unnamed files in the store's folders.
pub(crate) fn verify_content(
    versions: &VersionSet,
    id: Identity,
    call: &Call,
) -> Result<Vec<Finding>> {
    let (version, last) = versions.point();
    let table = versions.table_of(&version, id)?;
    let findings = verify(versions, &version.manifest, (table, last), call)?;
    log_findings(table.name().as_str(), &findings);
    Ok(findings)
}

fn kept_file(path: &Path) -> Finding {
    Finding {
        place: path.display().to_string(),
        problem: "no manifest names this file, and no readable note in LOCK tells whether a later \
                  one did; it is kept. Remove it if nothing is missing in the store, else \
                  restore the store from a backup"
            .to_owned(),
    }
}

/// Logs the findings of a check.
pub(crate) fn log_findings(table: &str, findings: &[Finding]) {
    for Finding { place, problem } in findings {
        warn!(table, file = place, problem, "damage was found");
    }
}

/// Verifies every page, tombstone file and table file of a version, but not that directions agree. Cost: every
/// file is read once.
///
/// # Errors
/// `Io` and `Cancelled`; damage is a finding.
pub(crate) fn verify_files(
    versions: &VersionSet,
    version: &StoreVersion,
    call: &Call,
) -> Result<Vec<Finding>> {
    let (manifest, folder) = (&version.manifest, versions.segments());
    let tables = version.tables.values();
    let checked = tables.map(|table| check_files(versions, manifest, table, call));
    let mut findings = checked.collect::<Result<Vec<_>>>()?.concat();
    let of_names = manifest.tombstone_owner(Identity::default());
    for file in manifest.names_erasures.values().flatten() {
        let read = file.read(&*versions.disk, &folder, of_names);
        findings.extend(finding(read.map(drop), &folder.join(&file.file))?);
    }
    Ok(findings)
}

/// Damage as a finding.
///
/// # Errors
/// All other errors.
fn finding(checked: Result<()>, path: &Path) -> Result<Option<Finding>> {
    match checked {
        Ok(()) => Ok(None),
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::UnsupportedFormat) => {
            Ok(Some(Finding { place: path.display().to_string(), problem: e.to_string() }))
        }
        Err(e) => Err(e),
    }
}

/// The problems of a table and its files.
fn verify(
    versions: &VersionSet,
    manifest: &Manifest,
    (table, last): (&TableVersion, Commit),
    call: &Call,
) -> Result<Vec<Finding>> {
    let mut findings = check_files(versions, manifest, table, call)?;
    if findings.is_empty() {
        let by_id = checksum(table, Side::Id, last, call)?;
        let by_partner_id = checksum(table, Side::PartnerId, last, call)?;
        if by_id != by_partner_id {
            findings.push(Finding {
                place: "both directions".to_owned(),
                problem: format!(
                    "by id there are {} observations, by partner_id {}, and they are not the same; \
                     load the table anew or restore it from a backup",
                    by_id.rows, by_partner_id.rows
                ),
            });
        }
    }
    Ok(findings)
}

fn check_files(
    versions: &VersionSet,
    manifest: &Manifest,
    table: &TableVersion,
    call: &Call,
) -> Result<Vec<Finding>> {
    let findings = Mutex::new(Vec::new());
    let note = |checked: Result<()>, path: &Path| {
        finding(checked, path).map(|found| findings.lock().extend(found))
    };
    let all: Vec<&Arc<Segment>> = table.all_segments().collect();
    cpu::for_each(cpu::count(), &all, |segment| note(segment.check(call), segment.path()))?;
    let (disk, folder) = (&*versions.disk, versions.segments());
    note(versions.published().map(drop), &Manifest::path(&versions.root))?;
    // Another process may have replaced these files, which are read by name. A file is replaced if it is gone
    // and the manifest no longer names it.
    let is_replaced = |file: &str| -> Result<bool> {
        let there = list(disk, &folder)?;
        Ok(!there.iter().any(|name| name == file) && !versions.published()?.files().contains(file))
    };
    let owner = manifest.tombstone_owner(table.row_rules.table);
    for file in &table.entry().tombstones {
        if !is_replaced(&file.file)? {
            note(file.read(disk, &folder, owner).map(drop), &folder.join(&file.file))?;
        }
    }
    if let Some(file) = manifest.table_file(table.row_rules.table)
        && !is_replaced(file)?
    {
        note(manifest.check_table_file(disk, &folder, table.entry()), &folder.join(file))?;
    }
    for file in &manifest.history {
        if !is_replaced(&file.file)? {
            note(versions.history_file(file).map(drop), &folder.join(&file.file))?;
        }
    }
    let mut findings = findings.into_inner();
    findings.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(findings)
}

/// The sum of the visible observations of a direction.
fn checksum(table: &TableVersion, side: Side, last: Commit, call: &Call) -> Result<Sum> {
    let total = Mutex::new(Sum::default());
    let partitions: Vec<HashPartition> = HashPartition::all().collect();
    cpu::for_each(cpu::count(), &partitions, |partition| {
        call.check()?;
        let mut sum = Sum::default();
        for_each_observation(table, side, *partition, last, call, |key, value, seen_at| {
            let (id, partner_id) = match side {
                Side::Id => (key, value),
                Side::PartnerId => (value, key),
            };
            sum.add(observation_hash(id, partner_id, seen_at));
            Ok(())
        })?;
        call.report("compare", sum.rows, Unit::Rows)?;
        *total.lock() += sum;
        Ok(())
    })?;
    Ok(total.into_inner())
}

fn observation_hash(id: Packed<'_>, partner_id: Packed<'_>, seen_at: SeenAt) -> u128 {
    let mut hash = Hasher::new();
    for partition in [id, partner_id] {
        hash.write(&[partition.kind as u8]);
        hash.write(&(partition.payload.len() as u64).to_le_bytes());
        hash.write(partition.payload);
    }
    hash.write(&seen_at.millis().to_le_bytes());
    hash.finish_128()
}
