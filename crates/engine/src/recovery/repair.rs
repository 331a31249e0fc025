//! Mending a table: both directions are written anew from all rows that can still be read in either.
//!
//! It is a load whose source are the table's own segments, so what it makes is as good as what a load
//! makes, and nothing changes before all of it is there. Needs the disk of a second copy.

use super::salvage::Salvage;
use super::shared::{SCRATCH, Shared};
use super::verify::verify;
use super::view::{TableView, View};
use crate::errors::io_error;
use crate::load::{LoadPlace, load};
use crate::names::FileNames;
use crate::segment::SegmentInfo;
use crate::workers::lock;
use idmatch_model::{Side, TableName};
use idmatch_store::{Error, ErrorKind, Finding, Ingest, NoRejects, Repaired, Result, now};
use std::sync::{Arc, PoisonError};

impl Shared {
    /// Checks a table and mends what is wrong. Where rows are damaged in both directions some may
    /// be lost: that needs `accept_loss`.
    pub(crate) fn repair(
        self: &Arc<Shared>,
        name: &TableName,
        accept_loss: bool,
    ) -> Result<Repaired> {
        let _loading = lock(&self.loading);
        let _hold = self.hold()?;
        self.flush_all()?;
        let _compacting = lock(&self.compacting);
        let view = self.view();
        let table = self.table_of(&view, name)?;
        let made_with = view.manifest.erasures(name);
        let findings = self.check(&view, name)?;
        if findings.is_empty() {
            return Ok(Repaired::default());
        }
        let mut lost_at_most = 0;
        self.add_segments(
            |names| {
                let (made, lost) = self.rewrite(names, name, table, [0, 0], accept_loss)?;
                lost_at_most = lost;
                Ok(made)
            },
            |made| {
                self.publish(|manifest| {
                    if let Some(entry) = manifest.tables.get_mut(name) {
                        entry.segments.clear();
                        entry.add(made, made_with);
                    }
                    Ok(())
                })
            },
        )
        .inspect_err(|_| self.remove_scratch())?;
        {
            let _copying = self.copying.write().unwrap_or_else(PoisonError::into_inner);
            self.remove_files(table.all_segments().map(|segment| segment.path().to_owned()));
        }
        let left = self.check(&self.view(), name)?;
        match left.first() {
            None => Ok(Repaired { findings, lost_at_most }),
            Some(Finding { place, problem }) => Err(Error::new(
                ErrorKind::Corrupt,
                format!("{place}: {problem}; all else of table {name} was mended"),
            )),
        }
    }

    /// Writes all rows of a table that can be read as new segments; returns how many may be lost,
    /// knowing how many rows were in segments of each direction that are not in the view.
    pub(super) fn rewrite(
        &self,
        names: &FileNames<'_>,
        name: &TableName,
        table: &TableView,
        missing: [u64; 2],
        accept_loss: bool,
    ) -> Result<(Vec<SegmentInfo>, u64)> {
        let (segments, scratch) = (self.segments(), self.root.join(SCRATCH));
        self.disk.create_dir(&scratch).map_err(|e| io_error("make", &scratch, e))?;
        let place = LoadPlace {
            disk: &*self.disk,
            segments: &segments,
            scratch: &scratch,
            names,
            limits: self.limits,
        };
        let mut salvage = Salvage::new(table, missing);
        let mut none = NoRejects;
        let made = load(&place, &table.rules, &mut salvage, &Ingest::new(true, now(), &mut none))?;
        match salvage.lost_at_most() {
            lost if lost == 0 || accept_loss => Ok((made, lost)),
            lost => Err(would_lose(name, lost, &salvage)),
        }
    }

    fn check(&self, view: &View, name: &TableName) -> Result<Vec<Finding>> {
        let place = (&*self.disk, &*self.segments());
        verify(place, view.manifest.erasures(name), self.table_of(view, name)?, self.visible())
    }
}

fn would_lose(name: &TableName, rows: u64, salvage: &Salvage<'_>) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "{} rows of table {name} cannot be read by id, {} cannot by partner_id: up to {rows} would \
             be lost; nothing was changed. Restore the store from a backup, or accept the loss",
            salvage.unreadable(Side::Id),
            salvage.unreadable(Side::PartnerId)
        ),
    )
}
