//! A population that the reference has matched.

use super::observed::Answer;
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array};
use idmatch_model::SeenAt;
use idmatch_store::{
    Error, ErrorKind, Match, MatchCounts, MatchQuery, MatchSink, PlanStep, Result, UnmatchedReason,
    not_positional,
};
use std::sync::Arc;

const BATCH_ROWS: usize = 8_192;

/// All matches, worked out.
pub(super) struct MemoryMatch {
    query: MatchQuery,
    counts: MatchCounts,
    rows: Vec<MatchedRow>,
    unmatched: Vec<(u32, UnmatchedReason)>,
}

/// A match of a population row.
struct MatchedRow {
    /// The number of the population row, if the match is positional.
    row: u32,
    key: Arc<str>,
    answer: Arc<str>,
    date: SeenAt,
}

impl MemoryMatch {
    /// The match of an empty population.
    pub(super) fn new(query: MatchQuery) -> MemoryMatch {
        let (rows, unmatched) = (Vec::new(), Vec::new());
        MemoryMatch { query, counts: MatchCounts::default(), rows, unmatched }
    }

    /// Adds a population row: its key with the key's answers, newest first, or why it holds no
    /// identifier.
    pub(super) fn add_population_row(&mut self, row: Result<(&str, Vec<Answer>), UnmatchedReason>) {
        let number = self.counts.population as u32;
        self.counts.population += 1;
        let (key, mut answers) = match row {
            Ok((key, answers)) if !answers.is_empty() => (key, answers),
            Ok(_) => return self.unmatched.push((number, UnmatchedReason::NotFound)),
            Err(reason) => return self.unmatched.push((number, reason)),
        };
        answers.truncate(self.query.pick.most());
        self.counts.matched += 1;
        self.counts.rows += answers.len() as u64;
        let key: Arc<str> = key.into();
        let matched = |(answer, date)| MatchedRow { row: number, key: key.clone(), answer, date };
        self.rows.extend(answers.into_iter().map(matched));
    }
}

impl Match for MemoryMatch {
    fn counts(&self) -> MatchCounts {
        self.counts
    }

    fn plan(&self) -> Vec<PlanStep> {
        let keys = self.counts.population;
        vec![PlanStep { how: "lookups", requests: keys, keys, why: "all is in memory".to_owned() }]
    }

    fn write(&self, sink: &dyn MatchSink) -> Result<()> {
        let mut lane = sink.lane()?;
        for rows in self.rows.chunks(BATCH_ROWS) {
            let keys: ArrayRef = if self.query.positions {
                Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.row)))
            } else {
                Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.key)))
            };
            let answers = StringArray::from_iter_values(rows.iter().map(|row| &row.answer));
            let dates = rows.iter().map(|row| row.date.millis_i64());
            let dates = TimestampMillisecondArray::from_iter_values(dates).with_timezone("UTC");
            let columns = vec![keys, Arc::new(answers), Arc::new(dates)];
            let batch = RecordBatch::try_new(self.query.schema(), columns).map_err(|e| {
                Error::with_source(ErrorKind::InvalidArgument, "cannot build a match batch", e)
            })?;
            lane.push(batch)?;
        }
        lane.finish()
    }

    fn unmatched(&self, take: &mut dyn FnMut(u32, UnmatchedReason) -> Result<()>) -> Result<()> {
        if !self.query.positions {
            return Err(not_positional());
        }
        self.unmatched.iter().try_for_each(|(row, reason)| take(*row, *reason))
    }
}
