//! A part of a session that several processes stage, whole or as the rows of a block.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| idmatch_engine::fuzzing::part(bytes));
