#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| launcher::fuzzing::rank_file(bytes));
