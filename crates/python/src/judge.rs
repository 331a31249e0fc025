//! Judges the rows of sources without storing them.

use crate::errors::OrRaise;
use crate::interrupt::{Watch, interruptible};
use crate::raised::Raised;
use crate::sources::{GivenDates, PyRejects, PySource, date_rules, finish};
use idmatch_model::SeenAt;
use idmatch_store::{Ingest, ObservationSource, Result, Unit, now};
use pyo3::prelude::*;

/// Rows read, rows rejected, bytes of the identifiers of good rows, and the first good rows as (id,
/// partner_id, milliseconds).
type Judged = (u64, u64, u64, Vec<(String, String, i64)>);

/// Judges all sources; keeps the first `shown` good rows.
#[pyfunction]
#[pyo3(signature = (sources, strict, on_rejects, dates, shown))]
pub(crate) fn judge(
    py: Python<'_>,
    sources: &Bound<'_, PyAny>,
    strict: bool,
    on_rejects: Py<PyAny>,
    dates: GivenDates,
    shown: usize,
) -> PyResult<Judged> {
    let dates = date_rules(dates).or_raise(py)?;
    let (iterator, raised) = (sources.try_iter()?.unbind(), Raised::default());
    let mut rejects = PyRejects::new(on_rejects, raised.clone());
    let run = |watch: &Watch| -> Result<Judged> {
        let call = watch.call();
        let mut source = PySource::new(iterator, raised.clone(), watch.stop());
        let ingest = Ingest::new(strict, now(), &mut rejects).with_dates(dates);
        let (mut bytes, mut first) = (0, Vec::new());
        let judged = ingest.judged(&mut source);
        while let Some(rows) = judged.next_batch()? {
            call.report("read", rows.len() as u64, Unit::Rows)?;
            let pairs = rows.ids.iter().zip(rows.partner_ids.iter());
            for ((id, partner_id), seen_at) in pairs.zip(&rows.seen_at) {
                bytes += (id.len() + partner_id.len()) as u64;
                if first.len() < shown {
                    first.push((text(id), text(partner_id), SeenAt::millis_i64(*seen_at)));
                }
            }
        }
        drop(judged);
        Ok((ingest.rows(), ingest.rejected(), bytes, first))
    };
    let judged = interruptible(py, run)?;
    finish(py, judged, &raised)
}

fn text(id: &[u8]) -> String {
    String::from_utf8_lossy(id).into_owned()
}
