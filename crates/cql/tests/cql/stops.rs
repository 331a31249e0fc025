//! Callers who give up: work that waits for servers ends soon after.

use crate::common::{Batches, contact_points, fresh, settings_with_copies, try_erase, upsert};
use idmatch_cql::CqlStore;
use idmatch_model::{Period, Pick, Side, TableOptions, Target, Window};
use idmatch_store::{ErrorKind, MatchQuery, Result, Store, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// What a caller gives up.
type Work<'w> = &'w (dyn Fn(&dyn Table) -> Result<()> + Sync);

const THEN: i64 = 1_750_000_000_000;

fn open(options: &str) -> Arc<dyn Table> {
    // What has to be known to all clients takes two minutes.
    let options = format!("&lease=2m{options}");
    let store = CqlStore::open(settings_with_copies(&contact_points(), "stops", &options)).unwrap();
    store.create_table(&"t".parse().unwrap(), &TableOptions::default()).unwrap()
}

#[test]
fn work_ends_when_its_caller_gives_up() {
    let _beside = fresh("stops");
    let ids: Vec<String> = (0..100).map(|n| format!("id{n}")).collect();
    let rows: Vec<_> = ids.iter().map(|id| (id.clone(), format!("of-{id}"), THEN)).collect();
    let table = open("");
    upsert(table.as_ref(), &rows);
    // A read of all 16 buckets takes seconds, on any machine.
    let slow = open("&max_requests_per_second=1");
    let query = MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL, positions: false };
    let is_stopped = |what: &str, kind: ErrorKind, work: Work<'_>, has_begun: &dyn Fn() -> bool| {
        let stop = Arc::new(AtomicBool::new(false));
        let stoppable = slow.stopped_by(&stop).unwrap();
        let done = std::thread::scope(|scope| {
            let working = scope.spawn(|| work(stoppable.as_ref()));
            while !has_begun() && !working.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Relaxed);
            working.join().unwrap()
        });
        // It was not done before.
        let error = done.expect_err(what);
        assert_eq!(error.kind(), kind, "{what}: {}", error.chain());
        assert!(error.to_string().contains("interrupted"), "{what}: {error}");
    };
    let after_a_while = || {
        std::thread::sleep(Duration::from_millis(200));
        true
    };
    let reads: [(&str, Work<'_>); 2] = [
        ("a match", &|table| table.match_population(&mut Batches::of_ids(&ids), query).map(drop)),
        ("a verification", &|table| table.verify().map(drop)),
    ];
    for (what, work) in reads {
        is_stopped(what, ErrorKind::Source, work, &after_a_while);
    }
    let unknown = ErrorKind::UnknownOutcome;
    is_stopped("a compaction", unknown, &|table| table.compact(), &after_a_while);
    is_stopped("a repair", unknown, &|table| table.repair(false).map(drop), &after_a_while);
    assert_eq!(table.verify().unwrap(), []);

    // These are published, and then wait until everyone knows.
    let erases: Work<'_> =
        &|table| try_erase(table, &[Target::Id("id7".to_owned())], THEN).map(drop);
    is_stopped("an erasure", unknown, erases, &|| table.erasures().unwrap().hashes.len() == 1);
    let matched = table.match_population(&mut Batches::of_ids(&ids), query).unwrap();
    assert_eq!((matched.counts().population, matched.counts().matched), (100, 99));
    let lengthens: Work<'_> = &|table| table.set_retention(Some(Period::parse("10y").unwrap()));
    is_stopped("a retention", unknown, lengthens, &|| table.verify().unwrap().len() == 1);
    let findings = table.verify().unwrap();
    assert!(findings.iter().any(|finding| finding.problem.contains("set it again")));
}
