//! Recovery of a store that does not open: from its readable parts it makes a store that opens.
//!
//! A segment that is missing, or whose header is damaged, is rebuilt from the other direction. A damaged
//! journal is rewritten without the damage. All of it is published in one change of the manifest, so no store
//! opens that is recovered in part. Rows that neither direction has are lost only if the caller accepts it,
//! and are reported. The manifest and the tombstones exist once: a store without them has to be restored from
//! a backup.

use super::rewrite::{rewrite, would_lose};
use crate::encoding::HashSeed;
use crate::identity::Identity;
use crate::journal::{self, Appended, Entries, FileHeader, JournalWriter, ReadableRecords};
use crate::segment::{Segment, SegmentInfo};
use crate::verify::log_findings;
use crate::versions::{Manifest, OpenSegments, VersionSet, list};
use crate::writer_lock::WriterLock;
use idmatch_model::Side;
use idmatch_store::{Call, ErrorKind, Finding, Result, now};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The damage that keeps a store from opening.
#[derive(Default)]
struct StoreDamage {
    findings: Vec<Finding>,
    /// The tables with segments that do not open, and the rows of these segments in each direction.
    tables: BTreeMap<Identity, [u64; 2]>,
    /// Whether the journal has to be rewritten, and how many of its durable bytes cannot be read.
    is_of_journal: bool,
    journal_bytes: usize,
}

/// The current files of the journal, as far as they can be read.
type Journal = BTreeMap<u64, ReadableRecords>;

/// A store that is being recovered.
pub(crate) struct Recovery<'a> {
    pub(crate) versions: &'a VersionSet,
    pub(crate) lock: &'a WriterLock,
}

impl Recovery<'_> {
    /// See [`crate::EngineStore::recover`].
    pub(crate) fn run(
        &self,
        (accept_loss, accept_older): (bool, bool),
        call: &Call,
    ) -> Result<Vec<Finding>> {
        // There is no store to recover; opening it says so.
        if !self.versions.published()?.is_published() {
            return Ok(Vec::new());
        }
        self.lock.check_local()?;
        let guard = self.lock.lock_file()?;
        let mut manifest = self.versions.published()?;
        let noted = self.lock.noted(&guard, &manifest)?;
        let newer = noted.filter(|noted| *noted > manifest.generation);
        let journal = self.read_journal(&manifest)?;
        let (mut damage, mut lost) = (StoreDamage::default(), Vec::new());
        self.check_segments(&mut manifest, &mut damage)?;
        self.check_journal(&manifest, &journal, &mut damage);
        if let Some(newer) = newer {
            let error = self.lock.older_manifest(manifest.generation, newer);
            if !accept_older {
                return Err(error);
            }
            damage.add(&Manifest::path(&self.versions.root), error.to_string());
        }
        if damage.findings.is_empty() {
            // What cannot be recovered, such as damaged tombstones, is an error of the open.
            self.versions.open_version(manifest, &mut OpenSegments::new())?;
            return Ok(Vec::new());
        }
        // The findings are logged even where nothing may be lost.
        log_findings("", &damage.findings);
        if damage.journal_bytes > 0 && !accept_loss {
            let places: Vec<String> =
                damage.findings.iter().map(|f| format!("{}: {}", f.place, f.problem)).collect();
            let lost = format!("{}; {} bytes of upserts", places.join("; "), damage.journal_bytes);
            return Err(would_lose(&lost));
        }
        if noted.is_none() {
            self.lock.note_first(&manifest)?;
        }
        self.versions.raise_next_file(manifest.next_file);
        self.versions.raise_next_file(self.versions.first_unused_number()?);
        let remove_orphans = || -> Result<()> {
            self.versions.remove_files(self.versions.orphans(&self.versions.published()?)?);
            Ok(())
        };
        // Newer files may be all that is left of a newer state. They stay until the recovered state is
        // published.
        if newer.is_none() {
            remove_orphans()?;
        }
        let version = self.versions.open_version(manifest.clone(), &mut OpenSegments::new())?;
        self.versions.add_segments(
            |names| {
                let mut made = Vec::new();
                for (id, missing) in &damage.tables {
                    let table = self.versions.table_of(&version, *id)?;
                    let (segments, rows) =
                        rewrite(self.versions, names, table, *missing, accept_loss, call)?;
                    made.push((*id, segments));
                    if rows > 0 {
                        lost.push((table.name().clone(), rows));
                    }
                }
                Ok(made)
            },
            |made| self.publish_recovered(&manifest, &journal, &damage, newer, made),
        )?;
        remove_orphans()?;
        damage.findings.extend(lost.into_iter().map(|(name, rows)| Finding {
            place: format!("table {name}"),
            problem: format!("up to {rows} rows could be read in neither direction"),
        }));
        Ok(damage.findings)
    }

    /// Takes the segments that do not open out of a manifest.
    fn check_segments(&self, manifest: &mut Manifest, damage: &mut StoreDamage) -> Result<()> {
        let folder = self.versions.segments();
        let there: HashSet<String> = list(&*self.versions.disk, &folder)?.into_iter().collect();
        let seed = manifest.hash_seed();
        for (id, entry) in &mut manifest.tables {
            let entry = Arc::make_mut(entry);
            let mut readable = Vec::new();
            for info in std::mem::take(&mut entry.segments) {
                match self.problem_of(&info, (entry.id, seed), &there)? {
                    None => readable.push(info),
                    Some(problem) => {
                        let [by_id, by_partner_id] = damage.tables.entry(*id).or_default();
                        *match info.side {
                            Side::Id => by_id,
                            Side::PartnerId => by_partner_id,
                        } += info.rows;
                        damage.add(&folder.join(&info.file), problem);
                    }
                }
            }
            entry.segments = readable;
        }
        Ok(())
    }

    /// Why a segment does not open; `None` if it does.
    fn problem_of(
        &self,
        info: &SegmentInfo,
        identity: (Identity, HashSeed),
        there: &HashSet<String>,
    ) -> Result<Option<String>> {
        if !there.contains(&info.file) {
            return Ok(Some("the file is gone".to_owned()));
        }
        let segments = self.versions.segments();
        match Segment::open(&*self.versions.disk, &segments, info, identity) {
            Err(e) if e.kind() == ErrorKind::Corrupt => Ok(Some(e.to_string())),
            other => other.map(|_| None),
        }
    }

    fn read_journal(&self, manifest: &Manifest) -> Result<Journal> {
        let folder = self.versions.journal();
        let mut journal = Journal::new();
        let names = list(&*self.versions.disk, &folder)?;
        let numbers = names.iter().filter_map(|name| journal::number_of(name));
        for number in numbers.filter(|number| *number >= manifest.journal.first) {
            journal.insert(number, ReadableRecords::read(&*self.versions.disk, &folder, number)?);
        }
        Ok(journal)
    }

    fn check_journal(&self, manifest: &Manifest, journal: &Journal, damage: &mut StoreDamage) {
        let folder = self.versions.journal();
        let mut durable: BTreeMap<u64, u64> = BTreeMap::new();
        let mut note = |number: u64, length: u64| {
            if number >= manifest.journal.first {
                let known = durable.entry(number).or_default();
                *known = length.max(*known);
            }
        };
        for (number, readable) in journal {
            note(*number, readable.durable);
            if let (Some(header), Some(previous)) = (readable.header, number.checked_sub(1)) {
                note(previous, header.before);
            }
        }
        if let Some((number, length)) = manifest.journal.closed {
            note(number, length);
        }
        let none = ReadableRecords::default();
        for (number, durable) in durable {
            let (readable, file) = (journal.get(&number), journal::file(&folder, number));
            let mut note = |bytes: usize, problem: String| {
                damage.is_of_journal = true;
                damage.journal_bytes += bytes;
                damage.add(&file, problem);
            };
            let what = if readable.is_some() { "damaged" } else { "gone" };
            let readable = readable.unwrap_or(&none);
            let holes = readable.holes(durable);
            if holes.is_empty() && readable.header.is_none() && durable > 0 {
                note(0, format!("the header is {what}"));
            }
            for hole in holes {
                let problem = format!("upserts in bytes {} to {} are {what}", hole.start, hole.end);
                note(hole.len(), problem);
            }
            for record in &readable.records {
                if !is_valid_record(manifest, &record.entries) {
                    let place = &record.place;
                    let problem = format!("the record at byte {} is malformed", place.start);
                    note(place.len(), problem);
                }
            }
        }
    }

    fn publish_recovered(
        &self,
        readable: &Manifest,
        journal: &Journal,
        damage: &StoreDamage,
        newer: Option<u64>,
        made: Vec<(Identity, Vec<SegmentInfo>)>,
    ) -> Result<()> {
        let written = match damage.is_of_journal {
            true => self.write_journal(readable, journal)?,
            false => None,
        };
        self.versions.publish(|manifest| {
            manifest.generation = newer.unwrap_or(manifest.generation);
            for (id, segments) in made {
                let entry = manifest.table_mut(id)?;
                entry.segments.clear();
                entry.add(segments, readable.tombstone_files(id), now().millis());
            }
            if damage.is_of_journal {
                manifest.journal.first = next_journal(manifest, journal);
                manifest.journal.closed = written;
            }
            Ok(())
        })
    }

    /// Writes the readable records as one journal file, durably; returns its number and length.
    fn write_journal(&self, manifest: &Manifest, journal: &Journal) -> Result<Option<(u64, u64)>> {
        if journal.is_empty() {
            return Ok(None);
        }
        let header = FileHeader {
            number: next_journal(manifest, journal),
            store: manifest.store,
            id: Identity::random()?,
            ..FileHeader::default()
        };
        let folder = self.versions.journal();
        let durations = self.versions.metrics.journal_sync.clone();
        let mut file = JournalWriter::create(&*self.versions.disk, &folder, header, durations)?;
        for record in journal.values().flat_map(|readable| &readable.records) {
            if !is_valid_record(manifest, &record.entries) {
                continue;
            }
            match file.append(record.commit, &record.entries, true) {
                Appended::Done => {}
                Appended::NotWritten(e) | Appended::NotSynced(e) => return Err(e),
            }
        }
        file.sync()?;
        Ok(Some((file.number(), file.durable())))
    }
}

/// A number above all journal files that there ever were: readers may know files that are gone.
fn next_journal(manifest: &Manifest, journal: &Journal) -> u64 {
    let last = journal.last_key_value().map(|(number, _)| *number);
    let closed = manifest.journal.closed.map(|(number, _)| number);
    last.max(closed).map_or(0, |last| last.saturating_add(1)).max(manifest.journal.first)
}

/// Whether a record is only about existing tables.
fn is_valid_record(manifest: &Manifest, entries: &[u8]) -> bool {
    let dropped = manifest.dropped.iter().map(|table| table.id);
    let known: HashSet<_> = manifest.tables.keys().copied().chain(dropped).collect();
    Entries::new(entries).all(|batch| batch.is_some_and(|batch| known.contains(&batch.table)))
}

impl StoreDamage {
    fn add(&mut self, place: &Path, problem: String) {
        self.findings.push(Finding { place: place.display().to_string(), problem });
    }
}
