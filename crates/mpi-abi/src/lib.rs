//! The shared library `libmpi_abi.so.1`: the C interface of the MPI 5.0 standard. Compiled for
//! another dialect (`dialect`), it is the library for programs that were built for that dialect.
//!
//! From the outside inwards:
//! - `generated` contains an item for each exported function, generated from the tables in `abi/`.
//!   The item specifies how each argument is checked (`arguments`), and a macro turns it into code
//!   (`entry::items`).
//! - `handles` maps handles to objects.
//! - `calls` contains one short function per call, which calls the crates `mpi` and `datatype`.
//! - `report` converts failures to error codes and calls error handlers.
//!
//! There is no MPI logic here. Nothing here calls an exported symbol, so interposed tools see the
//! calls of the program only.

mod arguments;
mod c;
mod call_sites;
mod call_stack;
mod calls;
mod check;
mod codes;
mod debuggers;
mod dialect;
mod entry;
mod failure;
mod generated;
mod handles;
mod helper;
mod library;
mod loading;
mod native;
mod output;
mod predefined;
mod report;
mod requests;
