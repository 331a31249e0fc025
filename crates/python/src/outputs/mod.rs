//! Files of rows: Parquet, CSV, JSON lines and Arrow IPC, to a path or a FIFO that exists.
//!
//! Each lane encodes and compresses by itself, so all threads work; the file takes finished bytes. Must not
//! know where rows come from.

mod failed;
mod folder;
mod ipc;
mod output_file;
mod parquet;
mod text;
mod write;

pub(crate) use self::folder::{FolderOptions, write_folder};
pub(crate) use self::write::{Format, write};
