//! Single lookups to a fixed schedule. A lookup's time counts from when it should have begun: who
//! comes late because the one before took long is late for the caller too.

use crate::latency::Latency;
use crate::rows::{Rows, hex, mix};
use crate::writers::Progress;
use crate::{Failure, clock};
use idmatch_model::Side;
use idmatch_store::{Lookup, Table};
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// So long before a lookup is due the thread wakes up and spins.
const SPIN: Duration = Duration::from_micros(10);

/// What became of the schedule.
pub(crate) struct Looked {
    seconds: f64,
    /// From when a lookup was due to its answer.
    latency: Latency,
    /// From when it began.
    service: Latency,
}

impl Looked {
    pub(crate) fn json(&self) -> Value {
        let latency = self.latency.json();
        let per_second = latency["calls"].as_f64().unwrap_or(0.0) / self.seconds;
        json!({
            "seconds": self.seconds, "lookups_per_second": per_second, "latency": latency,
            "from_begin_to_answer": self.service.json(),
        })
    }
}

/// Asks for the newest answer of ids that are in the table, half of them upserted lately.
pub(crate) fn to_schedule(
    table: &Table,
    rows: &Rows,
    upserted: Option<&Progress>,
    per_second: f64,
    stop: &AtomicBool,
) -> Result<Looked, Failure> {
    clock::wake_exactly();
    let (mut latency, mut service) = (Latency::new(), Latency::new());
    let start = Instant::now();
    let mut number = 0u64;
    while !stop.load(Relaxed) {
        let due = start + Duration::from_secs_f64(number as f64 / per_second);
        let draw = mix(mix(number) ^ 0x10_0c);
        let upserted = upserted.filter(|_| number % 2 == 1);
        let id = match upserted.and_then(|progress| progress.acknowledged_row(draw)) {
            Some(row) => rows.row(row).id,
            None => rows.pairs.get(draw % rows.pairs.len()).0,
        };
        let mut text = [0; 32];
        let id = hex(id, &mut text);
        clock::wait_until(due, SPIN);
        let began = Instant::now();
        let newest = Lookup { limit: 1, ..Lookup::by(Side::Id) };
        if black_box(table.lookup_many(&[id], newest)?).of(0).next().is_none() {
            return Err(format!("{id} is in the table and has no answer").into());
        }
        let ended = Instant::now();
        latency.add(ended - due);
        service.add(ended - began);
        number += 1;
    }
    Ok(Looked { seconds: start.elapsed().as_secs_f64(), latency, service })
}
