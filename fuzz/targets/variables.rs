#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| runtime::fuzzing::variables(bytes));
