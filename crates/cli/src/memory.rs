//! The costs of accesses to this machine's memory: measured, displayed, and used for predictions
//! that are compared with measurements.

mod migrations;
mod pair;
mod picture;
mod report;
mod sampling;
mod validation;
mod ways;

pub use migrations::compare as compare_migrations;
pub use report::{sample, validate};
