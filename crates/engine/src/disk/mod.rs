//! The one door to the file system.
//!
//! Everything the engine does to files goes through [`Disk`], so that a test can make any
//! single operation fail. `std::fs` is banned everywhere else in this crate.
//!
//! A [`Mapped`] file is memory that the operating system fills on demand. An unreadable
//! sector under a mapping ends the process with SIGBUS; nothing wrong is ever answered.

mod error;
mod os;
mod traits;

pub(crate) use error::{corrupt, io_error, other_format, place};
pub use os::{OsDisk, give_memory_back};
pub use traits::{Disk, Lock, Mapped, NewFile, OpenFile};
pub(crate) use traits::{create_anew, read_if_there, remove_unneeded};
