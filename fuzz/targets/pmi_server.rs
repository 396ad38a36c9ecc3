#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| launcher::fuzzing::pmi_server(bytes));
