#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod board;
mod share;
mod watch;

pub use board::{LendingBoard, LendingRecord};
pub use share::Share;
pub use watch::Watch;
