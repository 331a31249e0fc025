//! A segment file: opened, searched, read and checked.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| idmatch_engine::fuzzing::segment(bytes));
