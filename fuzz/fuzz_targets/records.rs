//! Records of a load.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| idmatch_engine::fuzzing::records(bytes));
