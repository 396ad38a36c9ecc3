//! Agreement between the processes of a file when all call one function.

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use mpi::Process;
use mpi::collective;
use mpi::communicator::Communicator;

/// Exchanges numbers between all processes; returns them by rank.
///
/// # Errors
/// Those of collective operations.
pub(crate) fn exchange_numbers<const N: usize>(
    process: &Process,
    communicator: &Rc<Communicator>,
    mine: [u64; N],
) -> Result<Vec<[u64; N]>> {
    let bytes: Vec<u8> = mine.iter().flat_map(|number| number.to_le_bytes()).collect();
    Ok(numbers(&collective::allgather_bytes(process, communicator, &bytes)?))
}

/// Decodes numbers, `N` at a time.
pub(crate) fn numbers<const N: usize>(bytes: &[u8]) -> Vec<[u64; N]> {
    let number =
        |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes were cut out"));
    let several = |bytes: &[u8]| std::array::from_fn(|at| number(&bytes[8 * at..8 * at + 8]));
    bytes.chunks_exact(8 * N).map(several).collect()
}

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
    let all = exchange_numbers(process, communicator, [mine])?;
    let Some(other) = all.iter().position(|[other]| *other != all[0][0]) else { return Ok(()) };
    let detail = format!(
        "{what} is not the same on all processes: it is {} on rank 0, but {} on rank {other}",
        all[0][0], all[other][0]
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
    let class = outcome.as_ref().err().map_or(0, |error| 1 + number_of(error.class));
    let all = exchange_numbers(process, communicator, [class])?;
    let value = outcome?;
    match all.iter().position(|[class]| *class != 0) {
        None => Ok(value),
        Some(rank) => {
            let class = class_of(all[rank][0] - 1);
            Err(Error::new(class, format!("rank {rank} failed: its own error says why")))
        }
    }
}

/// Returns the number of an error class, equal in all processes of a job.
pub(crate) fn number_of(class: ErrorClass) -> u64 {
    let place = ErrorClass::ALL.iter().position(|one| *one == class);
    place.unwrap_or(ErrorClass::ALL.len()) as u64
}

/// Returns the error class with this number.
pub(crate) fn class_of(number: u64) -> ErrorClass {
    ErrorClass::ALL.get(number as usize).copied().unwrap_or(ErrorClass::Other)
}
