#![doc = include_str!("../README.md")]

pub mod bell;
pub mod calls;
pub mod exchange;
pub mod lane;
pub mod meeting;
pub mod offer;
pub mod pipeline;
mod primitive;
pub mod ring;
