//! What `cargo xtask codegen` makes from the tables in `abi/`.

pub mod classes;
#[cfg_attr(dialect = "mpich", path = "generated/mpich/constants.rs")]
#[cfg_attr(dialect = "open_mpi", path = "generated/open_mpi/constants.rs")]
pub mod constants;
mod entries;
#[cfg(any(dialect = "mpich", dialect = "open_mpi"))]
mod former;
#[cfg(dialect = "open_mpi")]
#[path = "generated/open_mpi/objects.rs"]
pub mod objects;
#[cfg(any(dialect = "mpich", dialect = "open_mpi"))]
#[cfg_attr(dialect = "mpich", path = "generated/mpich/entries.rs")]
#[cfg_attr(dialect = "open_mpi", path = "generated/open_mpi/entries.rs")]
mod own_entries;
