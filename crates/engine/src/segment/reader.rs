//! An open segment: a mapped file, or bytes in memory. Finds a key by its block, its fingerprint and its
//! bytes. Knows whether some rows may be hidden, not which. Invariant: header and directory are verified
//! when it opens.

use super::page::verify;
use super::{Block, Damage, Header, PAGE_ROWS, Region, SegmentInfo, checksum};
use crate::cpu::prefetch;
use crate::disk::{Disk, Mapped};
use crate::disk::{corrupt, io_error};
use crate::encoding::bytes::{slice, u32_at, u64_at};
use crate::encoding::{HashSeed, Packed};
use crate::hash_partition::HashPartition;
use crate::identity::{Hex64, Identity};
use crate::sync::{AtomicBool, Ordering::Relaxed};
use idmatch_model::SeenAt;
use idmatch_store::{Error, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shorter ranges are read page by page: a request for them would cost more than it saves.
const POPULATE_MIN_BYTES: usize = 256 << 10;

/// At most this much of a range is prefetched; by then the processor's own prefetcher follows.
const PREFETCH_MAX_BYTES: usize = 2 << 10;

/// More keys than this with one fingerprint are searched by bisection.
const MAX_CANDIDATES: usize = 16;

fn prefetch_range(bytes: &[u8], range: Range<usize>) {
    let end = range.end.min(range.start + PREFETCH_MAX_BYTES);
    (range.start..end).step_by(64).for_each(|at| prefetch(bytes, at));
}

/// A segment file, mapped. Cheap to share; lives as long as someone reads it.
pub(crate) struct Segment {
    path: PathBuf,
    map: Arc<dyn Mapped>,
    pub(crate) header: Header,
    seed: HashSeed,
    /// Whether some of its rows may be hidden since it was written: erased, or below the watermark.
    has_hidden: AtomicBool,
    /// Rows before this date are hidden for good.
    retention_watermark: SeenAt,
}

impl Segment {
    /// Opens a published segment of a table and checks header and directory. Reads no rows.
    ///
    /// # Errors
    /// `Corrupt`, also for another file than the manifest names, such as one of another table or store.
    pub(crate) fn open(
        disk: &dyn Disk,
        folder: &Path,
        info: &SegmentInfo,
        (table, seed): (Identity, HashSeed),
    ) -> Result<Segment> {
        let path = folder.join(&info.file);
        let map = disk.map(&path).map_err(|e| io_error("open", &path, e))?;
        let segment = Segment::of_map(path, map, seed)?;
        let header = &segment.header;
        if header.table != table {
            let what = "this segment has rows of another table; the files were exchanged";
            return Err(corrupt(&segment.path, 0, what));
        }
        if segment.header_sum() != info.header_sum
            || header.side != info.side
            || header.rows != info.rows
        {
            let what = "this is another segment than the manifest names";
            return Err(corrupt(&segment.path, 0, what));
        }
        Ok(segment)
    }

    /// A segment from the bytes of its file. Checks header and directory.
    pub(crate) fn of_map(path: PathBuf, map: Arc<dyn Mapped>, seed: HashSeed) -> Result<Segment> {
        let header = Header::decode(&path, map.bytes())?;
        let (has_hidden, retention_watermark) = (AtomicBool::new(false), SeenAt::EPOCH);
        let segment = Segment { path, map, header, seed, has_hidden, retention_watermark };
        segment.check_directory()?;
        Ok(segment)
    }

    fn check_directory(&self) -> Result<()> {
        let sum = checksum(Region::Directory, 0, self.region(Region::Directory));
        if self.header.directory_sum != sum {
            let start = self.header.region(Region::Directory).start;
            return Err(corrupt(&self.path, start, "the checksum of the directory is wrong"));
        }
        Ok(())
    }

    /// Whether its rows have to be checked one by one: some may be hidden.
    #[inline(always)]
    pub(crate) fn has_hidden(&self) -> bool {
        self.has_hidden.load(Relaxed)
    }

    /// Notes that some of its rows were erased. The mark is never taken back: readers of earlier versions
    /// then check rows in vain.
    pub(crate) fn mark_erased(&self) {
        self.has_hidden.store(true, Relaxed);
    }

    /// A copy of the segment that hides the rows before a date. Present readers keep the original, so they go
    /// on to see the same rows in both directions.
    pub(crate) fn with_watermark(&self, date: SeenAt) -> Segment {
        Segment {
            path: self.path.clone(),
            map: Arc::clone(&self.map),
            header: self.header.clone(),
            seed: self.seed,
            has_hidden: AtomicBool::new(self.has_hidden() || self.header.oldest < date),
            retention_watermark: date,
        }
    }

    /// The checksum in its header, which identifies the file.
    pub(crate) fn header_sum(&self) -> Hex64 {
        Hex64(u64_at(self.map.bytes(), super::header::HEADER_BYTES - 8).unwrap_or(0))
    }

    /// The seed of the hashes by which its keys are ordered.
    pub(crate) fn seed(&self) -> HashSeed {
        self.seed
    }

    /// Rows before this date are hidden for good.
    pub(crate) fn retention_watermark(&self) -> SeenAt {
        self.retention_watermark
    }

    /// Whether a row of this date is hidden for good.
    #[inline(always)]
    pub(crate) fn is_below_watermark(&self, seen_at: SeenAt) -> bool {
        seen_at < self.retention_watermark
    }

    /// Repeats the checks of the opening.
    pub(crate) fn check_opening(&self) -> Result<()> {
        if Header::decode(&self.path, self.map.bytes())? != self.header {
            return Err(corrupt(&self.path, 0, "the header changed after the file was opened"));
        }
        self.check_directory()
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's name in its folder.
    pub(crate) fn file_name(&self) -> Option<&str> {
        self.path.file_name()?.to_str()
    }

    /// The bytes of a region.
    #[inline(always)]
    pub(crate) fn region(&self, region: Region) -> &[u8] {
        self.map.bytes().get(self.header.region(region)).unwrap_or_default()
    }

    /// Words damage as an error that names file and offset.
    pub(crate) fn damaged(&self, damage: Damage) -> Error {
        let start = self.header.region(damage.region).start;
        corrupt(&self.path, start + damage.offset, damage.what)
    }

    /// Where the header of a block lies in its region; empty for an empty block.
    #[inline(always)]
    pub(crate) fn block_header_range(&self, number: u32) -> Range<usize> {
        let directory = self.region(Region::Directory);
        let at = |n: usize| u32_at(directory, n * 4).unwrap_or(0) as usize;
        at(number as usize)..at(number as usize + 1)
    }

    /// A block, or `None` if it has no keys.
    #[inline(always)]
    pub(crate) fn block(&self, number: u32) -> Result<Option<Block<'_>>> {
        let range = self.block_header_range(number);
        if range.is_empty() {
            return Ok(None);
        }
        let offset = range.start;
        let header = self.region(Region::BlockHeaders).get(range).unwrap_or_default();
        Block::read(offset, header).map(Some).map_err(|damage| self.damaged(damage))
    }

    /// A block in which a key was found.
    pub(crate) fn known_block(&self, number: u32) -> Result<Block<'_>> {
        let what = "a block that was there is gone";
        let gone = Damage { region: Region::Directory, offset: number as usize * 4, what };
        self.block(number)?.ok_or_else(|| self.damaged(gone))
    }

    /// Prefetches a block's entry of the directory. The three prefetches are hints: any number is allowed,
    /// and nothing that they read is verified.
    #[inline(always)]
    pub(crate) fn prefetch_entry(&self, number: u32) {
        prefetch(self.region(Region::Directory), number as usize * 4);
    }

    /// Prefetches the header of a block, whose directory entry should be in the cache.
    #[inline(always)]
    pub(crate) fn prefetch_block_header(&self, number: u32) {
        prefetch_range(self.region(Region::BlockHeaders), self.block_header_range(number));
    }

    /// Prefetches the pages of values and dates of a row, whose block header should be in the cache.
    #[inline(always)]
    pub(crate) fn prefetch_row(&self, number: u32, row: u32) {
        let header = self
            .region(Region::BlockHeaders)
            .get(self.block_header_range(number))
            .unwrap_or_default();
        let ranges = Block::unverified(header).and_then(|block| block.page_ranges(row / PAGE_ROWS));
        if let Some((values, dates)) = ranges {
            prefetch_range(self.region(Region::Values), values.0..values.0 + values.1);
            prefetch_range(self.region(Region::Dates), dates.0..dates.0 + dates.1);
        }
    }

    /// Whether key number `at` of a block is this one. `None` if the key cannot be read.
    #[inline(always)]
    pub(crate) fn is_key(&self, block: &Block<'_>, at: u32, key: Packed<'_>) -> Option<bool> {
        Some(block.key_page(self.region(Region::Keys))?.get(at)? == key)
    }

    /// Verifies the checksum of a block's keys. It is called where a fingerprint fits and the key does not.
    #[cold]
    pub(crate) fn check_keys(&self, block: &Block<'_>) -> Result<()> {
        let (offset, len) = block.key_page_range();
        let page = slice(self.region(Region::Keys), offset, len).unwrap_or_default();
        verify(Region::Keys, offset, page).map_err(|damage| self.damaged(damage))
    }

    /// Finds a key: its number in its block.
    pub(crate) fn find(&self, hash: u64, key: Packed<'_>) -> Result<Option<(u32, u32)>> {
        let number = self.header.block_of(hash);
        let Some(block) = self.block(number)? else { return Ok(None) };
        let candidates = block.find(self.header.fingerprint_of(hash));
        let candidates = self.narrowed(&block, candidates, hash, key);
        let some = !candidates.is_empty();
        for at in candidates {
            if self.is_key(&block, at, key) == Some(true) {
                return Ok(Some((number, at)));
            }
        }
        if some {
            self.check_keys(&block)?;
        }
        Ok(None)
    }

    /// Narrows the candidates for a key, where many keys share a fingerprint. Damage may lead to wrong
    /// candidates, never to none.
    pub(crate) fn narrowed(
        &self,
        block: &Block<'_>,
        candidates: Range<u32>,
        hash: u64,
        key: Packed<'_>,
    ) -> Range<u32> {
        if candidates.len() <= MAX_CANDIDATES {
            return candidates;
        }
        let Some(page) = block.key_page(self.region(Region::Keys)) else { return candidates };
        let place = |key: Packed<'_>, hash| (hash, key.kind, key.payload.to_vec());
        let wanted = place(key, hash);
        let (mut low, mut high) = (candidates.start, candidates.end - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let is_before =
                page.get(middle).is_some_and(|key| place(key, key.hash(self.seed)) < wanted);
            (low, high) = if is_before { (middle + 1, high) } else { (low, middle) };
        }
        low..low + 1
    }

    /// Brings blocks into memory and the page tables, in few large requests to the disk.
    pub(crate) fn populate(&self, regions: &[Region], blocks: Range<u32>) -> Result<()> {
        for range in self.file_ranges(regions, blocks).filter(|r| r.len() >= POPULATE_MIN_BYTES) {
            self.map.populate(range).map_err(|e| io_error("read", &self.path, e))?;
        }
        Ok(())
    }

    /// The blocks that a partition overlaps.
    pub(crate) fn blocks_of(&self, partition: HashPartition) -> Range<u32> {
        let last_hash = partition.first_hash() | (u64::MAX >> HashPartition::BITS);
        self.header.block_of(partition.first_hash())..self.header.block_of(last_hash) + 1
    }

    /// Lets go of the memory of a partition that was read; see [`Mapped::give_back`].
    pub(crate) fn give_back(&self, partition: HashPartition) {
        let regions = [Region::BlockHeaders, Region::Keys, Region::Values, Region::Dates];
        for range in self.file_ranges(&regions, self.blocks_of(partition)) {
            self.map.give_back(range);
        }
    }

    /// The share of each region that a range of blocks covers: regions are in the order of blocks, and blocks
    /// of about equal size.
    fn file_ranges(
        &self,
        regions: &[Region],
        blocks: Range<u32>,
    ) -> impl Iterator<Item = Range<usize>> {
        let all = 1u64 << self.header.block_bits;
        regions.iter().map(move |region| {
            let range = self.header.region(*region);
            let share =
                |block: u32| (range.len() as u128 * u128::from(block) / u128::from(all)) as usize;
            range.start + share(blocks.start)..range.start + share(blocks.end)
        })
    }
}
