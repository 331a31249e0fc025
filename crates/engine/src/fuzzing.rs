//! Entry points of the fuzz targets: one for each parser of bytes from a disk.
//!
//! Each function takes any bytes and must return. It parses them twice: as they are, and with corrected
//! checksums, because no fuzzer finds right checksums by itself.

use crate::disk::{Mapped, OpenFile};
use crate::encoding::bytes::{slice, u16_at, u32_at};
use crate::encoding::record;
use crate::encoding::rows::Row;
use crate::encoding::{HashSeed, Packed};
use crate::hash_partition::HashPartition;
use crate::identity::Identity;
use crate::journal;
use crate::load::{PartOwner, PartReader, sealed_part};
use crate::lookup::RowCursor;
use crate::memtable::Memtable;
use crate::segment::{Block, DatePage, Header, IdPage, PAGE_ROWS, Region, Segment, checksum};
use crate::tombstones::{self, RowRules};
use crate::versions::{CommitNote, History, LockNote, Manifest, SessionNote, TableEntry};
use idmatch_model::{Keep, Side};
use idmatch_store::{Call, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// A manifest.
pub fn manifest(bytes: &[u8]) {
    let path = Path::new("MANIFEST");
    let whole = Manifest::decode(path, bytes);
    let mut sealed =
        format!("idmatch-manifest 2 {:016x}\n", XxHash3_64::oneshot(bytes)).into_bytes();
    sealed.extend_from_slice(bytes);
    for mut manifest in whole.into_iter().chain(Manifest::decode(path, &sealed)) {
        let back = manifest.encode().and_then(|bytes| Manifest::decode(path, &bytes));
        assert!(back.is_ok_and(|back| back == manifest), "a manifest does not come back");
    }
}

/// A table file.
pub fn table(bytes: &[u8]) {
    let path = Path::new("0000000000.tab");
    let whole = TableEntry::decode(path, bytes);
    let mut sealed = format!("idmatch-table 2 {:016x}\n", XxHash3_64::oneshot(bytes)).into_bytes();
    sealed.extend_from_slice(bytes);
    for (table, _) in whole.into_iter().chain(TableEntry::decode(path, &sealed)) {
        let back = table.encode().and_then(|bytes| TableEntry::decode(path, &bytes));
        assert!(back.is_ok_and(|(back, _)| back == table), "a table file does not come back");
    }
}

/// A history file.
pub fn history(bytes: &[u8]) {
    let path = Path::new("0000000000.his");
    let whole = History::decode(path, bytes);
    let mut sealed =
        format!("idmatch-history 2 {:016x}\n", XxHash3_64::oneshot(bytes)).into_bytes();
    sealed.extend_from_slice(bytes);
    for (history, _) in whole.into_iter().chain(History::decode(path, &sealed)) {
        let back = history.encode().and_then(|(bytes, _)| History::decode(path, &bytes));
        assert!(back.is_ok_and(|(back, _)| back == history), "a history does not come back");
    }
}

/// The files of a session that several processes stage: `SESSION` and `COMMIT`.
pub fn session(bytes: &[u8]) {
    let path = Path::new("SESSION");
    let seal = |kind| {
        let line = format!("idmatch-{kind} 2 {:016x}\n", XxHash3_64::oneshot(bytes));
        [line.as_bytes(), bytes].concat()
    };
    for bytes in [bytes, &seal("session"), &seal("commit")] {
        if let Ok(note) = SessionNote::decode(path, bytes) {
            let back = note.encode().and_then(|bytes| SessionNote::decode(path, &bytes));
            assert!(back.is_ok_and(|back| back == note), "a session does not come back");
        }
        if let Ok(note) = CommitNote::decode(path, bytes) {
            let back = note.encode().and_then(|bytes| CommitNote::decode(path, &bytes));
            assert!(back.is_ok_and(|back| back == note), "a commit does not come back");
        }
    }
}

/// The file of a part: whole, and as the rows of a block.
pub fn part(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), sealed_part(bytes)] {
        let (path, len) = ("0.part".into(), bytes.len() as u64);
        let Ok(part) = PartReader::of((path, Box::new(Memory(bytes)), len), PartOwner::default())
        else {
            continue;
        };
        part.counts().ok();
        let mut text = Vec::new();
        let take = |row: &Row<'_>| {
            text.clear();
            row.key.unpack_into(&mut text);
            row.value.unpack_into(&mut text);
            Ok(())
        };
        part.read_rows(take, |_| Ok(())).ok();
    }
}

/// The note in LOCK.
pub fn lock_note(bytes: &[u8]) {
    let mut sealed = format!("idmatch-lock 2 {:016x}\n", XxHash3_64::oneshot(bytes)).into_bytes();
    sealed.extend_from_slice(bytes);
    let decode = |bytes: &[u8]| LockNote::decode(Path::new("LOCK"), bytes).ok().flatten();
    for note in [decode(bytes), decode(&sealed)].into_iter().flatten() {
        let back = note.encode().ok().and_then(|bytes| decode(&bytes));
        assert_eq!(back, Some(note), "a note does not come back");
    }
}

/// A journal file: read, and its rows put into a memtable.
pub fn journal(bytes: &[u8]) {
    let mut sealed = journal::FileHeader::default().encode();
    sealed.extend(journal::record((0, sealed.len() as u64), 0, 1, bytes));
    for bytes in [bytes, &sealed] {
        let memtable = Memtable::new(HashSeed(1));
        let mut take = |item: journal::JournalItem<'_>| {
            let journal::JournalItem::Record(_, _, entries) = item else { return Ok(()) };
            for batch in entries.flatten() {
                memtable.add(1, batch.count, batch.rows);
            }
            Ok(())
        };
        if journal::scan(Path::new("journal"), 0, 0, bytes, &mut take).is_err() {
            continue;
        }
        for (side, partition) in
            Side::BOTH.iter().flat_map(|side| HashPartition::all().map(|p| (*side, p)))
        {
            let rules = RowRules::new(Identity::default(), HashSeed(1), Keep::All);
            assert!(memtable.rows_in(side, partition, (&rules, 1)).is_ok());
        }
    }
}

/// A tombstone file.
pub fn erasures(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), tombstones::sealed(bytes)] {
        tombstones::decode(Path::new("0.era"), &bytes).map(|(_, set)| set.sorted()).ok();
    }
}

/// A page of identifiers.
pub fn id_page(bytes: &[u8]) {
    let mut text = Vec::new();
    for bytes in [bytes.to_vec(), sealed_page(Region::Values, 0, bytes)] {
        let Ok(page) = IdPage::verified(Region::Values, 0, &bytes) else { continue };
        for at in (0..page.count().min(2 * PAGE_ROWS)).chain([u32::MAX]) {
            text.clear();
            if let Some(id) = page.get(at) {
                id.unpack_into(&mut text);
                assert!(id.cmp_text(&id).is_eq());
            }
            page.guess_offset(at);
        }
        assert!(page.get(page.count()).is_none(), "an identifier after the last");
    }
}

/// A page of dates.
pub fn date_page(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), sealed_page(Region::Dates, 0, bytes)] {
        let Ok(page) = DatePage::verified(0, &bytes) else { continue };
        let count = u16_at(&bytes, 20).map_or(0, u32::from);
        let beyond = (0..2 * PAGE_ROWS.max(count)).rfind(|at| page.get(*at).is_some());
        assert!(beyond.is_none_or(|last| last < count), "a date after the last");
    }
}

/// The header of a block.
pub fn block_header(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), sealed_page(Region::BlockHeaders, 0, bytes)] {
        let Ok(block) = Block::read(0, &bytes) else { continue };
        for key in (0..block.keys).chain([u32::MAX]) {
            block.rows_of(key);
            if let Some(fingerprint) = block.fingerprint(key) {
                // Fingerprints out of order are found by a check, not by a search.
                block.find(fingerprint);
            }
        }
        for page in (0..block.rows.div_ceil(PAGE_ROWS)).chain([u32::MAX]) {
            block.page_ranges(page);
            block.values(page, &bytes).ok();
            block.dates(page, &bytes).ok();
        }
        block.key_page(&bytes);
    }
}

/// Records of a load.
pub fn records(bytes: &[u8]) {
    let mut at = 0;
    let mut copy = Vec::new();
    while let Some((id, next)) = record::read(bytes, at) {
        assert!(next > at && next <= bytes.len());
        at = next;
        copy.clear();
        record::push(&mut copy, id);
        assert_eq!(record::read(&copy, 0), Some((id, copy.len())), "a record does not come back");
    }
}

/// A segment file: opened, searched, read and checked.
pub fn segment(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), sealed_segment(bytes)] {
        let Ok(segment) = open(bytes) else { continue };
        // Errors are fine: the bytes are bad.
        let read = read_segment(&segment, segment.check(&Call::default()).is_ok());
        read.ok();
    }
}

/// Whether these are the bytes of a segment that passes its check.
pub fn is_good_segment(bytes: &[u8]) -> bool {
    open(bytes.to_vec()).and_then(|segment| segment.check(&Call::default())).is_ok()
}

fn open(bytes: Vec<u8>) -> Result<Segment> {
    Segment::of_map("0.seg".into(), Arc::new(Memory(bytes)), HashSeed(0))
}

/// Reads every row. In a segment that passed its check every key is found, with all rows.
fn read_segment(segment: &Segment, is_good: bool) -> Result<()> {
    let mut keys = 0;
    for number in 0..1u32 << segment.header.block_bits {
        let Some(block) = segment.block(number)? else { continue };
        for at in 0..block.keys {
            let key = segment.key(&block, at)?;
            let found = segment.find(key.hash(segment.seed()), key)?;
            assert!(!is_good || found == Some((number, at)), "a key is not found");
            let mut cursor = RowCursor::new(segment, block, block.rows_of(at));
            while let Some(_date) = cursor.date()? {
                cursor.value()?;
                cursor.advance();
            }
            keys += 1;
        }
    }
    assert!(!is_good || keys == segment.header.keys, "keys are counted wrongly");
    let nobody = Packed { kind: crate::encoding::Kind::Text, payload: b"nobody" };
    segment.find(nobody.hash(segment.seed()), nobody).map(drop)
}

struct Memory(Vec<u8>);

impl OpenFile for Memory {
    fn read_at(&self, piece: &mut [u8], offset: u64) -> std::io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|at| slice(&self.0, at, piece.len()));
        piece.copy_from_slice(from.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Mapped for Memory {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn populate(&self, _: Range<usize>) -> std::io::Result<()> {
        Ok(())
    }
}

/// A page, or a block header, whose checksum is that of its other bytes.
fn sealed_page(region: Region, offset: usize, page: &[u8]) -> Vec<u8> {
    let mut page = page.to_vec();
    seal(region, offset, &mut page);
    page
}

fn seal(region: Region, offset: usize, page: &mut [u8]) {
    if let Some((sum, rest)) = page.split_at_mut_checked(8) {
        sum.copy_from_slice(&checksum(region, offset, rest).to_le_bytes());
    }
}

/// A file in which every checksum that can be reached fits.
fn sealed_segment(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let Some(header) = Header::fields(bytes).filter(|header| header.is_consistent(bytes.len()))
    else {
        return file;
    };
    let directory = slice_of(bytes, header.region(Region::Directory)).to_vec();
    let starts =
        directory.as_chunks::<4>().0.iter().map(|start| u32::from_le_bytes(*start) as usize);
    let ends = starts.clone().skip(1);
    for (start, end) in starts.zip(ends) {
        let block = slice_of(slice_of(bytes, header.region(Region::BlockHeaders)), start..end);
        let pages = u32_at(block, 12).map_or(0, |rows| rows.div_ceil(PAGE_ROWS) as usize);
        let field = |at: usize| u32_at(block, at).unwrap_or(0) as usize;
        seal_in(&mut file, &header, Region::Keys, field(16), field(20));
        for entry in (0..pages.min(block.len() / 16)).map(|page| 28 + page * 16) {
            seal_in(&mut file, &header, Region::Values, field(entry), field(entry + 4));
            seal_in(&mut file, &header, Region::Dates, field(entry + 8), field(entry + 12));
        }
        seal_in(&mut file, &header, Region::BlockHeaders, start, end.saturating_sub(start));
    }
    let sum = checksum(Region::Directory, 0, &directory);
    let header = Header { directory_sum: sum, ..header };
    for (old, new) in file.iter_mut().zip(header.encode()) {
        *old = new;
    }
    file
}

fn seal_in(file: &mut [u8], header: &Header, region: Region, offset: usize, len: usize) {
    let place = header.region(region);
    let page = file.get_mut(place).and_then(|region| region.get_mut(offset..)?.get_mut(..len));
    if let Some(page) = page {
        seal(region, offset, page);
    }
}

fn slice_of(bytes: &[u8], range: Range<usize>) -> &[u8] {
    bytes.get(range).unwrap_or_default()
}
