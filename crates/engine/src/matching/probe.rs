//! Finds the keys of a population partition in the segments.
//!
//! Both are in the order of the hash, so each block is read once and blocks come in order. It takes a chunk
//! of identifiers at a time. First it searches their fingerprints and prefetches the candidate keys; then
//! it compares whole keys. Hits go to `count`. Must not know where the population comes from. Invariant:
//! where a fingerprint fits and no key does, the block's key page is verified.

use super::context::MatchContext;
use super::count::count;
use super::hit::Hit;
use super::population::{IdEntry, PopulationPartition};
use crate::cpu::prefetch;
use crate::hash_partition::HashPartition;
use crate::lookup::BlockCache;
use crate::segment::{Block, Region, Segment};
use idmatch_store::{MatchCounts, Result, RowStates};

/// Entries whose keys are prefetched together.
const CHUNK: usize = 256;
/// From this many keys a block on, a segment is read as a whole, because most pages are touched.
const DENSE_KEYS_PER_BLOCK: f64 = 0.25;

/// A key with the fingerprint of an entry.
struct Candidate {
    entry: u32,
    block: u32,
    key: u32,
}

/// Finds and counts the matches of a partition; marks the rows that have some, if the match is positional.
pub(super) fn probe(
    context: MatchContext<'_>,
    partition: HashPartition,
    population: &PopulationPartition,
    states: Option<&RowStates>,
) -> Result<(Vec<Hit>, MatchCounts)> {
    let segments = context.segments;
    for segment in segments {
        prefetch_blocks(
            segment,
            partition,
            population.entries().len(),
            &[Region::BlockHeaders, Region::Keys],
        )?;
    }
    // Neighbouring blocks are fetched by the processor itself.
    let sparse = segments
        .iter()
        .any(|segment| population.entries().len() < segment.blocks_of(partition).len());
    let checked = vec![None; segments.len()];
    let mut prober = Prober { population, blocks: Vec::new(), candidates: Vec::new(), checked };
    let mut last_blocks: Vec<LastBlock<'_>> = segments.iter().map(|_| None).collect();
    let mut cache = BlockCache::new(segments);
    let mut hits = Vec::new();
    let mut counts = MatchCounts::default();
    let mut first_entry = 0;
    for chunk in population.entries().chunks(CHUNK) {
        let start = hits.len();
        if sparse {
            for segment in segments {
                let blocks = || chunk.iter().map(|entry| segment.header.block_of(entry.hash));
                blocks().for_each(|number| segment.prefetch_entry(number));
                blocks().for_each(|number| segment.prefetch_block_header(number));
            }
        }
        for ((number, segment), last_block) in (0..).zip(segments).zip(&mut last_blocks) {
            prober.collect_candidates(segment, chunk, last_block)?;
            prober.compare_keys(number, segment, first_entry, chunk, &mut hits)?;
        }
        let found = hits.get_mut(start..).unwrap_or_default();
        if segments.len() > 1 {
            found.sort_by_key(|hit| hit.entry);
        }
        count(context, (population, states), found, &mut cache, &mut counts)?;
        first_entry += chunk.len() as u32;
    }
    segments.iter().for_each(|segment| segment.give_back(partition));
    Ok((hits, counts))
}

/// Has the disk deliver the blocks of a partition if its `keys` keys touch most of them.
pub(super) fn prefetch_blocks(
    segment: &Segment,
    partition: HashPartition,
    keys: usize,
    regions: &[Region],
) -> Result<()> {
    let blocks = segment.blocks_of(partition);
    if (keys as f64) < DENSE_KEYS_PER_BLOCK * blocks.len() as f64 {
        return Ok(());
    }
    segment.populate(regions, blocks)
}

/// The block of a segment that was read last; `None` inside for an empty one.
type LastBlock<'a> = Option<(u32, Option<Block<'a>>)>;

/// The buffers of a chunk.
struct Prober<'a> {
    population: &'a PopulationPartition,
    blocks: Vec<(u32, Block<'a>)>,
    candidates: Vec<Candidate>,
    /// The block of each segment whose keys were verified last.
    checked: Vec<Option<u32>>,
}

impl<'a> Prober<'a> {
    /// Second step: compares the whole keys.
    fn compare_keys(
        &mut self,
        number: u32,
        segment: &'a Segment,
        first_entry: u32,
        chunk: &[IdEntry],
        hits: &mut Vec<Hit>,
    ) -> Result<()> {
        let keys = segment.region(Region::Keys);
        let mut candidates = self.candidates.as_slice();
        while let Some(Candidate { entry, block, .. }) = candidates.first() {
            let alike = candidates.iter().take_while(|other| other.entry == *entry).count();
            let (these, rest) = candidates.split_at_checked(alike).unwrap_or((candidates, &[]));
            candidates = rest;
            let (Some(wanted), Some((block_number, block))) = (
                chunk.get(*entry as usize).and_then(|entry| self.population.key(entry)),
                self.blocks.get(*block as usize),
            ) else {
                continue;
            };
            let page = block.key_page(keys);
            let found = these
                .iter()
                .find(|candidate| page.and_then(|page| page.get(candidate.key)) == Some(wanted));
            match found {
                Some(candidate) => {
                    let rows = block.rows_of(candidate.key);
                    hits.push(Hit::new(first_entry + entry, number, *block_number, rows));
                }
                // Another key with these 16 bits, or damage. Many such keys of a block verify it once.
                None => {
                    if let Some(checked) = self.checked.get_mut(number as usize)
                        && *checked != Some(*block_number)
                    {
                        segment.check_keys(block)?;
                        *checked = Some(*block_number);
                    }
                }
            }
        }
        Ok(())
    }

    /// First step: finds the keys with the fingerprints of the chunk and prefetches them.
    fn collect_candidates(
        &mut self,
        segment: &'a Segment,
        chunk: &[IdEntry],
        last_block: &mut LastBlock<'a>,
    ) -> Result<()> {
        self.blocks.clear();
        self.candidates.clear();
        let keys = segment.region(Region::Keys);
        self.blocks.extend(last_block.and_then(|(number, block)| Some((number, block?))));
        for (entry, IdEntry { hash, .. }) in (0..).zip(chunk) {
            let number = segment.header.block_of(*hash);
            if last_block.as_ref().is_none_or(|(open, _)| *open != number) {
                let block = segment.block(number)?;
                *last_block = Some((number, block));
                self.blocks.extend(block.map(|block| (number, block)));
            }
            // The block is borrowed: reads of a copy would wait for the writes of the copy.
            let Some((_, Some(block))) = &*last_block else { continue };
            let mut found = block.find(segment.header.fingerprint_of(*hash));
            if found.len() > 1
                && let Some(key) = chunk.get(entry as usize).and_then(|e| self.population.key(e))
            {
                found = segment.narrowed(block, found, *hash, key);
            }
            for key in found {
                if let Some(page) = block.key_page(keys) {
                    prefetch(keys, block.key_page_range().0 + page.guess_offset(key));
                }
                let block = self.blocks.len() as u32 - 1;
                self.candidates.push(Candidate { entry, block, key });
            }
        }
        Ok(())
    }
}
