//! A journal file: read, and its rows put into memtables.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| idmatch_engine::fuzzing::journal(bytes));
