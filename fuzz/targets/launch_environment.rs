#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| launch::fuzzing::launch_environment(bytes));
