#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| windows::fuzzing::requests(bytes));
