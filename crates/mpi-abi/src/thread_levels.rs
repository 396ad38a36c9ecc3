//! The levels of thread support, as numbers and as names.

use std::ffi::c_int;

use mpi::ThreadLevel;

use crate::generated::constants::{
    MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED, MPI_THREAD_SINGLE,
};

/// The levels of thread support with their numbers, in ascending order.
pub const LEVELS: [(c_int, ThreadLevel); 4] = [
    (MPI_THREAD_SINGLE, ThreadLevel::Single),
    (MPI_THREAD_FUNNELED, ThreadLevel::Funneled),
    (MPI_THREAD_SERIALIZED, ThreadLevel::Serialized),
    (MPI_THREAD_MULTIPLE, ThreadLevel::Multiple),
];

/// Returns the name of a level, in the form that info objects contain.
pub fn name_of_level(level: ThreadLevel) -> &'static str {
    match level {
        ThreadLevel::Single => "MPI_THREAD_SINGLE",
        ThreadLevel::Funneled => "MPI_THREAD_FUNNELED",
        ThreadLevel::Serialized => "MPI_THREAD_SERIALIZED",
        ThreadLevel::Multiple => "MPI_THREAD_MULTIPLE",
    }
}

/// Returns the level with a name.
pub fn level_named(name: &[u8]) -> Option<ThreadLevel> {
    let mut levels = LEVELS.iter().map(|(_, level)| *level);
    levels.find(|level| name_of_level(*level).as_bytes() == name)
}
