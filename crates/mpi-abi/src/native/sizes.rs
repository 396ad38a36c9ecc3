//! The number of processes that the user asks a program to have.

use std::ffi::c_int;

use mpi::info::Info;

use crate::arguments::{KnownCommunicator, Out};
use crate::c;
use crate::call::Call;
use crate::calls::infos::LIMITS;
use crate::failure::CallOutcome;
use crate::generated::constants::MPI_INFO_NULL;

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
