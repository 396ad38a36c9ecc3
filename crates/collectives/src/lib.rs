//! Collective algorithms as pure functions to schedules.
//!
//! Each operation is a function of who asks ([`Member`]), of the root, and of the sizes that all
//! processes know, to a [`Schedule`]: rounds of transfers and local steps over numbered blocks.
//! Behind it stand several algorithms, and a `choose` which takes one by sizes alone, so that
//! all processes of a communicator come to the same answer without asking each other.
//!
//! This crate executes nothing: no I/O, no memory, no datatypes, no clock. It knows no
//! communicator, only ranks from zero to the size.

#![forbid(unsafe_code)]

mod member;
mod schedule;

pub use member::{Input, Member};
pub use schedule::{Area, Local, Operand, Place, Round, Schedule, Transfer};
