//! What `cargo xtask codegen` makes from the tables in `abi/`.

pub mod constants;
mod entries;
pub mod errors;
