//! The files `SESSION` and `COMMIT` of a session, whole or as what follows their first line.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| idmatch_engine::fuzzing::session(bytes));
