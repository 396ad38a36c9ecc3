//! The costs of accesses to this machine's memory: measured, displayed, and used for predictions
//! that are compared with measurements.

mod calibration;
mod crowd;
mod migrations;
mod pair;
mod picture;
mod report;
mod sampling;
mod validation;
mod ways;

pub use calibration::calibrate_once;
pub use migrations::compare as compare_migrations;
pub use report::{SampleOutput, sample, validate};

/// A size for display.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
