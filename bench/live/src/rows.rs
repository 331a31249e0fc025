//! Which rows are upserted: row n is a pure function of the seed, n and the pairs there are.
//!
//! Half of them, the odd ones, are pairs that are in the table. Of the others, one in ten has an
//! id and one in twenty a partner_id that is there, as in the table itself (see `data.py`). All
//! dates are newer than those of the table, and ascending from row to row.

use crate::Failure;
use crate::pairs::Pairs;
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch, TimestampMillisecondArray};
use idmatch_model::SeenAt;
use idmatch_store::{BatchSource, Ingest, Reject, RejectSink, Result, SourceBatch, Table};
use std::sync::Arc;

/// 2026-11-01: older than this is all that the table has.
const FIRST_DATE: i64 = 1_793_491_200_000;

/// Dates repeat after this many milliseconds.
const DATES: u64 = 1 << 30;

pub(crate) struct Rows {
    pub(crate) pairs: Pairs,
    seed: u64,
    now: SeenAt,
    source: Arc<str>,
}

pub(crate) struct Row {
    pub(crate) id: [u8; 16],
    pub(crate) partner_id: u64,
    pub(crate) seen_at: i64,
    /// Which of the pairs it is.
    pub(crate) repeats: Option<u64>,
}

impl Rows {
    pub(crate) fn new(pairs: Pairs, seed: u64) -> Rows {
        Rows { pairs, seed, now: idmatch_store::now(), source: "live".into() }
    }

    pub(crate) fn row(&self, number: u64) -> Row {
        let there = self.there(number);
        self.row_of(number, there, self.pairs.get(there))
    }

    /// The pair that a row repeats, in whole or in part.
    fn there(&self, number: u64) -> u64 {
        self.word(number, 0) % self.pairs.len()
    }

    fn word(&self, number: u64, at: u64) -> u64 {
        mix(mix(self.seed ^ mix(number)).wrapping_add(at))
    }

    fn row_of(&self, number: u64, there: u64, pair: ([u8; 16], u64)) -> Row {
        let word = |at| self.word(number, at);
        let seen_at = FIRST_DATE + (number % DATES) as i64;
        if number % 2 == 1 {
            let (id, partner_id) = pair;
            return Row { id, partner_id, seen_at, repeats: Some(there) };
        }
        let draw = word(1) % 1000;
        let id = match draw < 100 {
            true => pair.0,
            false => (u128::from(word(2)) << 64 | u128::from(word(3))).to_be_bytes(),
        };
        let partner_id = match draw >= 950 {
            true => pair.1,
            false => 1_000_000_000_000_000_000 + word(4) % 9_000_000_000_000_000_000,
        };
        Row { id, partner_id, seen_at, repeats: None }
    }

    pub(crate) fn batch(
        &self,
        first: u64,
        count: u64,
    ) -> std::result::Result<RecordBatch, Failure> {
        let rows = count as usize;
        let mut ids = StringBuilder::with_capacity(rows, rows * 32);
        let mut partner_ids = StringBuilder::with_capacity(rows, rows * 19);
        let mut dates = Vec::with_capacity(rows);
        let mut digits = itoa::Buffer::new();
        // First all pairs, which lie anywhere: the processor fetches several at once.
        let pairs: Vec<_> = (first..first + count)
            .map(|number| self.there(number))
            .map(|there| (there, self.pairs.get(there)))
            .collect();
        for (number, (there, pair)) in (first..).zip(pairs) {
            let row = self.row_of(number, there, pair);
            ids.append_value(hex(row.id, &mut [0; 32]));
            partner_ids.append_value(digits.format(row.partner_id));
            dates.push(row.seen_at);
        }
        let dates = TimestampMillisecondArray::from(dates).with_timezone("UTC");
        Ok(RecordBatch::try_from_iter([
            ("id", Arc::new(ids.finish()) as ArrayRef),
            ("partner_id", Arc::new(partner_ids.finish()) as ArrayRef),
            ("seen_at", Arc::new(dates) as ArrayRef),
        ])?)
    }

    /// Upserts a batch; a row that is rejected is an error.
    pub(crate) fn upsert(&self, table: &Table, batch: RecordBatch) -> Result<()> {
        let batch = SourceBatch { source: self.source.clone(), first_row: 1, batch };
        let mut source = Once(Some(batch));
        table.upsert(&Ingest::new(true, self.now, &mut NoRejects).judged(&mut source), None)
    }
}

/// 32 lowercase digits.
pub(crate) fn hex(bytes: [u8; 16], out: &mut [u8; 32]) -> &str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    std::str::from_utf8(out).unwrap_or_default()
}

/// The finalizer of SplitMix64.
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

struct Once(Option<SourceBatch>);

impl BatchSource for Once {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        Ok(self.0.take())
    }
}

struct NoRejects;

impl RejectSink for NoRejects {
    fn reject(&mut self, _: Vec<Reject>) -> Result<()> {
        Ok(())
    }
}
