//! Elastic programs: the number of processes that the user asks a program to have, and the process
//! sets by which the program's sessions see its processes.

use std::ffi::c_int;

use base::ErrorClass;
use mpi::info::Info;

use crate::arguments::{KnownCommunicator, Out};
use crate::c;
use crate::call::Call;
use crate::calls::infos::LIMITS;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_INFO_NULL, MPI_MAX_PSET_NAME_LEN};

/// Returns the number, or 0, and the hints for spawning more.
pub fn wanted_size(
    call: &Call,
    communicator: KnownCommunicator,
    processes: Out<c_int>,
    hints: Out<c::Info>,
) -> CallOutcome<()> {
    let wanted = dynamic::wanted_size(&call.library.process, &communicator)?;
    let hosts = wanted.as_ref().map(|wanted| wanted.hosts.as_str()).unwrap_or_default();
    let mut info = MPI_INFO_NULL;
    if !hosts.is_empty() {
        let made = Info::new();
        made.set(b"host", hosts.as_bytes(), LIMITS)?;
        info = call.library.infos.insert(made);
    }
    processes.set(wanted.map_or(0, |wanted| wanted.processes as c_int));
    hints.set(info);
    Ok(())
}

/// Publishes the processes of a communicator as a process set.
pub fn publish_set(call: &Call, communicator: KnownCommunicator, name: &[u8]) -> CallOutcome<()> {
    let name = set_name(2, name)?;
    let published = call.library.process.publish_set(&communicator, name);
    published.map_err(|error| match error.class {
        ErrorClass::Arg => Failure::of_argument(2, error),
        _ => error.into(),
    })
}

/// Withdraws a process set.
pub fn withdraw_set(call: &Call, name: &[u8]) -> CallOutcome<()> {
    let withdrawn = call.library.process.process_sets().withdraw(set_name(1, name)?);
    withdrawn.map_err(|error| Failure::of_argument(1, error))?;
    call.library.process.close_unused_gates_soon();
    Ok(())
}

fn set_name(position: usize, name: &[u8]) -> CallOutcome<&str> {
    let text = str::from_utf8(name).ok().filter(|_| name.len() < MPI_MAX_PSET_NAME_LEN);
    text.ok_or_else(|| {
        let detail = format!(
            "must be a text in UTF-8 of at most {} bytes, but has {} bytes: {}",
            MPI_MAX_PSET_NAME_LEN - 1,
            name.len(),
            String::from_utf8_lossy(&name[..name.len().min(64)])
        );
        Failure::argument(position, ErrorClass::Arg, detail)
    })
}
