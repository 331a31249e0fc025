//! The connection to the servers: requests with their limits and retries.
//!
//! - `connection` makes the session, `bootstrap` makes it while a node does not respond, and `tls`
//!   encrypts it.
//! - `prepare` makes a `statement`; `session` sends it, page by page with `paging`; `schema_change`
//!   sends changes of tables.
//! - `limiter` gives permits, `retry` repeats attempts, `speculation` sets the speculative delay.
//! - `request_counts` counts what one piece of work sends; `history` records attempts, and `requirements`
//!   explains what a failed request required.
//! - `metrics` counts for Prometheus, `figures` adds values that are read at each scrape, and `nodes` asks
//!   each node about itself.
//! - `runtime` has the threads of the driver. Callers use the rest of the crate on their own threads, and
//!   wait with `wait`.
//!
//! Must not know any table.
//!
//! Invariants:
//! - every statement is idempotent, so that it may be retried, and sent to two nodes at once; only a
//!   change of tables goes to one node at a time;
//! - requests about rows wait for a permit. Catalog requests need no permit, because requests with permits
//!   wait for them; but they count against the rate limit.

mod bootstrap;
mod cluster;
mod connect_error;
mod connection;
mod figures;
mod history;
mod limiter;
mod metrics;
mod nodes;
pub(crate) mod paging;
mod prepare;
pub(crate) mod request_counts;
mod requirements;
mod retry;
mod runtime;
mod schema_change;
mod session;
mod speculation;
mod statement;
mod tls;
mod wait;

pub use nodes::{NodeAnswers, NodeRow, NodeValue};
pub(crate) use session::{Client, Use, WritePermit};
pub(crate) use statement::Prepared;
