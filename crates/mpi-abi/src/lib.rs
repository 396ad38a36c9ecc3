//! The shared library `libmpi_abi.so.1`: the C interface of the MPI 5.0 standard; compiled for
//! another dialect (`dialect`), the library of that name for programs that were built for it.
//!
//! From the outside inwards: `generated` holds an item for each exported function, made from the
//! tables in `abi/`, which says what is checked of each argument (`arguments`) and becomes code by
//! a macro (`entry::items`); handles become objects (`handles`); `calls` holds one short function
//! per call, which hands over to the crates `mpi` and `datatype`; what fails becomes an error code
//! and goes to an error handler (`report`). There is no logic of MPI here, and nothing in here
//! calls an exported symbol: tools that stand before the library see the program's calls only.

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
