//! Which segments to merge next.

use crate::part::Part;
use std::collections::BTreeMap;

/// So many segments of one range and about one size are merged.
const ALIKE: usize = 4;

/// What is smaller than the largest segment of its range by this factor need not become a part of it.
const SMALL: u64 = 4;

/// What the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sized {
    pub(crate) prefix_bits: u8,
    pub(crate) prefix: u64,
    pub(crate) rows: u64,
    /// Whether it is so large that a merge would write several of its range again.
    pub(crate) is_full: bool,
    /// Whether it should be written anew because of rows that nobody sees.
    pub(crate) is_stale: bool,
}

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Each row is rewritten a few times in its life.
    Background,
    /// Until a key is in a large segment and a much smaller one at most.
    Idle,
    /// Until every range has one segment, and none is stale.
    Full,
}

/// Segments to merge, by their numbers, and how many bits the results share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) inputs: Vec<usize>,
    pub(crate) prefix_bits: u8,
}

/// The next merge, or `None` when all is well. `segments` are those of one direction.
///
/// In the background, segments of one range are merged when [`ALIKE`] of them have about the same
/// size, which keeps the rewriting of a row to a few times; the results cover finer ranges
/// when there are many rows, so that one merge never grows with the table. When nothing is written,
/// what is left over is spread over the ranges of the largest segments, and becomes one segment
/// beside each, or a part of it. Then come those that are stale.
pub(crate) fn choose(segments: &[Sized], effort: Effort, segment_rows: u64) -> Option<Choice> {
    let mut ranges: BTreeMap<(u8, u64), Vec<usize>> = BTreeMap::new();
    for (number, segment) in segments.iter().enumerate() {
        ranges.entry((segment.prefix_bits, segment.prefix)).or_default().push(number);
    }
    let rows = |inputs: &[usize]| -> u64 {
        inputs.iter().filter_map(|number| segments.get(*number)).map(|segment| segment.rows).sum()
    };
    let finer = |bits: u8, inputs: &[usize]| {
        (bits + Part::prefix_bits(rows(inputs), segment_rows)).min(Part::BITS)
    };
    let is_stale = |inputs: &[usize]| {
        inputs.iter().any(|number| segments.get(*number).is_some_and(|segment| segment.is_stale))
    };
    let is_full = |number: &usize| segments.get(*number).is_some_and(|segment| segment.is_full);
    let alike = || {
        ranges.iter().find_map(|((bits, _), numbers)| {
            let mut by_size: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for number in numbers {
                let size = segments.get(*number)?.rows.max(1).ilog2() / 2;
                by_size.entry(size).or_default().push(*number);
            }
            // Merging full ones gains nothing, unless the results cover finer ranges.
            let inputs = by_size.into_values().find_map(|mut alike| {
                if finer(*bits, &alike) == *bits {
                    alike.retain(|number| !is_full(number));
                }
                (alike.len() >= ALIKE).then_some(alike)
            })?;
            Some(Choice { prefix_bits: finer(*bits, &inputs), inputs })
        })
    };
    let stale = || {
        let number = (0..segments.len()).find(|number| is_stale(&[*number]))?;
        let prefix_bits = segments.get(number)?.prefix_bits;
        Some(Choice { inputs: vec![number], prefix_bits })
    };
    let target = {
        let all: Vec<usize> = (0..segments.len()).collect();
        Part::prefix_bits(rows(&all), segment_rows)
    };
    let settled = || {
        ranges.iter().find_map(|((bits, _), inputs)| {
            let (mut inputs, prefix_bits) = (inputs.clone(), (*bits).max(target));
            if *bits < target {
                return Some(Choice { prefix_bits, inputs });
            }
            inputs.sort_by_key(|number| std::cmp::Reverse(rows(&[*number])));
            let full = inputs.iter().filter(|number| is_full(number)).count();
            inputs.drain(..full.saturating_sub(1));
            let (largest, small) = inputs.split_first()?;
            if full > 0 {
                return (small.len() > 1).then(|| Choice { prefix_bits, inputs: small.to_vec() });
            }
            if !small.is_empty() && rows(small) * SMALL >= rows(&[*largest]) {
                return Some(Choice { prefix_bits, inputs });
            }
            (small.len() > 1).then(|| Choice { prefix_bits, inputs: small.to_vec() })
        })
    };
    match effort {
        Effort::Background => alike().or_else(stale),
        Effort::Idle => alike().or_else(settled).or_else(stale),
        Effort::Full => ranges.iter().find_map(|((bits, _), inputs)| {
            // A range within another one would have rows of the same keys.
            let finest = segments.iter().map(|segment| segment.prefix_bits).max();
            let target = target.max(finest.unwrap_or(0));
            let is_done = *bits >= target && inputs.len() == 1 && !is_stale(inputs);
            let (prefix_bits, inputs) = ((*bits).max(target), inputs.clone());
            (!is_done).then_some(Choice { prefix_bits, inputs })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENT_ROWS: u64 = 1_000;

    fn flushed(rows: u64) -> Sized {
        Sized { prefix_bits: 0, prefix: 0, rows, is_full: false, is_stale: false }
    }

    /// What a merge leaves: the rows spread evenly over the finer ranges.
    fn merged(segments: &mut Vec<Sized>, choice: &Choice) -> u64 {
        let inputs: Vec<Sized> = choice.inputs.iter().map(|n| segments[*n]).collect();
        let (bits, prefix) = (inputs[0].prefix_bits, inputs[0].prefix);
        assert!(inputs.iter().all(|input| (input.prefix_bits, input.prefix) == (bits, prefix)));
        let rows: u64 = inputs.iter().map(|input| input.rows).sum();
        let mut number = 0;
        segments.retain(|_| {
            number += 1;
            !choice.inputs.contains(&(number - 1))
        });
        let count = 1u64 << (choice.prefix_bits - bits);
        for part in 0..count {
            let prefix = match choice.prefix_bits {
                0 => 0,
                bits => prefix | part << (64 - bits),
            };
            let rows = rows / count + u64::from(part < rows % count);
            segments.push(Sized {
                prefix_bits: choice.prefix_bits,
                prefix,
                rows,
                is_full: false,
                is_stale: false,
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
                while let Some(choice) = choose(&segments, Effort::Background, SEGMENT_ROWS) {
                    written += merged(&mut segments, &choice);
                }
            }
            // Those that one key can be in: at most three of a size, sizes and ranges being few.
            let met = |part: u64| segments.iter().filter(|segment| {
                segment.prefix_bits == 0 || (segment.prefix ^ part << 56) >> (64 - segment.prefix_bits) == 0
            }).count();
            let most = (0..256).map(met).max().unwrap();
            prop_assert!(most <= 40, "{} segments for one key", most);
            prop_assert!(written <= rows * 12, "{} rows written for {}", written, rows);
        }

        #[test]
        fn idle_leaves_a_large_segment_and_a_small_one(
            sizes in prop::collection::vec(1u64..2_000, 1..60), loaded in 0u64..40_000,
        ) {
            let mut segments: Vec<Sized> = sizes.iter().map(|size| flushed(*size)).collect();
            let bits = Part::prefix_bits(loaded, SEGMENT_ROWS);
            if loaded > 0 {
                segments.push(flushed(loaded));
                merged(&mut segments, &Choice { inputs: vec![sizes.len()], prefix_bits: bits });
            }
            let mut merges = 0;
            while let Some(choice) = choose(&segments, Effort::Idle, SEGMENT_ROWS) {
                merged(&mut segments, &choice);
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
                prop_assert!(rows.len() == 1 || rows[0] * SMALL < rows[1], "{:?}", rows);
            }
            let all: u64 = segments.iter().map(|segment| segment.rows).sum();
            prop_assert_eq!(all, sizes.iter().sum::<u64>() + loaded);
        }

        #[test]
        fn all_of_it_leaves_one_segment_a_range(
            sizes in prop::collection::vec(1u64..2_000, 1..60),
        ) {
            let mut segments: Vec<Sized> = sizes.iter().map(|size| flushed(*size)).collect();
            let mut merges = 0;
            while let Some(choice) = choose(&segments, Effort::Full, SEGMENT_ROWS) {
                merged(&mut segments, &choice);
                merges += 1;
                prop_assert!(merges < 1_000);
            }
            prop_assert!(segments.iter().all(|a| segments.iter().filter(|b| a.prefix == b.prefix).count() == 1));
            prop_assert_eq!(segments.iter().map(|segment| segment.rows).sum::<u64>(), sizes.iter().sum::<u64>());
        }
    }

    #[test]
    fn all_of_it_leaves_no_range_within_another() {
        // The rows ask for one bit; rows that came many times were spread by two meanwhile.
        let fine = Sized { prefix_bits: 2, rows: 300, ..flushed(300) };
        let mut segments = vec![flushed(1_500), Sized { prefix_bits: 1, ..flushed(100) }, fine];
        while let Some(choice) = choose(&segments, Effort::Full, SEGMENT_ROWS) {
            merged(&mut segments, &choice);
        }
        assert!(segments.iter().all(|segment| segment.prefix_bits == 2), "{segments:?}");
        assert_eq!(segments.len(), 4, "{segments:?}");
    }

    #[test]
    fn full_segments_are_merged_only_to_be_split() {
        let full = |rows| Sized { is_full: true, ..flushed(rows) };
        let few = [full(249); 4];
        for effort in [Effort::Background, Effort::Idle] {
            assert_eq!(choose(&few, effort, SEGMENT_ROWS), None, "{effort:?}");
        }
        let many = [full(251); 4];
        let choice = Choice { inputs: vec![0, 1, 2, 3], prefix_bits: 1 };
        assert_eq!(choose(&many, Effort::Background, SEGMENT_ROWS), Some(choice));
        // Those of one size are few enough for their range, although all together are not.
        let mixed = [[full(200); 4], [full(20); 4]].concat();
        assert_eq!(choose(&mixed, Effort::Background, SEGMENT_ROWS), None);
    }

    #[test]
    fn rows_that_nobody_sees_are_a_reason() {
        let old = Sized { is_stale: true, ..flushed(10) };
        let choice = Choice { inputs: vec![0], prefix_bits: 0 };
        for effort in [Effort::Background, Effort::Full] {
            assert_eq!(choose(&[old], effort, SEGMENT_ROWS), Some(choice.clone()));
        }
        assert_eq!(choose(&[flushed(10)], Effort::Full, SEGMENT_ROWS), None);
    }
}
