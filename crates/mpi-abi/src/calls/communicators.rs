//! Communicators (sections 7.4 and 7.8 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use base::ErrorClass;
use mpi::Communicator;
use mpi::communicator::{CommunicatorComparison, SplitKind};
use mpi::group::Group;
use mpi::info::Info;

use crate::arguments::{KnownCommunicator, Out, OutText, invalid};
use crate::c::{self, Comm};
use crate::entry::Call;
use crate::failure::{Failure, Outcome};
use crate::generated::constants::*;
use crate::handles::describe;

use super::{groups, infos};

pub fn comm_rank(_call: &Call, comm: KnownCommunicator, rank: Out<c_int>) -> Outcome<()> {
    rank.set(comm.rank() as c_int);
    Ok(())
}

pub fn comm_size(_call: &Call, comm: KnownCommunicator, size: Out<c_int>) -> Outcome<()> {
    size.set(comm.size() as c_int);
    Ok(())
}

pub fn comm_compare(
    _call: &Call,
    comm1: KnownCommunicator,
    comm2: KnownCommunicator,
    result: Out<c_int>,
) -> Outcome<()> {
    result.set(match comm1.compare(&comm2) {
        CommunicatorComparison::Identical => MPI_IDENT,
        CommunicatorComparison::Congruent => MPI_CONGRUENT,
        CommunicatorComparison::Similar => MPI_SIMILAR,
        CommunicatorComparison::Unequal => MPI_UNEQUAL,
    });
    Ok(())
}

/// A handle for a new communicator; `MPI_COMM_NULL` for none.
pub fn hand_out(call: &Call, made: Option<Rc<Communicator>>, place: Out<Comm>) -> Outcome<()> {
    place.set(made.map_or(MPI_COMM_NULL, |made| call.library.communicators.insert(made)));
    Ok(())
}

pub fn comm_dup(call: &Call, comm: KnownCommunicator, newcomm: Out<Comm>) -> Outcome<()> {
    let name = comm.handle.0 as u64;
    let made = call.library.process.duplicate_communicator(&comm, name)?;
    hand_out(call, Some(made), newcomm)
}

pub fn comm_dup_with_info(
    call: &Call,
    comm: KnownCommunicator,
    info: Option<Rc<Info>>,
    newcomm: Out<Comm>,
) -> Outcome<()> {
    let name = comm.handle.0 as u64;
    let info = info.unwrap_or_default();
    let made = call.library.process.duplicate_communicator_with_info(&comm, name, &info)?;
    hand_out(call, Some(made), newcomm)
}

pub fn comm_create(
    call: &Call,
    comm: KnownCommunicator,
    group: Rc<Group>,
    newcomm: Out<Comm>,
) -> Outcome<()> {
    let made = call.library.process.create_communicator(&comm, &group)?;
    hand_out(call, made, newcomm)
}

pub fn comm_create_group(
    call: &Call,
    comm: KnownCommunicator,
    group: Rc<Group>,
    tag: i32,
    newcomm: Out<Comm>,
) -> Outcome<()> {
    let made = call.library.process.create_communicator_of_group(&comm, &group, tag)?;
    hand_out(call, made, newcomm)
}

pub fn comm_split(
    call: &Call,
    comm: KnownCommunicator,
    color: c_int,
    key: c_int,
    newcomm: Out<Comm>,
) -> Outcome<()> {
    let color = match color {
        MPI_UNDEFINED => None,
        0.. => Some(color),
        _ => {
            let detail = format!("is {color}, but must not be negative, except MPI_UNDEFINED");
            return Err(Failure::argument(2, ErrorClass::Arg, detail));
        }
    };
    let made = call.library.process.split_communicator(&comm, color, key)?;
    hand_out(call, made, newcomm)
}

pub fn comm_split_type(
    call: &Call,
    comm: KnownCommunicator,
    split_type: c_int,
    key: c_int,
    info: Option<Rc<Info>>,
    newcomm: Out<Comm>,
) -> Outcome<()> {
    let resource = info.as_ref().and_then(|info| info.hint(b"mpi_hw_resource_type"));
    let kind = match split_type {
        MPI_COMM_TYPE_SHARED => SplitKind::SharedMemory,
        MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_RESOURCE_GUIDED
            if resource.as_deref() == Some(b"mpi_shared_memory") =>
        {
            SplitKind::SharedMemory
        }
        // Other parts of the machine cannot be told apart, which is answered by MPI_COMM_NULL.
        MPI_COMM_TYPE_HW_GUIDED
        | MPI_COMM_TYPE_RESOURCE_GUIDED
        | MPI_COMM_TYPE_HW_UNGUIDED
        | MPI_UNDEFINED => SplitKind::None,
        _ => {
            let detail =
                format!("is {split_type}, which is none of MPI_COMM_TYPE_SHARED and its kin");
            return Err(Failure::argument(2, ErrorClass::Arg, detail));
        }
    };
    let process = &call.library.process;
    let made = process.split_communicator_by_kind(&comm, kind, key, info.as_deref())?;
    hand_out(call, made, newcomm)
}

pub fn comm_free(call: &Call, comm: Out<Comm>) -> Outcome<()> {
    free(call, comm)
}

pub fn comm_disconnect(call: &Call, comm: Out<Comm>) -> Outcome<()> {
    free(call, comm)
}

fn free(call: &Call, comm: Out<Comm>) -> Outcome<()> {
    let handle = comm.value();
    let known = call.communicator(1, handle)?;
    if matches!(handle, MPI_COMM_WORLD | MPI_COMM_SELF) {
        let detail =
            format!("{}, which cannot be freed", describe(handle.0, <Comm as c::Handle>::KIND));
        return Err(Failure::argument(1, ErrorClass::Comm, detail));
    }
    call.library.process.free_communicator(&known, handle.0 as u64)?;
    call.library.communicators.forget(handle).ok_or_else(|| invalid(1, handle))?;
    comm.set(MPI_COMM_NULL);
    Ok(())
}

pub fn comm_group(call: &Call, comm: KnownCommunicator, group: Out<c::Group>) -> Outcome<()> {
    groups::hand_out(call, Rc::clone(comm.group()), group);
    Ok(())
}

pub fn comm_test_inter(_call: &Call, _comm: KnownCommunicator, flag: Out<c_int>) -> Outcome<()> {
    // This version has no intercommunicators.
    flag.set_flag(false);
    Ok(())
}

pub fn comm_remote_size(_call: &Call, _comm: KnownCommunicator, _size: Out<c_int>) -> Outcome<()> {
    Err(not_inter())
}

pub fn comm_remote_group(
    _call: &Call,
    _comm: KnownCommunicator,
    _group: Out<c::Group>,
) -> Outcome<()> {
    Err(not_inter())
}

fn not_inter() -> Failure {
    let detail = "is not an intercommunicator, so there is no remote group";
    Failure::argument(1, ErrorClass::Comm, detail)
}

pub fn comm_get_parent(_call: &Call, parent: Out<Comm>) -> Outcome<()> {
    // No process is spawned by another one in this version.
    parent.set(MPI_COMM_NULL);
    Ok(())
}

pub fn comm_set_name(_call: &Call, comm: KnownCommunicator, comm_name: &[u8]) -> Outcome<()> {
    comm.set_name(&comm_name[..comm_name.len().min(MPI_MAX_OBJECT_NAME - 1)]);
    Ok(())
}

pub fn comm_get_name(
    call: &Call,
    comm: Comm,
    comm_name: OutText,
    resultlen: Out<c_int>,
) -> Outcome<()> {
    let name = match comm {
        MPI_COMM_NULL => b"MPI_COMM_NULL".as_slice().into(),
        _ => call.communicator(1, comm)?.name(),
    };
    // SAFETY: the standard asks for MPI_MAX_OBJECT_NAME bytes.
    let length = unsafe { comm_name.write(&name, MPI_MAX_OBJECT_NAME) };
    resultlen.set(length as c_int);
    Ok(())
}

pub fn comm_set_info(_call: &Call, comm: KnownCommunicator, info: Option<Rc<Info>>) -> Outcome<()> {
    comm.set_info(&info.unwrap_or_default());
    Ok(())
}

/// The hints, and beside them how messages to the next process travel.
pub fn comm_get_info(call: &Call, comm: KnownCommunicator, info: Out<c::Info>) -> Outcome<()> {
    let hints = comm.info();
    let next = (comm.rank() + 1) % comm.size();
    if let Some(transport) = call.library.process.transport(&comm, next) {
        hints.set(b"combray_transport", transport.as_bytes(), infos::LIMITS)?;
    }
    info.set(call.library.infos.insert(hints));
    Ok(())
}
