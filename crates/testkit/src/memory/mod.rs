//! The reference: a store in memory that is as plain as can be.
//!
//! It exists to be obviously right, so that other backends can be compared with it. It
//! holds every observation in ordered maps, answers by looking at all dates of a key, and
//! computes a match completely before it hands it out. A snapshot is a copy. Nothing here is fast.

mod matched;
mod observed;
mod parts;
mod session;
mod snapshot;
mod state;
mod store;
mod table;

pub use store::MemoryStore;
