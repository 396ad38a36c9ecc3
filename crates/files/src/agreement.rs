//! Agreement between the processes of a file when all call one function.

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use mpi::Process;
use mpi::communicator::Communicator;
use mpi::exchange::exchange;

/// Checks that an argument is equal on all processes.
///
/// # Errors
/// `NotSame` on all of them if it is not.
pub(crate) fn check_same(
    process: &Process,
    communicator: &Rc<Communicator>,
    what: &str,
    mine: u64,
) -> Result<()> {
    let all = exchange(process, communicator, &mine)?;
    let Some(other) = all.iter().position(|other| *other != all[0]) else { return Ok(()) };
    let detail = format!(
        "{what} is not the same on all processes: it is {} on rank 0, but {} on rank {other}",
        all[0], all[other]
    );
    Err(Error::new(ErrorClass::NotSame, detail))
}

/// Returns the value of a step that all processes take, if it succeeded on all of them.
///
/// # Errors
/// The error of this process; otherwise an error with the class of the first failed process, which
/// names that process.
pub(crate) fn all_succeed<T>(
    process: &Process,
    communicator: &Rc<Communicator>,
    outcome: Result<T>,
) -> Result<T> {
    let class = outcome.as_ref().err().map_or(ErrorClass::Other, |error| error.class);
    let all = exchange(process, communicator, &(outcome.is_err(), class))?;
    let value = outcome?;
    match all.into_iter().enumerate().find(|(_, (has_failed, _))| *has_failed) {
        None => Ok(value),
        Some((rank, (_, class))) => {
            Err(Error::new(class, format!("rank {rank} failed: its own error gives the reason")))
        }
    }
}
