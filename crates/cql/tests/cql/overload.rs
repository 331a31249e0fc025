//! Servers that are to be spared: a rate limit is kept and nobody fails by it; who is overloaded is asked
//! less at once, until that is over.

use crate::common::{answers, fresh, open, row_batches, upsert};
use crate::proxy::{Between, naming};
use idmatch_model::{Side, TableOptions};
use idmatch_store::locks::Mutex;
use idmatch_store::{BatchSource, Ingest, NoRejects, OpenTables, Result, SourceBatch, Table, now};
use scylla::errors::DbError;
use scylla_proxy::{Action, Condition, Reaction, RequestFrame, RequestReaction, RequestRule};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::block_in_place;

const THEN: i64 = 1_750_000_000_000;
/// Nothing is read but what a test asks for.
const QUIET: &str = "&metadata_ttl=60m&speculate_after=off";

fn row(id: String) -> (String, String, i64) {
    let partner_id = format!("of-{id}");
    (id, partner_id, THEN)
}

fn table(between: &Between, keyspace: &str, options: &str) -> Table {
    fresh(keyspace);
    let store = between.open(keyspace, &format!("{QUIET}{options}"));
    store.table_with(&"t".parse().unwrap(), &TableOptions::default()).unwrap()
}

type Seen = UnboundedReceiver<(RequestFrame, Option<u16>)>;

/// Lets requests about a row pass, and gives what has passed.
fn counted(between: &mut Between, text: &str) -> Seen {
    let (seen, all) = unbounded_channel();
    let pass = RequestReaction::noop().with_feedback_when_performed(seen);
    between.rules(vec![RequestRule(naming(text), pass)], vec![]);
    all
}

/// Batches of rows, and how many requests were sent when each was asked for.
struct Watched<'s> {
    batches: Vec<SourceBatch>,
    seen: &'s Seen,
    sent: Vec<usize>,
}

impl BatchSource for Watched<'_> {
    fn next_batch(&mut self) -> Result<Option<SourceBatch>> {
        self.sent.push(self.seen.len());
        Ok(self.batches.pop())
    }
}

#[test]
fn a_rate_limit_holds_writers_back_without_errors() {
    const PER_SECOND: usize = 100;
    const BATCHES: usize = 12;
    // What an upsert writes at once, and the least that it takes: a request for each bucket, in both
    // directions.
    const CHUNK: usize = 20_000;
    const REQUESTS: usize = 2 * 16;
    let mut between = Between::start();
    // A shorter timeout than it takes: to wait for a permit is no fault of the servers.
    let options = format!("&max_requests_per_second={PER_SECOND}&timeout=5s");
    let table = table(&between, "rate_limit", &options);
    let seen = counted(&mut between, "rate-limit-");
    let rows: Vec<_> = (0..BATCHES * CHUNK / 2).map(|n| row(format!("rate-limit-{n}"))).collect();
    let batches = row_batches(&rows, CHUNK / 2);
    let mut source = Watched { batches, seen: &seen, sent: Vec::new() };
    let rejects = &mut NoRejects;
    let began = Instant::now();
    table.upsert(&Ingest::new(true, now(), rejects).judged(&mut source), None).unwrap();
    let seconds = began.elapsed().as_secs_f64();
    let allowed = PER_SECOND as f64 * seconds + PER_SECOND as f64 / 10.0 + 1.0;
    assert!(seen.len() as f64 <= allowed, "{} requests in {seconds} s", seen.len());
    // Two chunks are in memory at most: one that is written and one that is read.
    for (batch, sent) in source.sent.into_iter().enumerate() {
        let written = (batch / 2).saturating_sub(2) * REQUESTS;
        assert!(sent >= written, "{sent} requests were sent when batch {batch} was asked for");
    }
    assert_eq!(table.stats().unwrap().rows, rows.len() as u64);
}

#[test]
fn a_rate_limit_holds_readers_back_without_errors() {
    const PER_SECOND: usize = 200;
    const THREADS: usize = 40;
    const EACH: usize = 15;
    let mut between = Between::start();
    let options = format!("&max_requests_per_second={PER_SECOND}");
    let table = table(&between, "readers", &options);
    upsert(&table, &[row("asked-for".to_owned())]);
    let seen = counted(&mut between, "asked-for");
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let found = answers(&table, Side::Id, "asked-for").unwrap();
                    assert_eq!(found, ["of-asked-for"]);
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    let allowed = PER_SECOND as f64 * seconds + PER_SECOND as f64 / 10.0 + 1.0;
    assert_eq!(seen.len(), THREADS * EACH);
    assert!(seen.len() as f64 <= allowed, "{} requests in {seconds} s", seen.len());
}

/// The longest that requests wait for others at a slow node.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);
/// One request too many would arrive within this time.
const LINGER: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(20);

/// How many requests are at a slow node when each of them is let go.
#[derive(Default)]
struct Slow {
    arrived: Arc<Mutex<Option<Seen>>>,
    gone: Arc<AtomicUsize>,
    present: Arc<Mutex<Vec<usize>>>,
}

impl Slow {
    /// Holds requests until this many have arrived.
    fn reaction(&self, least: usize) -> RequestReaction {
        let (sender, receiver) = unbounded_channel();
        *self.arrived.lock() = Some(receiver);
        self.gone.store(0, Relaxed);
        let (arrived, gone, present) =
            (Arc::clone(&self.arrived), Arc::clone(&self.gone), Arc::clone(&self.present));
        let arrived = move || arrived.lock().as_ref().map_or(0, Seen::len);
        let count = move |frame| {
            // The proxy goes on meanwhile.
            block_in_place(|| {
                let end = Instant::now() + EVENT_TIMEOUT;
                while arrived() < least && Instant::now() < end {
                    std::thread::sleep(PAUSE);
                }
                std::thread::sleep(if least > 0 { LINGER } else { Duration::ZERO });
            });
            present.lock().push(arrived() - gone.fetch_add(1, Relaxed));
            frame
        };
        RequestReaction {
            to_addressee: Some(Action { delay: Some(PAUSE), msg_processor: Some(Arc::new(count)) }),
            ..RequestReaction::drop_frame()
        }
        .with_feedback_when_performed(sender)
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.present.lock())
    }
}

#[test]
fn overloaded_servers_are_asked_less_at_once() {
    const IN_FLIGHT: usize = 16;
    let mut between = Between::start();
    let options = format!("&in_flight={IN_FLIGHT}&request_timeout=60s&timeout=120s");
    let table = table(&between, "overload", &options);
    upsert(&table, &[row("asked-for".to_owned())]);
    let ask = |times: usize| {
        std::thread::scope(|scope| {
            for _ in 0..2 * IN_FLIGHT {
                scope.spawn(|| {
                    for _ in 0..times {
                        let found = answers(&table, Side::Id, "asked-for").unwrap();
                        assert_eq!(found, ["of-asked-for"]);
                    }
                });
            }
        });
    };
    let most = |present: &[usize]| present.iter().copied().max().unwrap();
    let slow = Slow::default();
    between.rules(vec![RequestRule(naming("asked-for"), slow.reaction(IN_FLIGHT))], vec![]);
    ask(1);
    assert_eq!(most(&slow.take()), IN_FLIGHT);
    let overloaded = naming("asked-for").and(Condition::TrueForLimitedTimes(4 * IN_FLIGHT));
    between.rules(
        vec![
            RequestRule(overloaded, RequestReaction::forge_with_error(DbError::Overloaded)),
            RequestRule(naming("asked-for"), slow.reaction(0)),
        ],
        vec![],
    );
    ask(4);
    let present = slow.take();
    // The first are those that were under way already.
    assert!(most(&present[IN_FLIGHT..3 * IN_FLIGHT]) < IN_FLIGHT, "{present:?}");
    // The limit grows by one after as many answers as there are permits: from 1 to 16 after 136.
    ask(16);
    slow.take();
    between.rules(vec![RequestRule(naming("asked-for"), slow.reaction(IN_FLIGHT))], vec![]);
    ask(1);
    assert_eq!(most(&slow.take()), IN_FLIGHT);
    assert_eq!(open("overload").tables().unwrap().len(), 1);
}
