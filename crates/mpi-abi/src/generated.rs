//! What `cargo xtask codegen` makes from the tables in `abi/`.

pub mod classes;
#[cfg_attr(dialect = "mpich", path = "generated/mpich/constants.rs")]
pub mod constants;
mod entries;
#[cfg(dialect = "mpich")]
#[path = "generated/mpich/entries.rs"]
mod own_entries;
