//! Callers who give up, and deadlines: work that waits for servers ends soon after.

use crate::common::{
    Batches, answers, contact_points, fresh, load_from, row_batches, settings_with_copies,
    try_erase, try_upsert, upsert,
};
use idmatch_cql::CqlStore;
use idmatch_model::{Period, Pick, Side, TableOptions, Target, Window};
use idmatch_store::{
    BatchSource, Call, ErrorFields, ErrorKind, MatchQuery, OpenTables, Result, RowNumbers,
    SourceBatch, Table,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a caller gives up.
type Work<'w> = &'w (dyn Fn(&Table) -> Result<()> + Sync);

const THEN: i64 = 1_750_000_000_000;
const QUERY: MatchQuery =
    MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };
/// A read of all 16 buckets takes seconds, on any machine.
const SLOW: &str = "&max_requests_per_second=1";

fn open(keyspace: &str, options: &str) -> Table {
    // What has to be known to all clients takes two minutes.
    let options = format!("&metadata_ttl=2m{options}");
    let settings = settings_with_copies(&contact_points(), keyspace, &options);
    let store = CqlStore::open(settings).unwrap();
    store.table_with(&"t".parse().unwrap(), &TableOptions::default()).unwrap()
}

fn rows(count: usize) -> Vec<(String, String, i64)> {
    (0..count).map(|n| (format!("id{n}"), format!("of-id{n}"), THEN)).collect()
}

fn ids(count: usize) -> Vec<String> {
    rows(count).into_iter().map(|row| row.0).collect()
}

fn after_a_while() -> bool {
    std::thread::sleep(Duration::from_millis(200));
    true
}

/// The error of work whose caller gives up after it has begun.
fn stopped(table: &Table, work: Work<'_>, has_begun: &dyn Fn() -> bool) -> idmatch_store::Error {
    let stop = Arc::new(AtomicBool::new(false));
    let stoppable = table.with_call(Call::default().cancelled_by(&stop));
    let done = std::thread::scope(|scope| {
        let working = scope.spawn(|| work(&stoppable));
        while !has_begun() && !working.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Relaxed);
        working.join().unwrap()
    });
    // It was not done before.
    let error = done.unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    error
}

#[test]
fn work_ends_when_its_caller_gives_up() {
    let _beside = fresh("stops");
    let table = open("stops", "");
    upsert(&table, &rows(100));
    let slow = open("stops", SLOW);
    let population = ids(100);
    let matches: Work<'_> =
        &|table| table.match_population(&mut Batches::of_ids(&population), QUERY).map(drop);
    let kind_of =
        |work: Work<'_>, has_begun: &dyn Fn() -> bool| stopped(&slow, work, has_begun).kind();
    let unknown = ErrorKind::UnknownOutcome;
    assert_eq!(kind_of(matches, &after_a_while), ErrorKind::Cancelled);
    assert_eq!(kind_of(&|table| table.verify().map(drop), &after_a_while), ErrorKind::Cancelled);
    // How far they are by then depends on the machine: they may have begun to write, or not.
    for work in
        [&(|table: &Table| table.compact()) as Work<'_>, &|table| table.repair(false).map(drop)]
    {
        let kind = kind_of(work, &after_a_while);
        assert!([ErrorKind::Cancelled, unknown].contains(&kind), "{kind:?}");
    }
    assert_eq!(table.verify().unwrap(), []);

    // These are published, and then wait until everyone knows.
    let erases: Work<'_> =
        &|table| try_erase(table, &[Target::Id("id7".to_owned())], THEN).map(drop);
    assert_eq!(kind_of(erases, &|| table.erasures().unwrap().hashes.len() == 1), unknown);
    let matched = table.match_population(&mut Batches::of_ids(&population), QUERY).unwrap();
    assert_eq!((matched.counts().population, matched.counts().matched), (100, 99));
    let lengthens: Work<'_> = &|table| table.set_retention(Some(Period::parse("10y").unwrap()));
    assert_eq!(kind_of(lengthens, &|| table.verify().unwrap().len() == 1), unknown);
    let findings = table.verify().unwrap();
    assert!(findings.iter().any(|finding| finding.problem.contains("set it again")));
}

#[test]
fn work_ends_at_its_deadline() {
    let _beside = fresh("deadlines");
    let table = open("deadlines", "");
    upsert(&table, &rows(100));
    let slow = open("deadlines", SLOW);
    let population = ids(100);
    let matches: Work<'_> =
        &|table| table.match_population(&mut Batches::of_ids(&population), QUERY).map(drop);
    let keys: Vec<&str> = population.iter().map(String::as_str).collect();
    let lookup = idmatch_store::Lookup::by(Side::Id);
    let looks_up: Work<'_> = &|table| table.lookup_many(&keys, lookup).map(drop);
    let upserts: Work<'_> = &|table| try_upsert(table, &rows(100));
    let works: [(&str, ErrorKind, Work<'_>); 3] = [
        ("a match", ErrorKind::Cancelled, matches),
        ("a lookup of many keys", ErrorKind::Cancelled, looks_up),
        ("an upsert", ErrorKind::UnknownOutcome, upserts),
    ];
    for (what, kind, work) in works {
        let mut time = Duration::from_millis(200);
        loop {
            let deadline = Instant::now() + time;
            let error = work(&slow.with_call(Call::default().until(deadline))).expect_err(what);
            assert!(error.chain().contains("the deadline has passed"), "{what}: {}", error.chain());
            if error.kind() == kind {
                break;
            }
            // It had not begun: the machine is slow.
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{what}: {}", error.chain());
            time *= 2;
        }
        // One that has passed already: nothing begins.
        let over = Call::default().until(Instant::now());
        let error = work(&table.with_call(over)).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{what}: {}", error.chain());
    }
    // Time enough.
    let hour = Call::default().until(Instant::now() + Duration::from_secs(3_600));
    let matched = table.with_call(hour);
    let matched = matched.match_population(&mut Batches::of_ids(&population), QUERY).unwrap();
    assert_eq!(matched.counts().matched, 100);
}

#[test]
fn writes_that_are_given_up_say_which_rows_are_open() {
    let _beside = fresh("given_up");
    let table = open("given_up", "");
    // All of them take six seconds.
    let slow = open("given_up", "&max_requests_per_second=5");
    let all = rows(200);
    let loads: Work<'_> = &|table| load_from(table, &mut Batches::of_rows(&all[..100]));
    for work in [loads, &|table| try_upsert(table, &all[100..])] {
        let before = table.stats().unwrap().rows;
        let error = stopped(&slow, work, &|| table.stats().unwrap().rows > before);
        assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{}", error.chain());
        let open = ErrorFields::UnknownOutcome { rows: RowNumbers::of("test", 1..101) };
        assert_eq!(error.fields(), Some(&open));
    }
    upsert(&table, &all);
    assert_eq!(table.verify().unwrap(), []);
}

/// Batches after the first of which the caller gives up.
struct GivesUp {
    batches: Vec<SourceBatch>,
    stop: Arc<AtomicBool>,
}

impl BatchSource for GivesUp {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        self.stop.store(true, Relaxed);
        Ok(self.batches.pop())
    }
}

#[test]
fn a_load_that_has_sent_nothing_has_done_nothing() {
    let _beside = fresh("nothing_sent");
    let table = open("nothing_sent", "");
    let stop = Arc::new(AtomicBool::new(false));
    let mut source = GivesUp { batches: row_batches(&rows(100), 10), stop: Arc::clone(&stop) };
    let error = load_from(&table.with_call(Call::default().cancelled_by(&stop)), &mut source);
    let error = error.unwrap_err();
    assert_eq!((error.kind(), source.batches.len()), (ErrorKind::Cancelled, 9));
    assert!((90..100).all(|n| answers(&table, Side::Id, &format!("id{n}")).unwrap().is_empty()));
}
