//! The header of a segment file.
//!
//! ```text
//!   0 magic "IDMSEG\r\n" | 8 format u32 | 12 side u8 | 13 prefix bits u8 | 14 block bits u8 | 15 zero
//!  16 prefix u64 | 24 keys u64 | 32 rows u64 | 40 oldest u64 | 48 newest u64
//!  56 the ends of directory, block_headers, keys, values and dates, 5 x u64
//!  96 checksum of the directory u64 | 104 random 16 | 120 table 16
//! 136 rows of the largest key u64 | 144 checksum of the header u64
//! ```

use super::{Region, checksum};
use crate::disk;
use crate::encoding::bytes::{array, u32_at, u64_at};
use crate::hash_partition::HashPartition;
use crate::identity::{Hex64, Identity};
use idmatch_model::{SeenAt, Side};
use idmatch_store::Result;
use serde::{Deserialize, Serialize};
use std::ops::{Range, RangeInclusive};
use std::path::Path;

/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 152;
/// The format that this version writes, and the only one it reads.
pub(crate) const FORMAT: u32 = 2;
const MAGIC: [u8; 8] = *b"IDMSEG\r\n";
/// The most block bits there can be, so that a number of blocks fits into 32 bits.
pub(crate) const MAX_BLOCK_BITS: u8 = 31;
const ENDS_AT: usize = 56;
const DIRECTORY_SUM_AT: usize = 96;
const RANDOM_AT: usize = 104;
const TABLE_AT: usize = 120;
const LARGEST_KEY_AT: usize = 136;
const SUM_AT: usize = 144;
const _: () = assert!(ENDS_AT + 5 * 8 == DIRECTORY_SUM_AT && SUM_AT + 8 == HEADER_BYTES);

/// The values in the header of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) side: Side,
    /// All hashes start with these bits: the highest `prefix_bits` of `prefix`.
    pub(crate) prefix_bits: u8,
    pub(crate) prefix: u64,
    /// The file has 2^block_bits blocks.
    pub(crate) block_bits: u8,
    pub(crate) keys: u64,
    pub(crate) rows: u64,
    pub(crate) oldest: SeenAt,
    pub(crate) newest: SeenAt,
    /// Where directory, block_headers, keys, values and dates end in the file.
    pub(crate) ends: [u64; 5],
    pub(crate) directory_sum: u64,
    /// Makes the header, and with it its checksum, different from that of every other file.
    pub(crate) random: Identity,
    /// The table whose rows it has.
    pub(crate) table: Identity,
    /// Rows of the key with the most rows.
    pub(crate) largest_key: u64,
}

/// The entry of a segment in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentInfo {
    /// The file's name in the folder of segments.
    pub(crate) file: String,
    pub(crate) side: Side,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) oldest: SeenAt,
    pub(crate) newest: SeenAt,
    /// The checksum in the file's header: the file is the one that was published.
    pub(crate) header_sum: Hex64,
    /// The number of replaces of the table before its rows came.
    pub(crate) epoch: u64,
    /// The number of the load that wrote its rows; none for upserts and compactions.
    pub(crate) load: Option<u64>,
    /// The time since which some of its rows may be erased, in milliseconds since 1970.
    pub(crate) erased_since: Option<u64>,
    /// Older rows are hidden for good: the other direction may not have them any more.
    #[serde(rename = "gone_before")]
    pub(crate) retention_watermark: Option<SeenAt>,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        let side = match self.side {
            Side::Id => 0,
            Side::PartnerId => 1,
        };
        out.extend_from_slice(&[side, self.prefix_bits, self.block_bits, 0]);
        for number in
            [self.prefix, self.keys, self.rows, self.oldest.millis(), self.newest.millis()]
        {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for end in self.ends {
            out.extend_from_slice(&end.to_le_bytes());
        }
        out.extend_from_slice(&self.directory_sum.to_le_bytes());
        out.extend_from_slice(&self.random.0);
        out.extend_from_slice(&self.table.0);
        out.extend_from_slice(&self.largest_key.to_le_bytes());
        out.extend_from_slice(&checksum(Region::Header, 0, &out).to_le_bytes());
        array(&out, 0).unwrap_or([0; HEADER_BYTES])
    }

    /// Reads and checks the header of a whole file.
    pub(crate) fn decode(path: &Path, file: &[u8]) -> Result<Header> {
        let corrupt = |what: &str| disk::corrupt(path, 0, what);
        let Some(header) = array::<HEADER_BYTES>(file, 0) else {
            return Err(corrupt("the file is shorter than a segment's header"));
        };
        if !header.starts_with(&MAGIC) {
            return Err(corrupt("this is no segment"));
        }
        let format = u32_at(&header, 8).unwrap_or(0);
        let summed = header.get(..SUM_AT).unwrap_or_default();
        if u64_at(&header, SUM_AT) != Some(checksum(Region::Header, 0, summed)) {
            return Err(corrupt("the checksum of the header is wrong"));
        }
        if format != FORMAT {
            return Err(disk::other_format(path, "segment", format, FORMAT));
        }
        Header::fields(&header)
            .filter(|header| header.is_consistent(file.len()))
            .ok_or_else(|| corrupt("the header does not fit the file's length"))
    }

    /// Reads a header without checking it.
    pub(crate) fn fields(header: &[u8]) -> Option<Header> {
        let date = |at| SeenAt::from_millis(i64::try_from(u64_at(header, at)?).ok()?).ok();
        let mut ends = [0; 5];
        for (n, end) in ends.iter_mut().enumerate() {
            *end = u64_at(header, ENDS_AT + n * 8)?;
        }
        Some(Header {
            side: match header.get(12)? {
                0 => Side::Id,
                1 => Side::PartnerId,
                _ => return None,
            },
            prefix_bits: *header.get(13)?,
            block_bits: *header.get(14)?,
            prefix: u64_at(header, 16)?,
            keys: u64_at(header, 24)?,
            rows: u64_at(header, 32)?,
            oldest: date(40)?,
            newest: date(48)?,
            ends,
            directory_sum: u64_at(header, DIRECTORY_SUM_AT)?,
            random: Identity(array(header, RANDOM_AT)?),
            table: Identity(array(header, TABLE_AT)?),
            largest_key: u64_at(header, LARGEST_KEY_AT)?,
        })
    }

    /// Whether it can be the header of a file of this length.
    pub(crate) fn is_consistent(&self, file_len: usize) -> bool {
        let ascending = self.ends.is_sorted();
        let blocks = 1usize.checked_shl(u32::from(self.block_bits)).unwrap_or(usize::MAX);
        let directory = blocks.saturating_add(1).saturating_mul(4);
        ascending
            && self.prefix_bits <= HashPartition::BITS
            && self.block_bits <= MAX_BLOCK_BITS
            && self.region(Region::Directory).len() == directory
            && self.ends.last() == Some(&(file_len as u64))
    }

    /// Bytes of the file.
    pub(crate) fn file_len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Where a region lies in the file.
    pub(crate) fn region(&self, region: Region) -> Range<usize> {
        let end = |n: usize| self.ends.get(n).map_or(0, |end| *end as usize);
        match region {
            Region::Header => 0..HEADER_BYTES,
            Region::Directory => HEADER_BYTES..end(0),
            Region::BlockHeaders => end(0)..end(1),
            Region::Keys => end(1)..end(2),
            Region::Values => end(2)..end(3),
            Region::Dates => end(3)..end(4),
        }
    }

    /// The number of the block that holds keys of this hash, which must start with the prefix.
    #[inline(always)]
    pub(crate) fn block_of(&self, hash: u64) -> u32 {
        block_of(hash, self.prefix_bits, self.block_bits)
    }

    /// The 16 bits of a hash that follow the number of its block.
    #[inline(always)]
    pub(crate) fn fingerprint_of(&self, hash: u64) -> u16 {
        fingerprint_of(hash, self.prefix_bits, self.block_bits)
    }

    /// Whether keys of this hash can be in this segment.
    pub(crate) fn covers(&self, hash: u64) -> bool {
        self.prefix_bits == 0 || (hash ^ self.prefix) >> (64 - u32::from(self.prefix_bits)) == 0
    }

    /// The range of its hashes: the number of prefix bits, and the prefix.
    pub(crate) fn range(&self) -> (u8, u64) {
        (self.prefix_bits, self.prefix)
    }

    /// The hash partitions that share hashes with the segment.
    pub(crate) fn partitions(&self) -> RangeInclusive<u8> {
        let within = u8::MAX.checked_shr(u32::from(self.prefix_bits)).unwrap_or(0);
        let first = HashPartition::of(self.prefix).0 & !within;
        first..=first | within
    }

    /// Whether the segment shares hashes with a hash partition.
    pub(crate) fn overlaps(&self, partition: HashPartition) -> bool {
        self.partitions().contains(&partition.0)
    }
}

/// The bits of a hash after the prefix: the number of its block.
#[inline(always)]
pub(super) fn block_of(hash: u64, prefix_bits: u8, block_bits: u8) -> u32 {
    match block_bits {
        0 => 0,
        bits => ((hash << prefix_bits) >> (64 - u32::from(bits))) as u32,
    }
}

/// The 16 bits of a hash after the number of its block.
#[inline(always)]
pub(super) fn fingerprint_of(hash: u64, prefix_bits: u8, block_bits: u8) -> u16 {
    ((hash << (prefix_bits + block_bits)) >> 48) as u16
}
