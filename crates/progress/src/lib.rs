#![doc = include_str!("../README.md")]

pub mod entry_lock;
#[cfg(not(loom))]
pub mod helper;
pub mod lock;
mod primitive;
#[cfg(not(loom))]
pub mod reentrant_lock;
#[cfg(not(loom))]
pub mod system;
#[cfg(not(loom))]
pub mod waiting;

#[cfg(not(loom))]
pub use system::System;
