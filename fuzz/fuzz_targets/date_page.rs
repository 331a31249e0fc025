//! A page of dates.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| idmatch_engine::fuzzing::date_page(bytes));
