//! What `cargo xtask codegen` makes from the tables in `abi/`.

pub mod classes;
pub mod constants;
mod entries;
