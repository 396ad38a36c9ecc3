#![no_main]

//! The library that debuggers load is nothing but a shared one, so its files are compiled here.

#[path = "../../crates/mqs/src/fuzzing.rs"]
mod fuzzing;
#[path = "../../crates/mqs/src/queues.rs"]
mod queues;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::memory(bytes));
