//! The ways of reading a population. None does more than it must: this is what idmatch is held against.
//!
//! | way | asks | for |
//! |---|---|---|
//! | singles | one-row partitions | one id a request, as is usual |
//! | keys | idmatch's tables | one key of a bucket a request |
//! | lists | idmatch's tables | up to a hundred keys of a bucket, by `IN` |
//! | buckets | idmatch's tables | every bucket in which there is a key, whole |
//! | ranges | idmatch's tables | all there is, by ranges of tokens |

use crate::Failure;
use crate::flight::{Answer, send};
use crate::tables::Bucketed;
use arrow_array::{Array, StringArray};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use scylla::client::session::Session;
use scylla::response::query_result::QueryRowsResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;
use serde_json::Value;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Keys of one `IN`: the most that ScyllaDB takes by default.
const MOST_KEYS: usize = 100;
const PAGE_ROWS: i32 = 5_000;
/// Token ranges of a scan.
const RANGES: i128 = 256;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    Singles,
    Keys,
    Lists,
    Buckets,
    Ranges,
}

/// Asks one table in one way.
pub(crate) struct Reader {
    session: Arc<Session>,
    statement: PreparedStatement,
    way: Way,
    /// Not of one-row partitions.
    table: Option<Bucketed>,
    in_flight: usize,
}

/// A population in the order of the buckets; rows of it by their numbers.
struct Ordered {
    ids: StringArray,
    placed: Vec<(i32, u32)>,
}

impl Reader {
    pub(crate) async fn new(
        session: &Arc<Session>,
        keyspace: &str,
        way: Way,
        in_flight: usize,
    ) -> Result<Reader, Failure> {
        let table = match way {
            Way::Singles => None,
            _ => Some(Bucketed::find(session, keyspace).await?),
        };
        let name = table.as_ref().map_or(format!("{keyspace}.by_id"), |table| table.name.clone());
        let cql = match way {
            Way::Singles => format!("SELECT partner_id, seen_at FROM {name} WHERE id = ?"),
            Way::Keys => format!("SELECT value, seen_at FROM {name} WHERE bucket = ? AND key = ?"),
            Way::Lists => {
                format!("SELECT key, value, seen_at FROM {name} WHERE bucket = ? AND key IN ?")
            }
            Way::Buckets => {
                format!("SELECT bucket, key, value, seen_at FROM {name} WHERE bucket = ?")
            }
            Way::Ranges => format!(
                "SELECT bucket, key, value, seen_at FROM {name} \
                 WHERE token(bucket) > ? AND token(bucket) <= ?"
            ),
        };
        let mut statement = Statement::new(cql).with_page_size(PAGE_ROWS);
        statement.set_is_idempotent(true);
        let mut statement = session.prepare(statement).await?;
        statement.set_use_cached_result_metadata(true);
        Ok(Reader { session: Arc::clone(session), statement, way, table, in_flight })
    }

    /// The matches of a population, counted.
    pub(crate) async fn answer(self: &Arc<Reader>, ids: StringArray) -> Result<Value, Failure> {
        let population = Arc::new(Ordered::new(ids, self.table.as_ref()));
        let groups = Arc::new(match self.way {
            Way::Singles | Way::Keys => population.groups(1),
            Way::Lists => population.groups(MOST_KEYS),
            Way::Buckets => population.groups(usize::MAX),
            Way::Ranges => Vec::new(),
        });
        let requests = if self.way == Way::Ranges { RANGES as usize } else { groups.len() };
        let reader = Arc::clone(self);
        let answer = send(requests, self.in_flight, move |number| {
            let (reader, population) = (Arc::clone(&reader), Arc::clone(&population));
            let groups = Arc::clone(&groups);
            async move {
                match groups.get(number) {
                    Some(group) => reader.group(&population, group.clone()).await,
                    None => reader.range(&population, number as i128).await,
                }
            }
        });
        let mut answer = answer.await?.json();
        answer["requests"] = requests.into();
        Ok(answer)
    }

    /// Asks for one id after the other, and how long each took.
    pub(crate) async fn one_by_one(&self, ids: &StringArray) -> Result<Value, Failure> {
        let mut taken = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
        let mut sum = Answer::default();
        for id in ids.iter().flatten() {
            let began = Instant::now();
            sum += match &self.table {
                None => self.few((id,)).await?,
                Some(table) => self.few((table.bucket(id), id)).await?,
            };
            taken.saturating_record(began.elapsed().as_nanos() as u64);
        }
        Ok(lookups(sum, &taken))
    }

    async fn group(&self, population: &Ordered, group: Range<usize>) -> Result<Answer, Failure> {
        let placed = &population.placed[group];
        let id = |place: &(i32, u32)| population.ids.value(place.1 as usize);
        let bucket = placed[0].0;
        match self.way {
            Way::Singles => self.few((id(&placed[0]),)).await,
            Way::Keys => self.few((bucket, id(&placed[0]))).await,
            Way::Lists => {
                let keys: Vec<&str> = placed.iter().map(id).collect();
                self.pages((bucket, keys), |rows| {
                    let mut sum = Answer::default();
                    for row in rows.rows::<(&str, &str, CqlTimestamp)>()? {
                        sum.add(row?.2);
                    }
                    Ok(sum)
                })
                .await
            }
            Way::Buckets | Way::Ranges => self.pages((bucket,), |rows| population.meet(rows)).await,
        }
    }

    async fn range(&self, population: &Ordered, number: i128) -> Result<Answer, Failure> {
        let start = |number: i128| i128::from(i64::MIN) + number * (1 << 64) / RANGES;
        let end = start(number + 1).min(i128::from(i64::MAX));
        // Both fit.
        self.pages((start(number) as i64, end as i64), |rows| population.meet(rows)).await
    }

    /// An answer of few rows.
    async fn few(&self, values: impl SerializeRow) -> Result<Answer, Failure> {
        let rows = self.session.execute_unpaged(&self.statement, values).await?;
        let rows = rows.into_rows_result()?;
        let mut sum = Answer::default();
        for row in rows.rows::<(&str, CqlTimestamp)>()? {
            sum.add(row?.1);
        }
        Ok(sum)
    }

    async fn pages(
        &self,
        values: impl SerializeRow,
        take: impl Fn(&QueryRowsResult) -> Result<Answer, Failure>,
    ) -> Result<Answer, Failure> {
        let (mut sum, mut state) = (Answer::default(), PagingState::start());
        loop {
            let (page, more) =
                self.session.execute_single_page(&self.statement, &values, state).await?;
            sum += take(&page.into_rows_result()?)?;
            match more {
                PagingStateResponse::HasMorePages { state: next } => state = next,
                PagingStateResponse::NoMorePages => return Ok(sum),
            }
        }
    }
}

/// What a run of lookups gives, of the nanoseconds that each took.
pub(crate) fn lookups(sum: Answer, taken: &Histogram<u64>) -> Value {
    let at = |quantile| taken.value_at_quantile(quantile) as f64 / 1e9;
    let mut run = sum.json();
    run["lookups"] = taken.len().into();
    run["median"] = at(0.5).into();
    run["p99"] = at(0.99).into();
    run
}

impl Ordered {
    /// Orders by bucket and key. One-row partitions have no buckets, and need no order.
    fn new(ids: StringArray, table: Option<&Bucketed>) -> Ordered {
        let bucket = |id: &str| table.map_or(0, |table| table.bucket(id));
        let mut placed: Vec<(i32, u32)> =
            (0..ids.len()).map(|row| (bucket(ids.value(row)), row as u32)).collect();
        if table.is_some() {
            placed.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0).then_with(|| ids.value(a.1 as usize).cmp(ids.value(b.1 as usize)))
            });
        }
        Ordered { ids, placed }
    }

    /// Runs of at most `most` keys of the same bucket.
    fn groups(&self, most: usize) -> Vec<Range<usize>> {
        let (mut groups, mut start) = (Vec::new(), 0);
        for bucket in self.placed.chunk_by(|a, b| a.0 == b.0) {
            let end = start + bucket.len();
            let starts = (start..end).step_by(most.min(bucket.len()));
            groups.extend(starts.map(|from| from..end.min(from.saturating_add(most))));
            start = end;
        }
        groups
    }

    /// Of rows that were read, those which the population asks for.
    fn meet(&self, rows: &QueryRowsResult) -> Result<Answer, Failure> {
        let (mut sum, mut current, mut keys) = (Answer::default(), None, &[][..]);
        for row in rows.rows::<(i32, &str, &str, CqlTimestamp)>()? {
            let (bucket, key, _, seen_at) = row?;
            if current != Some(bucket) {
                let start = self.placed.partition_point(|place| place.0 < bucket);
                let end = self.placed.partition_point(|place| place.0 <= bucket);
                (current, keys) = (Some(bucket), &self.placed[start..end]);
            }
            // Both are in the order of keys.
            while let Some(place) = keys.first()
                && self.ids.value(place.1 as usize) < key
            {
                keys = &keys[1..];
            }
            if keys.first().is_some_and(|place| self.ids.value(place.1 as usize) == key) {
                sum.add(seen_at);
            }
        }
        Ok(sum)
    }
}
