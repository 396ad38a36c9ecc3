#![doc = include_str!("../README.md")]

pub mod bell;
pub mod door;
pub mod lane;
pub mod lock;
pub mod offer;
mod primitive;
pub mod ring;
