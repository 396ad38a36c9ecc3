#![doc = include_str!("../README.md")]
mod card;
mod choice;
mod declarations;
mod endpoint;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(test)]
mod layout;
mod library;
mod link;
mod message;
mod ofi;
mod parts;

pub use choice::survey;
pub use ofi::{Ofi, open};
