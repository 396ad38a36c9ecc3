//! The functions that programs call, with the names and the arguments of GNU's library.

mod affinity;
mod fortran;
mod loops;
mod memory;
mod missing;
mod parallel;
mod routines;
mod synchronization;
mod targets;
mod tasks;
