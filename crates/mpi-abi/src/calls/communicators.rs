//! Communicators (sections 7.4 and 7.8 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use base::ErrorClass;
use mpi::Communicator;
use mpi::communicator::{Bridge, MachinePart, RemoteGroup, SplitKind};
use mpi::group::Group;
use mpi::info::Info;

use crate::arguments::{KnownCommunicator, Out, OutConstant, OutText, invalid};
use crate::c::{self, Comm, Handle, Request};
use crate::call::{Call, VisitingCall};
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;
use crate::handler_owner::HandlerOwner;
use crate::handles::describe;
use crate::phase;
use crate::requests::{Pending, PendingRequest};

use super::{groups, infos};

#[inline(always)]
pub fn comm_rank(_call: &Call, comm: u32, rank: Out<c_int>) -> CallOutcome<()> {
    rank.set(comm as c_int);
    Ok(())
}

#[inline(always)]
pub fn comm_size(_call: &Call, comm: u32, size: Out<c_int>) -> CallOutcome<()> {
    size.set(comm as c_int);
    Ok(())
}

pub fn comm_compare(
    _call: &Call,
    comm1: KnownCommunicator,
    comm2: KnownCommunicator,
    result: OutConstant,
) -> CallOutcome<()> {
    result.set(comm1.compare(&comm2));
    Ok(())
}

/// Stores a handle for a new communicator; `MPI_COMM_NULL` if there is none.
pub fn hand_out(call: &Call, made: Option<Rc<Communicator>>, place: Out<Comm>) -> CallOutcome<()> {
    place.set(made.map_or(MPI_COMM_NULL, |made| call.library.communicators.insert(made)));
    Ok(())
}

pub fn comm_dup(call: &Call, comm: KnownCommunicator, newcomm: Out<Comm>) -> CallOutcome<()> {
    let name = comm.handle.0 as u64;
    let made = comm.duplicate(&call.library.process, name)?;
    hand_out(call, Some(made), newcomm)
}

pub fn comm_dup_with_info(
    call: &Call,
    comm: KnownCommunicator,
    info: Option<Rc<Info>>,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let name = comm.handle.0 as u64;
    let info = info.unwrap_or_default();
    let made = comm.duplicate_with_info(&call.library.process, name, &info)?;
    hand_out(call, Some(made), newcomm)
}

pub fn comm_create(
    call: &Call,
    comm: KnownCommunicator,
    group: Rc<Group>,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let made = comm.create(&call.library.process, &group)?;
    hand_out(call, made, newcomm)
}

pub fn comm_create_group(
    call: &Call,
    comm: KnownCommunicator,
    group: Rc<Group>,
    tag: i32,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    if comm.remote().is_some() {
        let detail = "is an intercommunicator, but must be an intracommunicator";
        return Err(Failure::argument(1, ErrorClass::Comm, detail));
    }
    let made = comm.create_of_group(&call.library.process, &group, tag)?;
    hand_out(call, made, newcomm)
}

pub fn comm_split(
    call: &Call,
    comm: KnownCommunicator,
    color: Option<c_int>,
    key: c_int,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let made = comm.split(&call.library.process, color, key)?;
    hand_out(call, made, newcomm)
}

pub fn comm_split_type(
    call: &Call,
    comm: KnownCommunicator,
    split_type: c_int,
    key: c_int,
    info: Option<Rc<Info>>,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let hint = |key: &[u8]| info.as_ref().and_then(|info| info.hint(key));
    let kind = match split_type {
        MPI_UNDEFINED => SplitKind::None,
        MPI_COMM_TYPE_SHARED => SplitKind::SharedMemory,
        MPI_COMM_TYPE_HW_UNGUIDED => SplitKind::LargestPart,
        MPI_COMM_TYPE_HW_GUIDED => kind_of_resource(hint(RESOURCE_TYPE).as_deref()),
        MPI_COMM_TYPE_RESOURCE_GUIDED => {
            let (resource, set) = (hint(RESOURCE_TYPE), hint(b"mpi_pset_name"));
            match set.and_then(|set| call.library.process.process_sets().named(&set).ok()) {
                Some(set) if resource.is_none() => SplitKind::Set(set),
                _ => kind_of_resource(resource.as_deref()),
            }
        }
        _ => {
            let detail =
                format!("is {split_type}, which is not one of the constants MPI_COMM_TYPE_...");
            return Err(Failure::argument(2, ErrorClass::Arg, detail));
        }
    };
    let process = &call.library.process;
    let (made, part) = comm.split_by_kind(process, kind, key, info.as_deref())?;
    if let (Some(_), Some(part), Some(info)) = (&made, part, &info) {
        info.set(RESOURCE_TYPE, part.name().as_bytes(), infos::LIMITS)?;
    }
    hand_out(call, made, newcomm)
}

/// The info key for the type of hardware resource.
const RESOURCE_TYPE: &[u8] = b"mpi_hw_resource_type";

/// Returns the kind of split for a resource type. For an unknown type, or none, the call returns
/// `MPI_COMM_NULL`.
fn kind_of_resource(name: Option<&[u8]>) -> SplitKind {
    match name {
        Some(b"mpi_shared_memory") => SplitKind::SharedMemory,
        Some(name) => MachinePart::named(name).map_or(SplitKind::None, SplitKind::Part),
        None => SplitKind::None,
    }
}

pub fn comm_free(call: &VisitingCall<'_>, comm: Out<Comm>) -> CallOutcome<()> {
    free(call, comm)
}

pub fn comm_disconnect(call: &VisitingCall<'_>, comm: Out<Comm>) -> CallOutcome<()> {
    let handle = comm.value();
    if !matches!(handle, MPI_COMM_WORLD | MPI_COMM_SELF) {
        call.opened_communicator(1, handle)?.settle_between_jobs(&call.library.process)?;
    }
    free(call, comm)
}

fn free(call: &VisitingCall<'_>, comm: Out<Comm>) -> CallOutcome<()> {
    let handle = comm.value();
    let known = call.opened_communicator(1, handle)?;
    if matches!(handle, MPI_COMM_WORLD | MPI_COMM_SELF) {
        let detail = format!("{}, which cannot be freed", describe(handle.raw(), Comm::KIND));
        return Err(Failure::argument(1, ErrorClass::Comm, detail));
    }
    known.free(handle.0 as u64)?;
    call.library.communicators.remove(handle).ok_or_else(|| invalid(1, handle))?;
    phase::note_freed();
    call.library.note_freed(handle);
    call.library.process.close_unused_gates_soon();
    comm.set(MPI_COMM_NULL);
    Ok(())
}

pub fn comm_group(call: &Call, comm: KnownCommunicator, group: Out<c::Group>) -> CallOutcome<()> {
    groups::hand_out(call, Rc::clone(comm.group()), group);
    Ok(())
}

pub fn comm_test_inter(_call: &Call, comm: KnownCommunicator, flag: Out<c_int>) -> CallOutcome<()> {
    flag.set_flag(comm.remote().is_some());
    Ok(())
}

pub fn comm_remote_size(
    _call: &Call,
    comm: KnownCommunicator,
    size: Out<c_int>,
) -> CallOutcome<()> {
    size.set(remote_of(&comm)?.group.size() as c_int);
    Ok(())
}

pub fn comm_remote_group(
    call: &Call,
    comm: KnownCommunicator,
    group: Out<c::Group>,
) -> CallOutcome<()> {
    groups::hand_out(call, Rc::clone(&remote_of(&comm)?.group), group);
    Ok(())
}

fn remote_of<'a>(comm: &'a KnownCommunicator<'_>) -> CallOutcome<&'a RemoteGroup> {
    comm.remote().ok_or_else(|| {
        let detail = "is not an intercommunicator, so it has no remote group";
        Failure::argument(1, ErrorClass::Comm, detail)
    })
}

pub fn intercomm_create(
    call: &VisitingCall<'_>,
    local_comm: KnownCommunicator,
    local_leader: c_int,
    peer_comm: Comm,
    remote_leader: c_int,
    tag: i32,
    newintercomm: Out<Comm>,
) -> CallOutcome<()> {
    if local_comm.remote().is_some() {
        let detail = "is an intercommunicator, but must be an intracommunicator";
        return Err(Failure::argument(1, ErrorClass::Comm, detail));
    }
    let leader = u32::try_from(local_leader).ok().filter(|rank| *rank < local_comm.size());
    let Some(leader) = leader else {
        let size = local_comm.size();
        let detail = format!("is {local_leader}, but the communicator has {size} processes");
        return Err(Failure::argument(2, ErrorClass::Rank, detail));
    };
    // Only the leader's peer communicator and remote leader are significant.
    let peer = match local_comm.rank() == leader {
        true => Some(call.communicator(3, peer_comm)?),
        false => None,
    };
    let bridge = match &peer {
        None => None,
        Some(peer) => match u32::try_from(remote_leader) {
            Ok(remote_leader) => Some(Ok(Bridge { communicator: peer, remote_leader, tag })),
            Err(_) => {
                let detail = format!("is {remote_leader}, but must be a rank in peer_comm");
                return Err(Failure::argument(4, ErrorClass::Rank, detail));
            }
        },
    };
    let process = &call.library.process;
    let made = local_comm.create_intercommunicator(process, leader, bridge, None)?;
    hand_out(call, Some(made), newintercomm)
}

pub fn intercomm_merge(
    call: &Call,
    intercomm: KnownCommunicator,
    high: c_int,
    newintracomm: Out<Comm>,
) -> CallOutcome<()> {
    if intercomm.remote().is_none() {
        let detail = "is not an intercommunicator, so it cannot be merged";
        return Err(Failure::argument(1, ErrorClass::Comm, detail));
    }
    let made = intercomm.merge(&call.library.process, high != 0)?;
    hand_out(call, Some(made), newintracomm)
}

pub fn comm_idup(
    call: &Call,
    comm: KnownCommunicator,
    newcomm: Out<Comm>,
    request: Out<Request>,
) -> CallOutcome<()> {
    begin_duplicate(call, &comm, None, newcomm, request)
}

pub fn comm_idup_with_info(
    call: &Call,
    comm: KnownCommunicator,
    info: Option<Rc<Info>>,
    newcomm: Out<Comm>,
    request: Out<Request>,
) -> CallOutcome<()> {
    begin_duplicate(call, &comm, Some(&info.unwrap_or_default()), newcomm, request)
}

fn begin_duplicate(
    call: &Call,
    comm: &KnownCommunicator,
    info: Option<&Info>,
    newcomm: Out<Comm>,
    request: Out<Request>,
) -> CallOutcome<()> {
    let library = call.library;
    let (copy, work) = comm.begin_duplicate(&library.process, comm.handle.0 as u64)?;
    if let Some(info) = info {
        copy.set_info(&library.process, info);
    }
    newcomm.set(library.communicators.insert(copy));
    let handler_owner = HandlerOwner::Communicator(comm.handle);
    let work = Pending::One(work);
    request.set(library.requests.insert(PendingRequest { handler_owner, work }));
    Ok(())
}

pub fn comm_set_name(_call: &Call, comm: KnownCommunicator, comm_name: &[u8]) -> CallOutcome<()> {
    comm.set_name(&comm_name[..comm_name.len().min(MPI_MAX_OBJECT_NAME - 1)]);
    Ok(())
}

pub fn comm_get_name(
    call: &Call,
    comm: Comm,
    comm_name: OutText,
    resultlen: Out<c_int>,
) -> CallOutcome<()> {
    let name = match comm {
        MPI_COMM_NULL => b"MPI_COMM_NULL".as_slice().into(),
        _ => call.counted_communicator(1, comm)?.name(),
    };
    resultlen.set(comm_name.write(&name) as c_int);
    Ok(())
}

pub fn comm_set_info(
    call: &Call,
    comm: KnownCommunicator,
    info: Option<Rc<Info>>,
) -> CallOutcome<()> {
    comm.set_info(&call.library.process, &info.unwrap_or_default());
    Ok(())
}

/// Returns the hints of a communicator, and with them how messages to the next process are
/// transported.
pub fn comm_get_info(call: &Call, comm: KnownCommunicator, info: Out<c::Info>) -> CallOutcome<()> {
    let hints = comm.info(&call.library.process);
    let next = (comm.rank() + 1) % comm.peer_count();
    if let Some(transport) = comm.transport(&call.library.process, next) {
        hints.set(b"combray_transport", transport.as_bytes(), infos::LIMITS)?;
    }
    info.set(call.library.infos.insert(hints));
    Ok(())
}
