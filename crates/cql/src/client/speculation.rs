//! Speculative execution: asks another node when the first takes long to answer.
//!
//! Keeps the cost of an unresponsive node low. The delay is `speculate_after`, but at least 250 ms for
//! reads of many rows and 1 s for conditional writes. `off` disables it. Must not know the content of
//! requests. Invariant: a request goes to at most two more nodes, one delay apart.

use crate::settings::Settings;
use scylla::policies::speculative_execution::{
    SimpleSpeculativeExecutionPolicy, SpeculativeExecutionPolicy,
};
use std::sync::Arc;
use std::time::Duration;

/// The least delay of requests for many rows, which take longer in themselves.
pub(super) const BULK: Duration = Duration::from_millis(250);
/// The least delay of conditional writes: two coordinators contend with each other.
pub(super) const CONDITIONAL: Duration = Duration::from_secs(1);
/// Nodes that are asked after the first.
const EXTRA_NODES: usize = 2;

/// The policy with at least this delay; `None` if speculation is off.
pub(super) fn policy(
    settings: &Settings,
    min_delay: Duration,
) -> Option<Arc<dyn SpeculativeExecutionPolicy>> {
    let retry_interval = settings.speculate_after?.max(min_delay);
    Some(Arc::new(SimpleSpeculativeExecutionPolicy {
        max_retry_count: EXTRA_NODES,
        retry_interval,
    }))
}
