//! A page of identifiers.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| idmatch_engine::fuzzing::id_page(bytes));
