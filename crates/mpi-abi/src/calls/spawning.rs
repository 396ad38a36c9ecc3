//! Spawning processes (section 11.8 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use dynamic::{SpawnCommand, Spawned};
use mpi::info::Info;

use crate::arguments::{KnownCommunicator, Out, OutErrorCodes};
use crate::c::{self, Comm};
use crate::call::Call;
use crate::failure::CallOutcome;
use crate::generated::constants::MPI_COMM_NULL;

use super::communicators::hand_out;

/// The hints of one program, given by their handle.
fn hints(call: &Call, handle: c::Info) -> Result<Option<Rc<Info>>> {
    let invalid = |_| Error::new(ErrorClass::Info, "the info object of a command does not exist");
    // The position is for messages about arguments, which this error is not.
    call.optional_info(0, handle).map_err(invalid)
}

/// Spawns a job, and stores the results.
fn spawn(
    call: &Call,
    (root, comm): (u32, KnownCommunicator),
    (intercomm, codes): (Out<Comm>, OutErrorCodes),
    commands: impl FnOnce() -> Result<Vec<SpawnCommand>>,
) -> CallOutcome<()> {
    let library = call.library;
    library.close_unused_gates();
    let jobs = (&library.ports, &library.child_jobs);
    intercomm.set(MPI_COMM_NULL);
    let Spawned { intercommunicator, processes } =
        dynamic::spawn(&library.process, &comm, root, jobs, commands);
    codes.write(&processes, intercommunicator.as_ref().err().map(|error| error.class));
    hand_out(call, Some(intercommunicator?), intercomm)
}

#[expect(clippy::too_many_arguments, reason = "they are the standard's")]
pub fn comm_spawn(
    call: &Call,
    command: Vec<u8>,
    argv: Vec<Vec<u8>>,
    maxprocs: c_int,
    info: c::Info,
    root: u32,
    comm: KnownCommunicator,
    intercomm: Out<Comm>,
    array_of_errcodes: OutErrorCodes,
) -> CallOutcome<()> {
    spawn(call, (root, comm), (intercomm, array_of_errcodes), || {
        let hints = hints(call, info)?;
        Ok(vec![SpawnCommand::new(&command, &argv, maxprocs, hints.as_deref())?])
    })
}

#[expect(clippy::too_many_arguments, reason = "they are the standard's")]
pub fn comm_spawn_multiple(
    call: &Call,
    count: c_int,
    array_of_commands: Vec<Vec<u8>>,
    array_of_argv: Vec<Vec<Vec<u8>>>,
    array_of_maxprocs: Vec<c_int>,
    array_of_info: Vec<c::Info>,
    root: u32,
    comm: KnownCommunicator,
    intercomm: Out<Comm>,
    array_of_errcodes: OutErrorCodes,
) -> CallOutcome<()> {
    spawn(call, (root, comm), (intercomm, array_of_errcodes), || {
        let lengths = [array_of_commands.len(), array_of_maxprocs.len(), array_of_info.len()];
        if count < 1 || lengths.iter().any(|&length| length != count as usize) {
            let detail = format!(
                "count is {count}, but must be the number of commands, at least 1, each with an \
                 entry in array_of_commands, array_of_maxprocs and array_of_info"
            );
            return Err(Error::new(ErrorClass::Arg, detail));
        }
        let numbers = array_of_maxprocs.into_iter().zip(array_of_info);
        let commands = array_of_commands.into_iter().zip(numbers).enumerate();
        let command = |(place, (command, (maxprocs, info))): (usize, (Vec<u8>, _))| {
            let arguments = array_of_argv.get(place).map_or(&[][..], Vec::as_slice);
            let hints = hints(call, info)?;
            SpawnCommand::new(&command, arguments, maxprocs, hints.as_deref())
        };
        commands.map(command).collect()
    })
}

pub fn comm_get_parent(call: &Call, parent: Out<Comm>) -> CallOutcome<()> {
    parent.set(call.library.parent.get().unwrap_or(MPI_COMM_NULL));
    Ok(())
}

/// Connects to the processes that have spawned this job, if processes have, when this process
/// initializes MPI or opens its first session.
pub fn meet_parent(call: &Call) -> CallOutcome<()> {
    let library = call.library;
    if library.has_met_parent.replace(true) {
        return Ok(());
    }
    if let Some(made) = dynamic::connect_to_parent(&library.process)? {
        made.set_name(b"MPI_COMM_PARENT");
        library.parent.set(Some(library.communicators.insert(made)));
    }
    Ok(())
}
