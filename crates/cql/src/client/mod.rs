//! The connection to the servers: requests with their limits and repetitions.
//!
//! Owns the runtime that the driver works in; the rest of the crate is called from other threads;
//! `wait` is how they wait. `connection` makes the session, `bootstrap` does while a node hangs, `tls`
//! encrypts it, `limiter` says when a request may be sent, `speculation` when another node is asked too,
//! `history` what became of it, `replicas` what it needed. Must not know any table.
//!
//! Invariants:
//! - every statement is idempotent, so that it may be sent again, and to two nodes at once; only a
//!   change of tables is sent to one node at a time;
//! - requests about rows wait for their turn. Those of the catalog do not, but count: others wait for
//!   them while having turns.

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
