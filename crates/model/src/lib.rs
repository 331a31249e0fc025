//! The rules of the data, which hold in every backend.
//!
//! Identifiers, instants, windows, sizes, table options and the order of answers. No I/O, but that
//! `date_rules` reads the system's time zones. No clock: callers pass `now`. Must not know Arrow or
//! any backend.
//!
//! Invariants that every other crate relies on:
//! - an identifier is non-empty UTF-8 of at most [`MAX_ID_BYTES`] bytes, compared byte for byte;
//! - an instant is a whole number of milliseconds since 1970, in UTC, never negative;
//! - answers come newest first, ties by the bytes of the answer, ascending.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod date_rules;
mod erasure;
mod id;
mod period;
mod seen_at;
mod size;
mod table;
mod window;

pub use date_rules::{DateRules, DateRulesError, NoDate};
pub use erasure::{Erasure, ErasureKey, ErasureKeyError, Target};
pub use id::{IdError, MAX_ID_BYTES, check_id};
pub use period::{Period, PeriodError};
pub use seen_at::{SeenAt, SeenAtError, newest_first};
pub use size::{SizeError, parse_size};
pub use table::{
    Keep, MAX_TABLE_NAME_BYTES, NameError, Pick, Side, TableId, TableName, TableOptions,
};
pub use window::{Window, WindowError};
