//! What MPI means: groups, communicators, attributes, requests, the executor of collective
//! schedules; in safe Rust.
//!
//! This crate knows neither C handles nor the numbers of the C interface.

#![forbid(unsafe_code)]

pub mod attribute;
pub mod error_handler;
pub mod group;
pub mod info;
