#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod board;
mod share;

pub use board::{LendingBoard, LendingRecord};
pub use share::Share;
