#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| topology::fuzzing::cluster_files(bytes));
