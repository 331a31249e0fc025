//! The table: a flat sorted array of hashes with a directory by their first bits.

use std::thread;

/// Rows that one entry of the directory covers, at least.
const ROWS_PER_ENTRY: usize = 8;
/// How many probes ahead the array is asked for.
const AHEAD: usize = 16;

pub(crate) struct Table {
    hashes: Vec<u64>,
    /// Start of the hashes of each prefix; one entry more than there are prefixes.
    starts: Vec<u32>,
    shift: u32,
}

impl Table {
    /// A table of `rows` hashes. The space of hashes is cut into as many cells as there are rows and each has one,
    /// at a random place. Six of ten hashes of the population take the place of their cell's, so that they are found.
    pub(crate) fn build(rows: usize, population: &[u64], threads: usize) -> Table {
        let cell = u64::MAX / rows as u64;
        let mut hashes = vec![0; rows];
        let share = rows.div_ceil(threads);
        thread::scope(|scope| {
            for (number, part) in hashes.chunks_mut(share).enumerate() {
                scope.spawn(move || {
                    for (row, hash) in (number * share..).zip(part) {
                        *hash = row as u64 * cell + mix(row as u64) % cell;
                    }
                });
            }
        });
        for hash in population.iter().filter(|hash| mix(**hash) % 10 < 6) {
            hashes[((hash / cell) as usize).min(rows - 1)] = *hash;
        }

        let bits = (rows / ROWS_PER_ENTRY).max(2).ilog2();
        let shift = 64 - bits;
        let mut starts = Vec::with_capacity((1 << bits) + 1);
        for (row, hash) in hashes.iter().enumerate() {
            while starts.len() <= (hash >> shift) as usize {
                starts.push(row as u32);
            }
        }
        starts.resize((1 << bits) + 1, rows as u32);
        Table { hashes, starts, shift }
    }

    /// How many rows the population's hashes meet, which must be sorted.
    pub(crate) fn probe(&self, population: &[u64], threads: usize) -> usize {
        thread::scope(|scope| {
            let workers: Vec<_> = population
                .chunks(population.len().div_ceil(threads).max(1))
                .map(|part| scope.spawn(|| self.probe_part(part)))
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap_or_default()).sum()
        })
    }

    fn probe_part(&self, population: &[u64]) -> usize {
        let mut found = 0;
        for (number, hash) in population.iter().enumerate() {
            if let Some(later) = population.get(number + AHEAD) {
                self.prefetch(self.starts[(later >> self.shift) as usize] as usize);
            }
            let prefix = (hash >> self.shift) as usize;
            let rows = &self.hashes[self.starts[prefix] as usize..self.starts[prefix + 1] as usize];
            found +=
                rows.iter().skip_while(|row| *row < hash).take_while(|row| *row == hash).count();
        }
        found
    }

    #[inline]
    fn prefetch(&self, row: usize) {
        #[cfg(target_arch = "x86_64")]
        if let Some(hash) = self.hashes.get(row) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: the address is of an element that exists, and a prefetch reads nothing anyone can see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(hash).cast()) };
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
