#![doc = include_str!("../README.md")]
mod affinity;
mod balance;
mod barrier;
mod blocks;
mod borrowing;
mod crews;
mod dependences;
mod deques;
mod entries;
mod environment;
mod homes;
mod loops;
mod observers;
mod own;
mod places;
mod reductions;
mod regions;
mod slots;
mod tasks;
mod team;
mod thread;
mod tools;
mod tracing;
mod waiting;
mod workers;

use std::ffi::c_void;

/// A function that the compiler made of a construct.
type Body = unsafe extern "C" fn(*mut c_void);

/// An address of the program that travels between threads.
#[derive(Clone, Copy)]
struct Address(*mut c_void);

// SAFETY: an address as such can be copied by every thread; the program answers for what is there.
unsafe impl Send for Address {}

// SAFETY: as above.
unsafe impl Sync for Address {}

/// Reports something to the user.
fn warn(text: &str) {
    eprintln!("combray openmp: {text}");
}

/// Reports why the program cannot go on, and ends it.
fn fail(text: &str) -> ! {
    warn(text);
    std::process::exit(1);
}
