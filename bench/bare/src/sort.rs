//! Sorting on several threads: spread by the first byte, then each thread sorts its share of the buckets.

use std::thread;

const BUCKETS: usize = 256;

/// All hashes, ascending.
pub(crate) fn sorted(lists: Vec<Vec<u64>>, threads: usize) -> Vec<u64> {
    let spread: Vec<Vec<Vec<u64>>> = thread::scope(|scope| {
        let workers: Vec<_> = lists.iter().map(|list| scope.spawn(|| spread(list))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_default()).collect()
    });
    let sizes: Vec<usize> =
        (0..BUCKETS).map(|bucket| spread.iter().map(|list| list[bucket].len()).sum()).collect();

    let mut all = vec![0; sizes.iter().sum()];
    let per_thread = BUCKETS.div_ceil(threads);
    thread::scope(|scope| {
        let mut rest = all.as_mut_slice();
        for buckets in (0..BUCKETS).collect::<Vec<_>>().chunks(per_thread) {
            let (own, others) =
                rest.split_at_mut(buckets.iter().map(|bucket| sizes[*bucket]).sum());
            rest = others;
            let (spread, buckets) = (&spread, buckets.to_vec());
            scope.spawn(move || gather(own, spread, &buckets));
        }
    });
    all
}

fn spread(hashes: &[u64]) -> Vec<Vec<u64>> {
    let room = hashes.len() / BUCKETS * 9 / 8 + 64;
    let mut buckets: Vec<_> = (0..BUCKETS).map(|_| Vec::with_capacity(room)).collect();
    for hash in hashes {
        buckets[(hash >> 56) as usize].push(*hash);
    }
    buckets
}

fn gather(mut out: &mut [u64], spread: &[Vec<Vec<u64>>], buckets: &[usize]) {
    for bucket in buckets {
        let size = spread.iter().map(|list| list[*bucket].len()).sum();
        let (own, rest) = out.split_at_mut(size);
        out = rest;
        let mut at = 0;
        for list in spread {
            let chunk = &list[*bucket];
            own[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
        }
        own.sort_unstable();
    }
}
