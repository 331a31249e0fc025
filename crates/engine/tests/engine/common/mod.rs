//! What the tests share: rows and sources, questions, disks that fail, other processes.

mod child;
mod faulty_disk;
mod folder;
mod harmed_disk;
mod power_disk;
mod question;
mod rows;

pub(crate) use child::{Child, role};
pub(crate) use faulty_disk::{Fault, FaultyDisk};
pub(crate) use folder::{assert_nothing_leaked, copy_store, files};
pub(crate) use harmed_disk::HarmedDisk;
pub(crate) use power_disk::{PowerDisk, Unsynced};
pub(crate) use question::{Question, ask, questions};
pub(crate) use rows::{
    Batches, NoRejects, NumberedRows, Row, create, erase, load, name, rows_of_all_kinds, upsert,
};
