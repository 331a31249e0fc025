//! Stores for tests: each in a keyspace of its own.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use idmatch_cql::{CqlStore, Settings};
use idmatch_model::{SeenAt, Side, Target, Window};
use idmatch_store::locks::Mutex;
use idmatch_store::{
    BatchSource, Erased, ErrorKind, Ingest, MatchSink, NoRejects, Result, SourceBatch, Table, now,
};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::query_result::QueryRowsResult;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use twox_hash::XxHash3_64;
use uuid::Uuid;

/// How often a store is opened while servers are late.
const MOST_OPENINGS: usize = 5;

/// The contact points of the cluster that the tests run against.
pub(crate) fn contact_points() -> String {
    match std::env::var("IDMATCH_TEST_CQL") {
        Ok(points) => points,
        Err(_) => panic!("these tests need a cluster: run them with `make test-cql`"),
    }
}

/// As many replicas as the cluster has nodes.
pub(crate) fn replicas() -> usize {
    contact_points().split(',').count()
}

/// Both in a long run, which tries all ways; else the one that the seed of the commit chooses.
pub(crate) fn some_of<T>([one, other]: [T; 2]) -> Vec<T> {
    let said = |name| std::env::var(name).unwrap_or_default();
    match said("IDMATCH_TEST_WAYS").as_str() {
        "" | "all" => vec![one, other],
        _ if said("IDMATCH_SEED").ends_with(['0', '2', '4', '6', '8']) => vec![one],
        _ => vec![other],
    }
}

/// How a store in a keyspace of this name is reached at these points.
pub(crate) fn settings_of(points: &str, keyspace: &str, options: &str) -> Settings {
    let options = options.strip_prefix('&').map_or(String::new(), |given| format!("?{given}"));
    let address = format!("cql://{points}/{keyspace}{options}");
    Settings::parse(&address, &|_| None).unwrap()
}

/// The same; the keyspace is made if it is missing, and each node has all rows.
pub(crate) fn settings_with_copies(points: &str, keyspace: &str, options: &str) -> Settings {
    settings_of(points, keyspace, &format!("&replication={}{options}", replicas()))
}

/// A store in a keyspace of this name. Erasures wait 50 ms.
pub(crate) fn open(keyspace: &str) -> CqlStore {
    open_with(keyspace, "")
}

pub(crate) fn open_with(keyspace: &str, options: &str) -> CqlStore {
    let options = format!("&metadata_ttl=50ms{options}");
    let open = || CqlStore::open(settings_with_copies(&contact_points(), keyspace, &options));
    // Servers may be slower than the timeout of a test.
    let is_late = |opened: &Result<CqlStore>| {
        opened.as_ref().is_err_and(|e| e.kind() == ErrorKind::Unavailable)
    };
    let opened = (0..MOST_OPENINGS).map(|_| open()).find(|opened| !is_late(opened));
    opened.unwrap_or_else(open).unwrap()
}

/// A key and a value.
pub(crate) type Pair = (String, String);
/// Seconds to live, and the timestamp.
pub(crate) type Life = (Option<i32>, i64);

/// A driver's session of the test's own, to look at what is in the servers.
pub(crate) struct Beside {
    runtime: tokio::runtime::Runtime,
    session: Session,
}

impl Beside {
    pub(crate) fn connect() -> Beside {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let nodes: Vec<String> = contact_points().split(',').map(str::to_owned).collect();
        // A node that all tests share may take a while to change its schema.
        let profile = ExecutionProfile::builder().request_timeout(Some(Duration::from_secs(180)));
        let builder = SessionBuilder::new()
            .known_nodes(nodes)
            .default_execution_profile_handle(profile.build().into_handle());
        let session = runtime.block_on(builder.build()).unwrap();
        Beside { runtime, session }
    }

    /// Runs a statement.
    pub(crate) fn run(&self, cql: &str) {
        self.runtime.block_on(self.session.query_unpaged(cql, ())).unwrap();
    }

    /// Runs a statement for which nothing depends on its success.
    pub(crate) fn try_run(&self, cql: &str) {
        self.runtime.block_on(self.session.query_unpaged(cql, ())).ok();
    }

    fn ask(&self, cql: String) -> QueryRowsResult {
        let rows = self.runtime.block_on(self.session.query_unpaged(cql, ())).unwrap();
        rows.into_rows_result().unwrap()
    }

    /// The first column of all rows, which is a text.
    pub(crate) fn texts(&self, cql: &str) -> Vec<String> {
        let rows = self.ask(cql.to_owned());
        rows.rows::<(String,)>().unwrap().map(|row| row.unwrap().0).collect()
    }

    /// The CQL table of one direction of the only table of a keyspace.
    fn table(&self, keyspace: &str, end: &str) -> String {
        let names = self.directions(keyspace);
        names.into_iter().find(|name| name.ends_with(end)).unwrap()
    }

    /// The CQL tables of all directions of a keyspace.
    pub(crate) fn directions(&self, keyspace: &str) -> Vec<String> {
        let names = self.texts(&format!(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'"
        ));
        names.into_iter().filter(|name| name.starts_with("m_")).collect()
    }

    /// The CQL table of one direction of the table that has this name.
    fn table_named(&self, keyspace: &str, (name, end): (&str, &str)) -> String {
        format!("m_{}_{end}", self.id(keyspace, name).simple())
    }

    /// The id of a table.
    pub(crate) fn id(&self, keyspace: &str, name: &str) -> Uuid {
        let cql = format!(
            "SELECT id FROM {keyspace}.idmatch_names WHERE part = 'names' AND name = '{name}'"
        );
        self.ask(cql).first_row::<(Uuid,)>().unwrap().0
    }

    /// How many rows a table of a keyspace has.
    pub(crate) fn count(&self, table: &str) -> i64 {
        self.ask(format!("SELECT count(*) FROM {table}")).first_row::<(i64,)>().unwrap().0
    }

    /// Takes all rows from one direction.
    pub(crate) fn truncate(&self, keyspace: &str, end: &str) {
        self.run(&format!("TRUNCATE {keyspace}.{}", self.table(keyspace, end)));
    }

    /// How many hot keys the logs of all tables record.
    pub(crate) fn hot_records(&self, keyspace: &str) -> usize {
        let rows = self.ask(format!("SELECT parts FROM {keyspace}.idmatch_hashes"));
        let parts = rows.rows::<(Option<i32>,)>().unwrap().map(|row| row.unwrap().0);
        parts.filter(Option::is_some).count()
    }

    /// How many rows the shards of all hot keys by id have.
    pub(crate) fn hot_rows(&self, keyspace: &str) -> i64 {
        self.hot_shards(keyspace).into_iter().sum()
    }

    /// How many rows each shard of the hot keys by id has.
    pub(crate) fn hot_shards(&self, keyspace: &str) -> Vec<i64> {
        let rows = self.ask(format!(
            "SELECT side, count(*) FROM {keyspace}.idmatch_hot GROUP BY id, side, key, parts, part"
        ));
        let rows = rows.rows::<(String, i64)>().unwrap().map(|row| row.unwrap());
        rows.filter(|row| row.0 == "id").map(|row| row.1).collect()
    }

    /// How many rows the largest bucket of a direction has.
    pub(crate) fn largest(&self, keyspace: &str, end: &str) -> i64 {
        let table = self.table(keyspace, end);
        let rows = self.ask(format!("SELECT count(*) FROM {keyspace}.{table} GROUP BY bucket"));
        rows.rows::<(i64,)>().unwrap().map(|row| row.unwrap().0).max().unwrap_or_default()
    }

    /// For how many seconds each row of a direction still lives, `None` for ever, and the timestamp that it
    /// was written with, by key and value.
    pub(crate) fn lives(&self, keyspace: &str, end: &str) -> BTreeMap<Pair, Life> {
        let table = self.table(keyspace, end);
        let rows = self.ask(format!(
            "SELECT key, value, TTL(seen_at), WRITETIME(seen_at) FROM {keyspace}.{table}"
        ));
        let rows = rows.rows::<(String, String, Option<i32>, i64)>().unwrap();
        let life = |row: (String, String, Option<i32>, i64)| ((row.0, row.1), (row.2, row.3));
        rows.map(|row| life(row.unwrap())).collect()
    }

    /// The bucket of a key, in a table of 16.
    pub(crate) fn bucket(&self, keyspace: &str, key: &str) -> u64 {
        let rows = self.ask(format!("SELECT seed FROM {keyspace}.idmatch_store"));
        let (seed,) = rows.first_row::<(i64,)>().unwrap();
        XxHash3_64::oneshot_with_seed(seed.cast_unsigned(), key.as_bytes()) % 16
    }

    /// Adds a row to one direction of a table only, as a client does that dies between its two writes.
    pub(crate) fn add(&self, keyspace: &str, ends: (&str, &str), row: (&str, &str, i64)) {
        let table = self.table_named(keyspace, ends);
        let (key, value, seen_at) = row;
        let bucket = self.bucket(keyspace, key);
        self.run(&format!(
            "INSERT INTO {keyspace}.{table} (bucket, key, value, seen_at) \
             VALUES ({bucket}, '{key}', '{value}', {seen_at}) USING TIMESTAMP {}",
            seen_at * 1000
        ));
    }
}

/// Batches that are in memory.
pub(crate) struct Batches(std::vec::IntoIter<RecordBatch>);

impl Batches {
    /// Observations, one batch.
    pub(crate) fn of_rows(rows: &[(String, String, i64)]) -> Batches {
        let ids = StringArray::from_iter_values(rows.iter().map(|row| &row.0));
        let partner_ids = StringArray::from_iter_values(rows.iter().map(|row| &row.1));
        let dates = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.2));
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(ids) as ArrayRef),
            ("partner_id", Arc::new(partner_ids) as ArrayRef),
            ("seen_at", Arc::new(dates.with_timezone("UTC")) as ArrayRef),
        ]);
        Batches(vec![batch.unwrap()].into_iter())
    }

    /// A population, one batch.
    pub(crate) fn of_ids(ids: &[String]) -> Batches {
        let ids = Arc::new(StringArray::from_iter_values(ids)) as ArrayRef;
        Batches(vec![RecordBatch::try_from_iter([("id", ids)]).unwrap()].into_iter())
    }
}

impl BatchSource for Batches {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        let next = self.0.next();
        Ok(next.map(|batch| SourceBatch { source: "test".into(), first_row: 1, batch }))
    }
}

pub(crate) fn load(table: &Table, rows: &[(String, String, i64)]) {
    let mut no_rejects = NoRejects;
    let ingest = Ingest::new(false, now(), &mut no_rejects);
    table.load(&ingest.judged(&mut Batches::of_rows(rows))).unwrap();
    assert_eq!(ingest.rejected(), 0);
}

/// Loads a source whose bad rows are left out.
pub(crate) fn load_from(table: &Table, source: &mut dyn BatchSource) -> Result<()> {
    table.load(&Ingest::new(false, now(), &mut NoRejects).judged(source))
}

pub(crate) fn upsert(table: &Table, rows: &[(String, String, i64)]) {
    try_upsert(table, rows).unwrap();
}

pub(crate) fn try_upsert(table: &Table, rows: &[(String, String, i64)]) -> Result<()> {
    let rejects = &mut NoRejects;
    table.upsert(&Ingest::new(true, now(), rejects).judged(&mut Batches::of_rows(rows)), None)
}

/// The same rows, so many in each batch.
pub(crate) fn row_batches(rows: &[(String, String, i64)], each: usize) -> Vec<SourceBatch> {
    let batch = |(number, rows)| {
        let batch = Batches::of_rows(rows).next_batch().unwrap().unwrap();
        SourceBatch { first_row: (number * each + 1) as u64, ..batch }
    };
    rows.chunks(each).enumerate().map(batch).collect()
}

/// Rows: id, partner_id, date.
pub(crate) type Rows = Vec<(String, String, i64)>;

/// The rows that are sent to a sink.
pub(crate) fn rows_of(send: impl FnOnce(&dyn MatchSink) -> Result<()>) -> Rows {
    let rows = Mutex::new(Rows::new());
    send(&|batch: RecordBatch| {
        let (keys, values) =
            (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        let dates = batch.column(2).as_primitive::<TimestampMillisecondType>();
        let all = keys.iter().zip(values).zip(dates);
        rows.lock().extend(all.map(|((key, value), date)| {
            (key.unwrap().to_owned(), value.unwrap().to_owned(), date.unwrap())
        }));
        Ok(())
    })
    .unwrap();
    rows.into_inner()
}

/// What goes with a key.
pub(crate) fn answers(table: &Table, by: Side, key: &str) -> Result<Vec<String>> {
    let answers = table.answers(by, key, Window::ALL)?;
    Ok(answers.of(0).map(|(value, _)| value.to_owned()).collect())
}

/// A connection beside a keyspace that is not there yet.
pub(crate) fn fresh(keyspace: &str) -> Beside {
    let beside = Beside::connect();
    beside.run(&format!("DROP KEYSPACE IF EXISTS {keyspace}"));
    beside
}

pub(crate) fn erase(table: &Table, targets: &[Target], at: i64) -> Erased {
    try_erase(table, targets, at).unwrap()
}

pub(crate) fn try_erase(table: &Table, targets: &[Target], at: i64) -> Result<Erased> {
    table.erase(targets, SeenAt::from_millis(at).unwrap())
}
