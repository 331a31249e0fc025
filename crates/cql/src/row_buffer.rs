//! Observations in one buffer: a scan fills it from the servers, a write sends it to them.

use idmatch_model::{SeenAt, Side, check_id};
use idmatch_store::{Observations, Result};
use twox_hash::XxHash3_128;

/// Rows of id, partner_id and date, with all text in one buffer.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    text: String,
    /// The end of each id's text, and of its partner_id's.
    ends: Vec<(usize, usize)>,
    seen_at: Vec<SeenAt>,
}

impl RowBuffer {
    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.seen_at.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seen_at.is_empty()
    }

    /// The bytes of all identifiers.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn push(&mut self, id: &str, partner_id: &str, seen_at: SeenAt) {
        self.text.push_str(id);
        let middle = self.text.len();
        self.text.push_str(partner_id);
        self.ends.push((middle, self.text.len()));
        self.seen_at.push(seen_at);
    }

    /// Adds rows that were found valid.
    pub(crate) fn extend(&mut self, rows: &Observations) -> Result<()> {
        let pairs = rows.ids.iter().zip(rows.partner_ids.iter());
        for ((id, partner_id), seen_at) in pairs.zip(&rows.seen_at) {
            self.push(check_id(id)?, check_id(partner_id)?, *seen_at);
        }
        Ok(())
    }

    /// The identifiers of a row in one direction: key and value.
    pub(crate) fn pair(&self, row: usize, by: Side) -> (&str, &str) {
        let start = match row.checked_sub(1).and_then(|before| self.ends.get(before)) {
            Some((_, end)) => *end,
            None => 0,
        };
        let (middle, end) = self.ends.get(row).copied().unwrap_or_default();
        let id = self.text.get(start..middle).unwrap_or_default();
        let partner_id = self.text.get(middle..end).unwrap_or_default();
        match by {
            Side::Id => (id, partner_id),
            Side::PartnerId => (partner_id, id),
        }
    }

    pub(crate) fn seen_at(&self, row: usize) -> SeenAt {
        self.seen_at.get(row).copied().unwrap_or(SeenAt::EPOCH)
    }

    /// XXH3 (128 bits) of all rows in their order.
    pub(crate) fn hash(&self) -> u128 {
        let mut hasher = XxHash3_128::new();
        hasher.write(self.text.as_bytes());
        for ((middle, end), seen_at) in self.ends.iter().zip(&self.seen_at) {
            hasher.write(&(*middle as u64).to_le_bytes());
            hasher.write(&(*end as u64).to_le_bytes());
            hasher.write(&seen_at.millis().to_le_bytes());
        }
        hasher.finish_128()
    }

    /// The rows that `take` selects.
    pub(crate) fn filtered(&self, mut take: impl FnMut(&str, &str, SeenAt) -> bool) -> RowBuffer {
        let mut rows = RowBuffer::default();
        for row in 0..self.len() {
            let ((id, partner_id), seen_at) = (self.pair(row, Side::Id), self.seen_at(row));
            if take(id, partner_id, seen_at) {
                rows.push(id, partner_id, seen_at);
            }
        }
        rows
    }

    /// Groups row numbers by place, and splits a group that is too many rows or bytes for one
    /// request.
    pub(crate) fn grouped<P: Copy + Ord>(
        &self,
        place: impl FnMut(usize) -> P,
        (most_rows, most_bytes): (usize, usize),
    ) -> Vec<(P, Vec<usize>)> {
        let mut placed: Vec<(P, usize)> = (0..self.len()).map(place).zip(0..).collect();
        placed.sort_unstable();
        let mut groups: Vec<(P, Vec<usize>)> = Vec::new();
        let mut bytes = 0;
        for (place, row) in placed {
            let (key, value) = self.pair(row, Side::Id);
            let size = key.len() + value.len();
            match groups.last_mut() {
                Some((last, rows))
                    if *last == place && rows.len() < most_rows && bytes + size <= most_bytes =>
                {
                    rows.push(row);
                    bytes += size;
                }
                _ => {
                    groups.push((place, vec![row]));
                    bytes = size;
                }
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::bucket::Buckets;

    #[test]
    fn groups_have_every_row_once_and_keep_their_bounds() {
        let mut rows = RowBuffer::default();
        for n in 0..500 {
            rows.push(&format!("id{n}"), &format!("p{}", n % 7), SeenAt::EPOCH);
        }
        let buckets = Buckets::new(3, 0);
        let place = |row| buckets.of(rows.pair(row, Side::PartnerId).0);
        let groups = rows.grouped(place, (20, 100));
        let mut seen: Vec<usize> = groups.iter().flat_map(|(_, rows)| rows.clone()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..500).collect::<Vec<_>>());
        for (at, numbers) in groups {
            assert!(numbers.iter().all(|n| buckets.of(rows.pair(*n, Side::PartnerId).0) == at));
            let size =
                |n: &usize| rows.pair(*n, Side::Id).0.len() + rows.pair(*n, Side::Id).1.len();
            assert!(numbers.len() <= 20 && numbers.iter().map(size).sum::<usize>() <= 100);
        }
    }
}
