//! Calls that end early, and ranges of a scan as text.
#![allow(clippy::disallowed_methods, reason = "a deadline is an instant")]

use idmatch_model::{SeenAt, TableId};
use idmatch_store::locks::Mutex;
use idmatch_store::{Call, ErrorKind, Progress, SCAN_RANGES, ScanSplit, Unit, Version};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[test]
fn a_call_ends_by_its_flag_or_its_deadline_and_reports() {
    let call = Call::default();
    assert!(!call.may_end_early() && call.check().is_ok());

    let flag = Arc::new(AtomicBool::new(false));
    let flagged = call.clone().cancelled_by(&flag);
    assert!(flagged.may_end_early() && flagged.check().is_ok());
    flag.store(true, Relaxed);
    assert_eq!(flagged.clone().check().unwrap_err().kind(), ErrorKind::Cancelled);

    let past = Instant::now();
    assert_eq!(call.clone().until(past).check().unwrap_err().kind(), ErrorKind::Cancelled);
    let future = past + Duration::from_secs(3_600);
    assert!(call.clone().until(future).check().is_ok());

    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let reporting = call.reporting(Arc::new(move |done| sink.lock().push(done)));
    reporting.report("verify", 7, Unit::Bytes).unwrap();
    let expected = Progress { stage: "verify", done: 7, unit: Unit::Bytes };
    assert_eq!(*seen.lock(), [expected]);
}

fn divided(count: usize, version: Option<Version>) -> Vec<ScanSplit> {
    let at = SeenAt::from_millis(1_750).unwrap();
    ScanSplit::divide(count, TableId(7), version, at)
}

#[test]
fn ranges_are_the_whole_table_and_come_back_from_text() {
    let version = Version { store: u128::MAX, publication: 3, journal: 5, commit: u64::MAX };
    for count in [0, 1, 2, 3, 7, 256, 4_095, 4_096, 1 << 20] {
        let mut next = 0;
        let splits = divided(count, Some(version));
        assert_eq!(splits.len(), count.clamp(1, SCAN_RANGES));
        for split in splits {
            assert_eq!(split.ranges.start, next);
            next = split.ranges.end;
            assert_eq!(split.to_string().parse::<ScanSplit>().unwrap(), split);
            assert_eq!(split.scan_ranges().len(), split.ranges.len());
        }
        assert_eq!(next, SCAN_RANGES);
    }
    let bare = divided(1, None).remove(0);
    assert_eq!(bare.to_string().parse::<ScanSplit>().unwrap(), bare);
}

#[test]
fn other_texts_are_refused() {
    let good = divided(1, None).remove(0).to_string();
    for bad in ["", ":", "7:-:1", "7:-:1:0-0", "7:-:1:1-0", "7:-:1:0-1001", "7:1.2.3:1:0-1"] {
        assert!(bad.parse::<ScanSplit>().is_err(), "{bad}");
    }
    for end in 0..good.len() - 1 {
        let cut = &good[..end];
        // Fewer digits are another number.
        assert!(cut.parse::<ScanSplit>().is_err() || cut.contains('-'), "{cut}");
    }
    assert!(format!("{good}:").parse::<ScanSplit>().is_err());
}
