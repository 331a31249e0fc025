//! What the tests share: rows and sources, questions, disks that fail, other processes, and how much
//! of everything is tried.

mod child;
mod faulty_disk;
mod folder;
mod gated_disk;
mod harmed_disk;
mod hooked_disk;
mod later;
mod later_format;
mod layout;
mod marked;
mod power_disk;
mod question;
mod rows;
mod scale;
mod stored;
mod watched_disk;
mod whole;

pub(crate) use child::{Child, Role, role};
pub(crate) use faulty_disk::{Fault, FaultyDisk};
pub(crate) use folder::{
    assert_nothing_leaked, assert_nothing_leaks_for_long, copy_store, damaged_place, files, listed,
    manifest, open_apart, table_file, wait_for_removals, write_manifest, write_table,
};
pub(crate) use gated_disk::{Gate, GatedDisk};
pub(crate) use harmed_disk::HarmedDisk;
pub(crate) use hooked_disk::{HookedDisk, Hooks};
pub(crate) use later::hours_later;
pub(crate) use later_format::{
    LATER_FORMATS, assert_later, assert_unchanged, put_later, tree, with_format, without_magic,
};
pub(crate) use layout::{KeyTable, Layout, number};
pub(crate) use marked::{
    Counts, Hub, Progress, WhenDropped, hub_numbers, is_between, marked, marked_in,
};
pub(crate) use power_disk::{PowerDisk, Unsynced};
pub(crate) use question::{Question, ask, assert_cancelled, questions};
pub(crate) use rows::{
    Batches, NoRejects, NumberedRows, Paused, Row, count_rows, create, erase, load, name,
    observations, rows_of_all_kinds, upsert,
};
pub(crate) use scale::{
    EVENT_TIMEOUT, Random, few_places, few_stride, is_long, places, report, runs, seconds, seed,
    skip, stride,
};
pub(crate) use stored::{journal_row, sealed_json, unpacked};
pub(crate) use watched_disk::WatchedDisk;
pub(crate) use whole::{assert_same, looked_up, rows_of, scanned, whole};
