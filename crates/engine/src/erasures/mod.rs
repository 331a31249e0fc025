//! Erasures: which rows are hidden for good.
//!
//! A table remembers each erasure as a keyed hash and a date ([`idmatch_model::ErasureKey`]), in a few
//! files ([`ErasureFile`]) of ever larger size. Nothing here knows an identifier that was erased.
//!
//! Every segment is written without the rows that were erased by then, so a reader need not ask.
//! Only a segment in which something was erased *since* is marked; its rows are asked for one by
//! one ([`KeyErasures`]) until it is written anew. Must not know manifests or views.

mod file;
mod set;

pub(crate) use file::{ErasureFile, decode, write};
pub(crate) use set::{Erasures, KeyErasures, Layer, Rules};
