//! The connection to the servers: requests with their limits and retries.
//!
//! Owns the runtime that the driver works in. Other threads call the rest of the crate, and wait with
//! `wait`. `connection` makes the session, `bootstrap` makes it while a node does not respond, and
//! `tls` encrypts it. `limiter` gives permits, `speculation` sets the speculative delay, `history`
//! records attempts, and `replicas` describes requirements. Must not know any table.
//!
//! Invariants:
//! - every statement is idempotent, so that it may be retried, and sent to two nodes at once; only a
//!   change of tables goes to one node at a time;
//! - requests about rows wait for a permit. Catalog requests do not, but count against the rate limit:
//!   requests with permits wait for them.

mod bootstrap;
mod cluster;
mod connect_error;
mod connection;
mod history;
mod limiter;
pub(crate) mod paging;
mod prepare;
mod prepared;
mod replicas;
mod runtime;
mod schema_change;
mod session;
mod speculation;
mod tls;
mod wait;

pub(crate) use prepared::Prepared;
pub(crate) use session::{Client, Permit, Use};
