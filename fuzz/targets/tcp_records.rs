#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| driver_tcp::fuzzing::records(bytes));
