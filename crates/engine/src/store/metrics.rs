//! The figures of a directory for Prometheus: the counters of its owners, and values that are read at each
//! scrape (memory, files, versions).

use super::owners::Owners;
use crate::compaction::pending_bytes;
use crate::disk::Disk;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::path::Path;

/// Adds all figures of a directory.
pub(super) fn register(owners: &Owners, registry: &mut Registry) {
    let Owners { versions, lock, compactor, .. } = owners;
    versions.metrics.register(registry);
    versions.background.errors.register(registry);
    let version = versions.current();
    let (mut rows, mut segments, mut pending) = (0, 0, 0);
    for table in version.tables.values() {
        rows += table.memtables().iter().map(|memtable| memtable.rows()).sum::<u64>();
        segments += table.all_segments().count();
        pending += pending_bytes(table, &version.manifest.clock, versions.limits);
    }
    let pinned = versions.reaper.status();
    let gauge = |registry: &mut Registry, name: &str, about: &str, value: u64| {
        registry.register(name, about, ConstGauge::new(signed(value)));
    };
    gauge(registry, "tables", "Tables", version.tables.len() as u64);
    gauge(registry, "segments", "Segments of the current version", segments as u64);
    let about = "Rows in memory that are in no segment yet";
    gauge(registry, "memtable_rows", about, rows);
    let about = "By how many overlapping segments a range is beyond the limit at which upserts are slowed down";
    gauge(registry, "segments_beyond_slowdown", about, compactor.stall_level() as u64);
    let bytes = |registry: &mut Registry, name: &str, about: &str, value: u64| {
        registry.register_with_unit(name, about, Unit::Bytes, ConstGauge::new(signed(value)));
    };
    let about = "Memory that these take";
    bytes(registry, "memtable", about, version.memtable_bytes() as u64);
    let about = "Memory that memtables may take";
    bytes(registry, "memtable_limit", about, versions.limits.memtable_bytes as u64);
    let about = "Files of the journal";
    bytes(registry, "journal", about, journal_bytes(&*versions.disk, &versions.journal()));
    let about = "Segments that compactions in the background will rewrite";
    bytes(registry, "pending_compaction", about, pending);
    let about = "Files that only open snapshots and running reads still need";
    bytes(registry, "pinned", about, pinned.pinned_bytes);
    let about = "How long ago the oldest version that is still read was replaced";
    let oldest = pinned.oldest_pinned.unwrap_or_default().as_secs_f64();
    registry.register_with_unit("oldest_pinned", about, Unit::Seconds, ConstGauge::new(oldest));
    let about = "Whether this process is the writer of the store";
    gauge(registry, "is_writer", about, lock.held().is_some().into());
    let about =
        "Pages of mapped files and memory that this process has waited for: reads of the disk";
    registry.register(
        "major_page_faults",
        about,
        ConstCounter::new(major_page_faults(&*versions.disk)),
    );
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A file that was removed meanwhile takes no space.
fn journal_bytes(disk: &dyn Disk, folder: &Path) -> u64 {
    let names = disk.list(folder).unwrap_or_default();
    names.iter().filter_map(|name| disk.len(&folder.join(name)).ok()).sum()
}

/// The twelfth field; the second one may have spaces, and ends with a bracket.
fn major_page_faults(disk: &dyn Disk) -> u64 {
    let stat = disk.read(Path::new("/proc/self/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(9).and_then(|faults| faults.parse().ok()).unwrap_or(0)
}
