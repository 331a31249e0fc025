//! A history file, whole or as what follows its first line.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| idmatch_engine::fuzzing::history(bytes));
