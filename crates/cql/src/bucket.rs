//! Which partition a key is in.

use twox_hash::XxHash3_64;

/// Rows of a bucket, when a table has as many as it was made for.
pub(crate) const ROWS: usize = 4_000;

/// The bucket of a key among so many: XXH3 (64 bits) of its bytes, modulo their number. Fixed for
/// the life of a table.
pub(crate) fn bucket(key: &str, buckets: i32) -> i32 {
    let buckets = u64::from(buckets.unsigned_abs()).max(1);
    // Lossless: less than `buckets`.
    (XxHash3_64::oneshot(key.as_bytes()) % buckets) as i32
}

/// How many buckets a table of so many rows has: four thousand rows in each, so that a page of a bucket
/// that is read whole has all of it, a list has many keys also where few of a table are asked for, and a
/// partition that outgrows its plan 25 times is still one that servers take without a warning.
pub(crate) fn buckets_for(expected_rows: u64) -> i32 {
    const FEWEST: u64 = 16;
    const MOST: u64 = 1 << 24;
    // Lossless: at most MOST.
    expected_rows.div_ceil(ROWS as u64).clamp(FEWEST, MOST) as i32
}

/// How many rows a table with so many buckets was made for.
pub(crate) fn expected_rows(buckets: i32) -> u64 {
    u64::from(buckets.unsigned_abs()) * ROWS as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_where_it_was_put() {
        // XXH3_64 with seed 0 of these texts, from the reference implementation's own test program.
        assert_eq!(bucket("", i32::MAX), (0x2d06_8005_38d3_94c2_u64 % 0x7fff_ffff) as i32);
        assert!((0..100).all(|n| (0..7).contains(&bucket(&n.to_string(), 7))));
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        assert_eq!([0, 1, 5_000_000, u64::MAX].map(buckets_for), [16, 16, 1_250, 1 << 24]);
        assert_eq!(expected_rows(1_250), 5_000_000);
    }
}
