//! What accesses to this machine's memory cost: measured, shown, and used for predictions that are
//! compared with what is measured.

mod migrations;
mod pair;
mod picture;
mod report;
mod sampling;
mod validation;
mod ways;

pub use migrations::compare as compare_migrations;
pub use report::{sample, validate};
