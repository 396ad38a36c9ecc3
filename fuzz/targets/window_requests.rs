#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpi::window::fuzzing::requests(bytes));
