//! The shared library `libmpi_abi.so.1`: the C interface of the MPI 5.0 standard. Compiled for
//! another dialect (`dialect`), it is the library for programs that were built for that dialect.
//!
//! From the outside inwards:
//! - `generated` contains an item for each exported function, generated from the tables in `abi/`.
//!   The item specifies how each argument is checked (`arguments`), and a macro turns it into code
//!   (`entry::items`).
//! - `entry` makes a `call::Call`, after the steps that the `phase` of the process requires: the
//!   lock, the profile, the checks, and events for tools.
//! - `calls` contains one short function per call, which calls the crates `mpi` and `datatype`.
//! - `check` contains the checks for mistakes of the program, which `entry` informs of each call
//!   through `library::call_observer`.
//! - `report` converts failures to error codes and calls error handlers.
//! - `library` is the state of the library; `handles` maps handles to objects, and `requests` those
//!   of requests.
//!
//! There is no MPI logic here. Nothing here calls an exported symbol, so interposed tools see the
//! calls of the program only.

mod arguments;
mod c;
mod call;
mod call_sites;
mod call_stack;
mod calls;
mod check;
mod codes;
mod debuggers;
mod dialect;
mod entry;
mod entry_point;
mod environment_info;
mod failure;
mod generated;
mod handler_owner;
mod handles;
mod helper;
mod library;
mod loading;
mod native;
mod output;
mod phase;
mod predefined;
mod report;
mod requests;
mod thread_levels;
