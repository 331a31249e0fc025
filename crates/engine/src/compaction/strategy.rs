//! The compaction strategy: which segments to compact next. A pure function of segment statistics.

use crate::hash_partition::HashPartition;
use std::collections::BTreeMap;

/// This many segments of one range and about one size make a tier, which is compacted.
const TIER_SEGMENTS: usize = 4;

/// Segments that are smaller than the largest of their range by this factor are not compacted into it.
const LEVEL_RATIO: u64 = 4;

/// The properties of a segment that the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentStats {
    pub(crate) prefix_bits: u8,
    pub(crate) prefix: u64,
    pub(crate) rows: u64,
    /// Whether it is so large that a compaction would split it into several of the same range.
    pub(crate) is_full: bool,
    /// Whether it should be rewritten because of hidden rows.
    pub(crate) needs_rewrite: bool,
}

/// How far compactions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactionMode {
    /// Each row is rewritten a few times in its life.
    Background,
    /// Until a key is in one large and one much smaller segment at most.
    Idle,
    /// Until every range has one segment, and none needs a rewrite.
    Full,
}

/// The numbers of the segments to compact, and how many prefix bits the results share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compaction {
    pub(crate) inputs: Vec<usize>,
    pub(crate) prefix_bits: u8,
}

/// The next compaction of the segments of one direction, or `None` if there is nothing to do.
///
/// In the background a tier is compacted: [`TIER_SEGMENTS`] segments of one range and about one size. So a
/// row is rewritten a few times in its life. The results of many rows cover finer ranges, so a compaction
/// does not grow with the table. When no flush runs, smaller segments are spread over the ranges of the
/// largest ones, and become one segment beside each or a part of it. Rewrites come last.
pub(crate) fn next_compaction(
    segments: &[SegmentStats],
    mode: CompactionMode,
    segment_rows: u64,
) -> Option<Compaction> {
    let mut ranges: BTreeMap<(u8, u64), Vec<usize>> = BTreeMap::new();
    for (number, segment) in segments.iter().enumerate() {
        ranges.entry((segment.prefix_bits, segment.prefix)).or_default().push(number);
    }
    let rows = |inputs: &[usize]| -> u64 {
        inputs.iter().filter_map(|number| segments.get(*number)).map(|segment| segment.rows).sum()
    };
    let finer = |bits: u8, inputs: &[usize]| {
        (bits + HashPartition::prefix_bits(rows(inputs), segment_rows)).min(HashPartition::BITS)
    };
    let needs_rewrite = |inputs: &[usize]| {
        inputs
            .iter()
            .any(|number| segments.get(*number).is_some_and(|segment| segment.needs_rewrite))
    };
    let is_full = |number: &usize| segments.get(*number).is_some_and(|segment| segment.is_full);
    let tiered = || {
        ranges.iter().find_map(|((bits, _), numbers)| {
            let mut by_size: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for number in numbers {
                let size = segments.get(*number)?.rows.max(1).ilog2() / 2;
                by_size.entry(size).or_default().push(*number);
            }
            // Compacting full segments gains nothing, unless the results cover finer ranges.
            let inputs = by_size.into_values().find_map(|mut tier| {
                if finer(*bits, &tier) == *bits {
                    tier.retain(|number| !is_full(number));
                }
                (tier.len() >= TIER_SEGMENTS).then_some(tier)
            })?;
            Some(Compaction { prefix_bits: finer(*bits, &inputs), inputs })
        })
    };
    let rewrite = || {
        let number = (0..segments.len()).find(|number| needs_rewrite(&[*number]))?;
        let prefix_bits = segments.get(number)?.prefix_bits;
        Some(Compaction { inputs: vec![number], prefix_bits })
    };
    let target = {
        let all: Vec<usize> = (0..segments.len()).collect();
        HashPartition::prefix_bits(rows(&all), segment_rows)
    };
    let leveled = || {
        ranges.iter().find_map(|((bits, _), inputs)| {
            let (mut inputs, prefix_bits) = (inputs.clone(), (*bits).max(target));
            if *bits < target {
                return Some(Compaction { prefix_bits, inputs });
            }
            inputs.sort_by_key(|number| std::cmp::Reverse(rows(&[*number])));
            let full = inputs.iter().filter(|number| is_full(number)).count();
            inputs.drain(..full.saturating_sub(1));
            let (largest, small) = inputs.split_first()?;
            if full > 0 {
                return (small.len() > 1)
                    .then(|| Compaction { prefix_bits, inputs: small.to_vec() });
            }
            if !small.is_empty() && rows(small) * LEVEL_RATIO >= rows(&[*largest]) {
                return Some(Compaction { prefix_bits, inputs });
            }
            (small.len() > 1).then(|| Compaction { prefix_bits, inputs: small.to_vec() })
        })
    };
    match mode {
        CompactionMode::Background => tiered().or_else(rewrite),
        CompactionMode::Idle => tiered().or_else(leveled).or_else(rewrite),
        CompactionMode::Full => ranges.iter().find_map(|((bits, _), inputs)| {
            // A range within another one would have rows of the same keys.
            let finest = segments.iter().map(|segment| segment.prefix_bits).max();
            let target = target.max(finest.unwrap_or(0));
            let is_done = *bits >= target && inputs.len() == 1 && !needs_rewrite(inputs);
            let (prefix_bits, inputs) = ((*bits).max(target), inputs.clone());
            (!is_done).then_some(Compaction { prefix_bits, inputs })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENT_ROWS: u64 = 1_000;

    fn flushed(rows: u64) -> SegmentStats {
        SegmentStats { prefix_bits: 0, prefix: 0, rows, is_full: false, needs_rewrite: false }
    }

    /// Applies a compaction: its rows are spread evenly over the finer ranges. Returns their number.
    fn merged(segments: &mut Vec<SegmentStats>, compaction: &Compaction) -> u64 {
        let inputs: Vec<SegmentStats> = compaction.inputs.iter().map(|n| segments[*n]).collect();
        let (bits, prefix) = (inputs[0].prefix_bits, inputs[0].prefix);
        assert!(inputs.iter().all(|input| (input.prefix_bits, input.prefix) == (bits, prefix)));
        let rows: u64 = inputs.iter().map(|input| input.rows).sum();
        let mut number = 0;
        segments.retain(|_| {
            number += 1;
            !compaction.inputs.contains(&(number - 1))
        });
        let count = 1u64 << (compaction.prefix_bits - bits);
        for partition in 0..count {
            let prefix = match compaction.prefix_bits {
                0 => 0,
                bits => prefix | partition << (64 - bits),
            };
            let rows = rows / count + u64::from(partition < rows % count);
            segments.push(SegmentStats {
                prefix_bits: compaction.prefix_bits,
                prefix,
                rows,
                is_full: false,
                needs_rewrite: false,
            });
        }
        rows
    }

    proptest! {
        #[test]
        fn the_background_keeps_segments_few_and_rewrites_little(
            sizes in prop::collection::vec(1u64..2_000, 1..300),
        ) {
            let (mut segments, mut written, mut rows) = (Vec::new(), 0, 0);
            for size in sizes {
                segments.push(flushed(size));
                rows += size;
                while let Some(compaction) = next_compaction(&segments, CompactionMode::Background, SEGMENT_ROWS) {
                    written += merged(&mut segments, &compaction);
                }
            }
            // The segments that one key can be in: at most three of each size, and there are few sizes and
            // ranges.
            let met = |partition: u64| segments.iter().filter(|segment| {
                segment.prefix_bits == 0 || (segment.prefix ^ partition << 56) >> (64 - segment.prefix_bits) == 0
            }).count();
            let most = (0..256).map(met).max().unwrap();
            prop_assert!(most <= 40, "{} segments for one key", most);
            prop_assert!(written <= rows * 12, "{} rows written for {}", written, rows);
        }

        #[test]
        fn idle_leaves_a_large_segment_and_a_small_one(
            sizes in prop::collection::vec(1u64..2_000, 1..60), loaded in 0u64..40_000,
        ) {
            let mut segments: Vec<SegmentStats> = sizes.iter().map(|size| flushed(*size)).collect();
            let bits = HashPartition::prefix_bits(loaded, SEGMENT_ROWS);
            if loaded > 0 {
                segments.push(flushed(loaded));
                merged(&mut segments, &Compaction { inputs: vec![sizes.len()], prefix_bits: bits });
            }
            let mut merges = 0;
            while let Some(compaction) = next_compaction(&segments, CompactionMode::Idle, SEGMENT_ROWS) {
                merged(&mut segments, &compaction);
                merges += 1;
                prop_assert!(merges < 2_000);
            }
            for segment in &segments {
                let mut rows: Vec<u64> = segments
                    .iter()
                    .filter(|other| (other.prefix_bits, other.prefix) == (segment.prefix_bits, segment.prefix))
                    .map(|other| other.rows)
                    .collect();
                rows.sort_unstable();
                prop_assert!(rows.len() <= 2, "{:?}", rows);
                prop_assert!(rows.len() == 1 || rows[0] * LEVEL_RATIO < rows[1], "{:?}", rows);
            }
            let all: u64 = segments.iter().map(|segment| segment.rows).sum();
            prop_assert_eq!(all, sizes.iter().sum::<u64>() + loaded);
        }

        #[test]
        fn all_of_it_leaves_one_segment_a_range(
            sizes in prop::collection::vec(1u64..2_000, 1..60),
        ) {
            let mut segments: Vec<SegmentStats> = sizes.iter().map(|size| flushed(*size)).collect();
            let mut merges = 0;
            while let Some(compaction) = next_compaction(&segments, CompactionMode::Full, SEGMENT_ROWS) {
                merged(&mut segments, &compaction);
                merges += 1;
                prop_assert!(merges < 1_000);
            }
            prop_assert!(segments.iter().all(|a| segments.iter().filter(|b| a.prefix == b.prefix).count() == 1));
            prop_assert_eq!(segments.iter().map(|segment| segment.rows).sum::<u64>(), sizes.iter().sum::<u64>());
        }
    }

    #[test]
    fn all_of_it_leaves_no_range_within_another() {
        // The rows ask for one prefix bit. Some were spread by two bits, while they were stored many times.
        let fine = SegmentStats { prefix_bits: 2, rows: 300, ..flushed(300) };
        let mut segments =
            vec![flushed(1_500), SegmentStats { prefix_bits: 1, ..flushed(100) }, fine];
        while let Some(compaction) = next_compaction(&segments, CompactionMode::Full, SEGMENT_ROWS)
        {
            merged(&mut segments, &compaction);
        }
        assert!(segments.iter().all(|segment| segment.prefix_bits == 2), "{segments:?}");
        assert_eq!(segments.len(), 4, "{segments:?}");
    }

    #[test]
    fn full_segments_are_merged_only_to_be_split() {
        let full = |rows| SegmentStats { is_full: true, ..flushed(rows) };
        let few = [full(249); 4];
        for mode in [CompactionMode::Background, CompactionMode::Idle] {
            assert_eq!(next_compaction(&few, mode, SEGMENT_ROWS), None, "{mode:?}");
        }
        let many = [full(251); 4];
        let compaction = Compaction { inputs: vec![0, 1, 2, 3], prefix_bits: 1 };
        assert_eq!(
            next_compaction(&many, CompactionMode::Background, SEGMENT_ROWS),
            Some(compaction)
        );
        // The segments of each size have few enough rows for their range, so they stay as they are.
        let mixed = [[full(200); 4], [full(20); 4]].concat();
        assert_eq!(next_compaction(&mixed, CompactionMode::Background, SEGMENT_ROWS), None);
    }

    #[test]
    fn rows_that_nobody_sees_are_a_reason() {
        let old = SegmentStats { needs_rewrite: true, ..flushed(10) };
        let compaction = Compaction { inputs: vec![0], prefix_bits: 0 };
        for mode in [CompactionMode::Background, CompactionMode::Full] {
            assert_eq!(next_compaction(&[old], mode, SEGMENT_ROWS), Some(compaction.clone()));
        }
        assert_eq!(next_compaction(&[flushed(10)], CompactionMode::Full, SEGMENT_ROWS), None);
    }
}
