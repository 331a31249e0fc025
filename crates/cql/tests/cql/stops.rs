//! Callers who have enough: work that waits for servers ends without them.

use crate::common::{Batches, contact_points, fresh, settings_of, try_erase, upsert};
use idmatch_cql::CqlStore;
use idmatch_model::{Period, Pick, Side, TableOptions, Target, Window};
use idmatch_store::{ErrorKind, MatchQuery, Result, Store, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const THEN: i64 = 1_750_000_000_000;

fn open(options: &str) -> Arc<dyn Table> {
    // What has to be known to all clients takes an hour.
    let options = format!("&replication=1&lease=60m{options}");
    let store = CqlStore::open(settings_of(&contact_points(), "stops", &options)).unwrap();
    store.create_table(&"t".parse().unwrap(), &TableOptions::default()).unwrap()
}

#[test]
fn work_ends_when_its_caller_does_not_wait_any_longer() {
    let _beside = fresh("stops");
    let ids: Vec<String> = (0..100).map(|n| format!("id{n}")).collect();
    let rows: Vec<_> = ids.iter().map(|id| (id.clone(), format!("of-{id}"), THEN)).collect();
    let table = open("");
    upsert(table.as_ref(), &rows);
    // A read of all 16 buckets takes seconds.
    let slow = open("&max_requests_per_second=1");
    let query = MatchQuery { by: Side::Id, pick: Pick::All, window: Window::ALL };
    let is_stopped = |what: &str, work: &(dyn Fn(&dyn Table) -> Result<()> + Sync)| {
        let stop = Arc::new(AtomicBool::new(false));
        let stoppable = slow.stopped_by(&stop).unwrap();
        let done = std::thread::scope(|scope| {
            let working = scope.spawn(|| work(stoppable.as_ref()));
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Relaxed);
            working.join().unwrap()
        });
        let error = done.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Source, "{what}: {}", error.chain());
        assert!(error.to_string().contains("interrupted"), "{what}: {error}");
    };
    is_stopped("a match", &|table| {
        table.match_population(&mut Batches::of_ids(&ids), query).map(drop)
    });
    is_stopped("a verification", &|table| table.verify().map(drop));
    is_stopped("a compaction", &|table| table.compact());
    is_stopped("a repair", &|table| table.repair(false).map(drop));
    is_stopped("a retention", &|table| table.set_retention(Some(Period::parse("10y").unwrap())));
    is_stopped("an erasure", &|table| {
        try_erase(table, &[Target::Id("id7".to_owned())], THEN).map(drop)
    });
    // Others go on, and are told what is left to be done.
    let findings = table.verify().unwrap();
    assert!(findings.iter().all(|finding| finding.problem.contains("set it again")));
    assert_eq!(findings.len(), 1);
    let matched = table.match_population(&mut Batches::of_ids(&ids), query).unwrap();
    assert_eq!((matched.counts().population, matched.counts().matched), (100, 99));
}
