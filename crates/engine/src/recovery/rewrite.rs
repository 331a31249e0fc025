//! Rewriting a table: both directions are rebuilt from all rows that can be read in either.
//!
//! It is a load whose source is the table's own segments. So its result is as good as a load's, and nothing
//! changes before all of it is there. It needs the disk space of a second copy.

use super::readable_rows::ReadableRows;
use crate::load::{LoadPlace, StagingFiles, load};
use crate::segment::SegmentInfo;
use crate::versions::{FileNames, TableVersion, VersionSet};
use idmatch_model::Side;
use idmatch_store::{Call, Error, ErrorKind, Result, stored_rows};
use tracing::warn;

/// Writes all readable rows of a table as new segments; returns how many may be lost. `missing` is the number
/// of rows of each direction in segments that do not open.
pub(super) fn rewrite(
    versions: &VersionSet,
    names: &FileNames<'_>,
    table: &TableVersion,
    missing: [u64; 2],
    accept_loss: bool,
    call: &Call,
) -> Result<(Vec<SegmentInfo>, u64)> {
    let (folder, files) = (versions.segments(), StagingFiles::new(versions)?);
    let place = LoadPlace {
        disk: &*versions.disk,
        folder: &folder,
        new_path: &|| folder.join(names.take()),
        limits: versions.limits,
        call,
    };
    let mut rows = ReadableRows::new(table, missing);
    let made = load(&place, &files, &table.row_rules, &stored_rows(&mut rows))?;
    match rows.lost_at_most() {
        lost if lost == 0 || accept_loss => {
            let by_id = made.iter().filter(|segment| segment.side == Side::Id);
            let rows: u64 = by_id.map(|segment| segment.rows).sum();
            warn!(table = %table.name(), rows, lost_at_most = lost, "table is rebuilt");
            Ok((made, lost))
        }
        lost => Err(would_lose(&format!(
            "{} rows of table {} cannot be read by id, {} cannot by partner_id: up to {lost}",
            rows.unreadable(Side::Id),
            table.name(),
            rows.unreadable(Side::PartnerId)
        ))),
    }
}

/// The error of an operation that would lose data without the caller's consent.
pub(super) fn would_lose(lost: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "{lost} would be lost; nothing was changed. Restore the store from a backup, or accept \
             the loss"
        ),
    )
}
