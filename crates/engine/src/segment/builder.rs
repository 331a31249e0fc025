//! Builds a segment in memory from rows in order, then writes it in one go, or leaves it there.

use super::block::{BLOCK_HEADER_FIXED, count_delta_width};
use super::header::{HEADER_BYTES, MAX_BLOCK_BITS, block_of, fingerprint_of};
use super::page::{IdPageBuilder, write_dates};
use super::{BLOCK_ROWS, Header, PAGE_ROWS, Region, Segment, SegmentInfo, checksum};
use crate::disk::io_error;
use crate::disk::{Disk, Mapped};
use crate::encoding::bytes::u64_at;
use crate::encoding::{HashSeed, Packed};
use crate::identity::{Hex64, Identity};
use idmatch_model::{SeenAt, Side};
use idmatch_store::{Error, ErrorKind, Result};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Takes rows in the order of a segment: by hash of the key, key, newest first, value.
pub(crate) struct SegmentBuilder {
    side: Side,
    seed: HashSeed,
    prefix_bits: u8,
    prefix: u64,
    block_bits: u8,
    directory: Vec<u32>,
    encoded_directory: Vec<u8>,
    block_headers: Vec<u8>,
    keys: Vec<u8>,
    values: Vec<u8>,
    dates: Vec<u8>,
    total_keys: u64,
    total_rows: u64,
    largest_key: u32,
    span: Option<(SeenAt, SeenAt)>,
    open: OpenBlock,
}

/// The block that rows are being added to.
#[derive(Default)]
struct OpenBlock {
    number: u32,
    fingerprints: Vec<u16>,
    row_ends: Vec<u32>,
    keys: IdPageBuilder,
    rows: u32,
    page_values: IdPageBuilder,
    page_dates: Vec<SeenAt>,
    pages: Vec<u8>,
}

impl SegmentBuilder {
    /// A segment for the hashes with this prefix, laid out for about `rows` rows.
    pub(crate) fn new(
        (side, seed): (Side, HashSeed),
        prefix_bits: u8,
        prefix: u64,
        rows: u64,
    ) -> SegmentBuilder {
        let block_bits =
            (rows / BLOCK_ROWS).checked_ilog2().unwrap_or(0).min(u32::from(MAX_BLOCK_BITS)) as u8;
        SegmentBuilder {
            side,
            seed,
            prefix_bits,
            prefix,
            block_bits,
            directory: vec![0],
            encoded_directory: Vec::new(),
            block_headers: Vec::new(),
            keys: Vec::new(),
            values: Vec::new(),
            dates: Vec::new(),
            total_keys: 0,
            total_rows: 0,
            largest_key: 0,
            span: None,
            open: OpenBlock::default(),
        }
    }

    /// Starts a key; its rows follow.
    #[inline]
    pub(crate) fn key(&mut self, hash: u64, key: Packed<'_>) {
        let number = block_of(hash, self.prefix_bits, self.block_bits);
        if number != self.open.number {
            self.close_blocks_before(number);
        }
        let fingerprint = fingerprint_of(hash, self.prefix_bits, self.block_bits);
        self.open.fingerprints.push(fingerprint);
        self.open.row_ends.push(self.open.rows);
        self.open.keys.push(key);
        self.total_keys += 1;
    }

    /// Adds a row to the key that was started last.
    #[inline]
    pub(crate) fn row(&mut self, seen_at: SeenAt, value: Packed<'_>) {
        self.open.page_values.push(value);
        self.open.page_dates.push(seen_at);
        self.open.rows += 1;
        if let Some(end) = self.open.row_ends.last_mut() {
            *end = self.open.rows;
        }
        if self.open.page_dates.len() == PAGE_ROWS as usize {
            self.close_page();
        }
        self.total_rows += 1;
        let (oldest, newest) = self.span.unwrap_or((seen_at, seen_at));
        self.span = Some((oldest.min(seen_at), newest.max(seen_at)));
    }

    fn close_page(&mut self) {
        if self.open.page_values.count() == 0 {
            return;
        }
        let (values_at, dates_at) = (self.values.len(), self.dates.len());
        self.open.page_values.write(Region::Values, &mut self.values);
        write_dates(&self.open.page_dates, &mut self.dates);
        self.open.page_dates.clear();
        let entry =
            [values_at, self.values.len() - values_at, dates_at, self.dates.len() - dates_at];
        self.open.pages.extend(entry.iter().flat_map(|n| (*n as u32).to_le_bytes()));
    }

    fn close_blocks_before(&mut self, number: u32) {
        if !self.open.fingerprints.is_empty() {
            self.close_page();
            self.write_head();
        }
        // Empty blocks start where the next one does.
        while self.directory.len() <= number as usize {
            self.directory.push(self.block_headers.len() as u32);
        }
        self.open.number = number;
    }

    fn write_head(&mut self) {
        let open = &mut self.open;
        let keys_at = self.keys.len();
        let (kind, width) = open.keys.write(Region::Keys, &mut self.keys);
        let offset = self.block_headers.len();
        let keys = open.fingerprints.len() as u32;
        self.block_headers
            .reserve(BLOCK_HEADER_FIXED + open.pages.len() + open.fingerprints.len() * 6);
        self.block_headers.extend_from_slice(&[0; 8]);
        for number in [keys, open.rows, keys_at as u32, (self.keys.len() - keys_at) as u32] {
            self.block_headers.extend_from_slice(&number.to_le_bytes());
        }
        self.block_headers.extend_from_slice(&[kind, 0]);
        self.block_headers.extend_from_slice(&width.to_le_bytes());
        self.block_headers.extend_from_slice(&open.pages);
        self.block_headers.extend(open.fingerprints.iter().flat_map(|r| r.to_le_bytes()));
        let width = count_delta_width(open.rows - keys);
        let mut start = 0;
        for (end, number) in open.row_ends.iter().zip(1..) {
            self.largest_key = self.largest_key.max(end - start);
            start = *end;
            let row_count_delta = (end - number).to_le_bytes();
            self.block_headers.extend_from_slice(row_count_delta.get(..width).unwrap_or_default());
        }
        if let Some((sum, rest)) =
            self.block_headers.get_mut(offset..).and_then(|header| header.split_at_mut_checked(8))
        {
            sum.copy_from_slice(&checksum(Region::BlockHeaders, offset, rest).to_le_bytes());
        }
        open.fingerprints.clear();
        open.row_ends.clear();
        open.pages.clear();
        open.rows = 0;
    }

    /// Writes the file and makes it durable; `None` for no rows, which need no file.
    ///
    /// # Errors
    /// `Io`, with the path of the file that could not be written; that file is useless and can be removed.
    pub(crate) fn finish(
        mut self,
        disk: &dyn Disk,
        path: &Path,
        table: Identity,
    ) -> Result<Option<SegmentInfo>> {
        if self.total_rows == 0 {
            return Ok(None);
        }
        let header = Header { random: Identity::random()?, table, ..self.end() };
        if self.regions().iter().any(|region| region.len() > u32::MAX as usize) {
            // Loads cut their runs long before this.
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("{} would have a region of more than 4 GiB", path.display()),
            ));
        }
        let encoded = header.encode();
        let write = || {
            let mut file = disk.create(path)?;
            file.write_all(&encoded)?;
            for region in self.regions() {
                file.write_all(region)?;
            }
            file.sync()
        };
        write().map_err(|e| io_error("write", path, e))?;
        Ok(Some(SegmentInfo {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            side: header.side,
            rows: header.rows,
            bytes: header.file_len(),
            oldest: header.oldest,
            newest: header.newest,
            header_sum: Hex64(u64_at(&encoded, HEADER_BYTES - 8).unwrap_or(0)),
            epoch: 0,
            load: None,
            erased_since: None,
            retention_watermark: None,
        }))
    }

    /// The segment without a file; `None` for no rows. Errors name it as `name`.
    pub(crate) fn in_memory(mut self, name: &Path) -> Result<Option<Segment>> {
        if self.total_rows == 0 {
            return Ok(None);
        }
        let mut bytes = self.end().encode().to_vec();
        self.regions().iter().for_each(|region| bytes.extend_from_slice(region));
        Segment::of_map(name.to_owned(), Arc::new(InMemory(bytes)), self.seed).map(Some)
    }

    /// Closes the last blocks; the header that belongs to the regions.
    fn end(&mut self) -> Header {
        self.close_blocks_before(1 << self.block_bits);
        self.encoded_directory = self.directory.iter().flat_map(|at| at.to_le_bytes()).collect();
        let mut ends = [0; 5];
        let mut end = HEADER_BYTES as u64;
        for (slot, region) in ends.iter_mut().zip(self.regions()) {
            end += region.len() as u64;
            *slot = end;
        }
        let (oldest, newest) = self.span.unwrap_or((SeenAt::EPOCH, SeenAt::EPOCH));
        Header {
            side: self.side,
            prefix_bits: self.prefix_bits,
            prefix: self.prefix,
            block_bits: self.block_bits,
            keys: self.total_keys,
            rows: self.total_rows,
            oldest,
            newest,
            ends,
            directory_sum: checksum(Region::Directory, 0, &self.encoded_directory),
            random: Identity::default(),
            table: Identity::default(),
            largest_key: u64::from(self.largest_key),
        }
    }

    fn regions(&self) -> [&[u8]; 5] {
        [&self.encoded_directory, &self.block_headers, &self.keys, &self.values, &self.dates]
    }
}

/// The bytes of a segment that has no file.
struct InMemory(Vec<u8>);

impl Mapped for InMemory {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn populate(&self, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }
}
