//! Buckets: the partitions that the keys of a table are divided among, and how many rows each has.
//!
//! [`Buckets`] puts a key into its bucket, and a value of a hot key into its shard. [`buckets_for`] says how many
//! buckets a new table gets. [`BucketRows`] is a moving average of the rows that scanned buckets had: a match counts
//! them, and its planner (`matching::plan`) compares the average with the cost of an IN query. Hashes that tell rows
//! apart use the store's seed, too.
//!
//! Must not know statements. Invariant: a key stays in its bucket for the life of the table, because neither the
//! number of buckets nor the seed changes.

use idmatch_model::SeenAt;
use idmatch_store::locks::Mutex;
use twox_hash::{XxHash3_64, XxHash3_128};

/// Rows of a bucket when a table has its expected number of rows.
pub(crate) const ROWS: usize = 4_000;

/// The expected rows of a table whose maker names no number.
pub(crate) const EXPECTED_ROWS: u64 = 10_000_000;

/// How keys are divided among the buckets of a table, and the values of a hot key among its shards. Fixed
/// for the life of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// The number of buckets.
    pub(crate) number: i32,
    /// The secret seed of the store. Without it, no one can choose keys that crowd a bucket.
    seed: u64,
}

impl Buckets {
    pub(crate) fn new(number: i32, seed: u64) -> Buckets {
        Buckets { number, seed }
    }

    /// The seeded XXH3 (128 bits) of a text: no one can choose two texts that share it.
    pub(crate) fn hash(self, text: &str) -> u128 {
        XxHash3_128::oneshot_with_seed(self.seed, text.as_bytes())
    }

    /// The seeded XXH3 (64 bits) of a row: of its pair, and of the whole.
    pub(crate) fn row_hashes(self, (id, partner_id): (&str, &str), seen_at: SeenAt) -> (u64, u64) {
        // The seed keeps (ab, c) and (a, bc) apart.
        let first = XxHash3_64::oneshot_with_seed(self.seed, id.as_bytes());
        let pair = XxHash3_64::oneshot_with_seed(first, partner_id.as_bytes());
        (pair, XxHash3_64::oneshot_with_seed(pair, &seen_at.millis().to_le_bytes()))
    }

    /// The bucket of a key: the seeded XXH3 (64 bits) of its bytes, modulo the number of buckets.
    pub(crate) fn of(self, key: &str) -> i32 {
        self.place(key, self.number)
    }

    /// The shard of a value, for a key with this number of shards.
    pub(crate) fn shard(self, value: &str, shards: i32) -> i32 {
        self.place(value, shards)
    }

    fn place(self, text: &str, places: i32) -> i32 {
        let places = u64::from(places.unsigned_abs()).max(1);
        // Lossless: less than `places`.
        (XxHash3_64::oneshot_with_seed(self.seed, text.as_bytes()) % places) as i32
    }
}

/// The number of buckets of a table with this many expected rows: 4,000 rows in each. A page then
/// holds a whole bucket, and an IN query has many keys even where a match asks for few rows. A
/// partition that grows to 25 times this size still causes no warning.
pub(crate) fn buckets_for(expected_rows: u64) -> i32 {
    const FEWEST: u64 = 16;
    const MOST: u64 = 1 << 24;
    // Lossless: at most MOST.
    expected_rows.div_ceil(ROWS as u64).clamp(FEWEST, MOST) as i32
}

/// The number of rows that a table with this many buckets was created for.
pub(crate) fn expected_rows(buckets: i32) -> u64 {
    u64::from(buckets.unsigned_abs()) * ROWS as u64
}

/// Weight of one bucket's row count in the moving average: it follows a table that grows.
const AVERAGE_OVER_BUCKETS: u64 = 8;

/// The moving average of the rows in a bucket of one direction. It is [`ROWS`] until a bucket is
/// counted.
#[derive(Debug, Default)]
pub(crate) struct BucketRows(Mutex<BucketStats>);

#[derive(Debug, Clone, Copy, Default)]
struct BucketStats {
    /// Decisions between an IN query and a partition scan.
    choices: u64,
    buckets: u64,
    rows: f64,
}

impl BucketRows {
    /// Adds the row count of a bucket that was scanned.
    pub(crate) fn count(&self, rows: u64) {
        let mut counted = self.0.lock();
        counted.buckets += 1;
        counted.rows +=
            (rows as f64 - counted.rows) / counted.buckets.min(AVERAGE_OVER_BUCKETS) as f64;
    }

    /// Counts a decision between an IN query and a scan; returns the count before it.
    pub(crate) fn choose(&self) -> u64 {
        let mut counted = self.0.lock();
        counted.choices += 1;
        counted.choices - 1
    }

    /// The expected number of rows in a bucket.
    pub(crate) fn expected(&self) -> f64 {
        let counted = *self.0.lock();
        if counted.buckets == 0 { ROWS as f64 } else { counted.rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_rows_follow_the_buckets_that_were_counted() {
        let rows = BucketRows::default();
        assert_eq!(rows.expected(), ROWS as f64);
        rows.count(500);
        assert_eq!(rows.expected(), 500.0);
        (0..100).for_each(|_| rows.count(40_000));
        assert!((39_000.0..=40_000.0).contains(&rows.expected()), "{}", rows.expected());
    }

    #[test]
    fn a_key_stays_where_it_was_put() {
        // XXH3_64 with seed 0 of this text, from the reference implementation's own test program.
        let unseeded = Buckets::new(i32::MAX, 0);
        assert_eq!(unseeded.of(""), (0x2d06_8005_38d3_94c2_u64 % 0x7fff_ffff) as i32);
        assert!((0..100).all(|n| (0..7).contains(&unseeded.shard(&n.to_string(), 7))));
        let places =
            |seed| [0, 1, 2, 3].map(|n: i32| Buckets::new(i32::MAX, seed).of(&n.to_string()));
        assert_ne!(places(1), places(2));
    }

    #[test]
    fn hashes_depend_on_the_seed_and_on_where_a_text_ends() {
        let hashes = |seed| {
            let buckets = Buckets::new(16, seed);
            let rows =
                [("ab", "c"), ("a", "bc")].map(|pair| buckets.row_hashes(pair, SeenAt::EPOCH));
            (buckets.hash("a"), rows)
        };
        let ((text, rows), (other_text, other_rows)) = (hashes(1), hashes(2));
        assert_ne!(text, other_text);
        assert!(rows[0].0 != rows[1].0 && rows[0].1 != rows[1].1);
        assert!(rows[0].0 != other_rows[0].0 && rows[0].1 != other_rows[0].1);
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        assert_eq!([0, 1, 5_000_000, u64::MAX].map(buckets_for), [16, 16, 1_250, 1 << 24]);
        assert_eq!(expected_rows(1_250), 5_000_000);
    }
}
