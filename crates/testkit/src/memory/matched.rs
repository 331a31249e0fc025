//! A population that the reference has matched.

use super::observed::Answer;
use arrow_array::{RecordBatch, StringArray, TimestampMillisecondArray};
use idmatch_model::{Pick, SeenAt, Side};
use idmatch_store::{
    Error, ErrorKind, Match, MatchCounts, MatchSink, PlanStep, Result, match_schema,
};
use std::sync::Arc;

const BATCH_ROWS: usize = 8_192;

/// All matches, worked out.
pub(super) struct MemoryMatch {
    by: Side,
    counts: MatchCounts,
    rows: Vec<(Arc<str>, Arc<str>, SeenAt)>,
}

impl MemoryMatch {
    /// The match of an empty population.
    pub(super) fn new(by: Side) -> MemoryMatch {
        MemoryMatch { by, counts: MatchCounts::default(), rows: Vec::new() }
    }

    /// Adds a population row: its key with the key's answers, newest first, or `None` for an
    /// invalid identifier.
    pub(super) fn add_population_row(&mut self, row: Option<(&str, Vec<Answer>)>, pick: Pick) {
        self.counts.population += 1;
        let Some((key, mut answers)) = row.filter(|(_, answers)| !answers.is_empty()) else {
            return;
        };
        if pick == Pick::Latest {
            answers.truncate(1);
        }
        self.counts.matched += 1;
        self.counts.rows += answers.len() as u64;
        let key: Arc<str> = key.into();
        self.rows.extend(answers.into_iter().map(|(answer, date)| (key.clone(), answer, date)));
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
            let keys = StringArray::from_iter_values(rows.iter().map(|(key, _, _)| key));
            let answers = StringArray::from_iter_values(rows.iter().map(|(_, answer, _)| answer));
            let dates = rows.iter().map(|(_, _, date)| date.millis_i64());
            let dates = TimestampMillisecondArray::from_iter_values(dates).with_timezone("UTC");
            let columns: Vec<arrow_array::ArrayRef> =
                vec![Arc::new(keys), Arc::new(answers), Arc::new(dates)];
            let batch = RecordBatch::try_new(match_schema(self.by), columns).map_err(|e| {
                Error::with_source(ErrorKind::InvalidArgument, "cannot build a match batch", e)
            })?;
            lane.push(batch)?;
        }
        lane.finish()
    }
}
