#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| launcher::fuzzing::job_reports(bytes));
