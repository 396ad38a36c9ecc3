//! Collective operations that move data (sections 6.3 to 6.8 of the standard). Each function
//! prepares an operation from the arguments of a call; its caller runs it.

use memory::Buffer;
use mpi::collective::{self, Collective, Invocation, Root};

use super::blocks::{BlockList, equal_blocks};
use crate::arguments::{BlocksArgument, ElementsArgument};
use crate::call::Call;
use crate::failure::CallOutcome;

/// Whether a process may pass `MPI_IN_PLACE` for its own data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InPlacePermission {
    Allowed,
    Refused,
}

impl InPlacePermission {
    /// Returns the permission for operations in which only the root may work in place.
    fn of(root: Root, comm: &Invocation<'_>) -> Self {
        if root.is_here(comm) { InPlacePermission::Allowed } else { InPlacePermission::Refused }
    }
}

#[inline(always)]
pub fn barrier(_call: &Call, comm: &Invocation<'_>) -> CallOutcome<Collective> {
    Ok(collective::barrier(comm)?)
}

#[inline(always)]
pub fn bcast(
    call: &Call,
    buffer: Option<ElementsArgument>,
    root: Root,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    match buffer {
        None => Ok(collective::beside_the_root(comm)),
        Some(buffer) => Ok(collective::bcast(comm, root, buffer.buffer(call)?)?),
    }
}

/// Returns the buffer of this process's own data; `None` if the process works in place and may do
/// so.
fn own(
    call: &Call,
    elements: &ElementsArgument,
    in_place: InPlacePermission,
) -> CallOutcome<Option<Buffer>> {
    if in_place == InPlacePermission::Allowed && elements.is_in_place() {
        return Ok(None);
    }
    elements.unshifted_buffer(call).map(Some)
}

/// Like [`own`], for data that only some processes pass.
fn own_if_any(
    call: &Call,
    elements: Option<ElementsArgument>,
    in_place: InPlacePermission,
) -> CallOutcome<Option<Buffer>> {
    elements.map_or(Ok(None), |elements| own(call, &elements, in_place))
}

pub fn gather(
    call: &Call,
    send: Option<ElementsArgument>,
    receive: Option<BlocksArgument>,
    root: Root,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let sent = own_if_any(call, send, InPlacePermission::of(root, comm))?;
    let received = receive.map(|blocks| equal_blocks(call, &blocks)).transpose()?;
    Ok(collective::gather(comm, root, sent, received)?)
}

pub fn gatherv(
    call: &Call,
    send: Option<ElementsArgument>,
    receive: Option<BlockList>,
    root: Root,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let sent = own_if_any(call, send, InPlacePermission::of(root, comm))?;
    let received = receive.map(|blocks| blocks.buffers(call)).transpose()?;
    Ok(collective::gatherv(comm, root, sent, received)?)
}

pub fn scatter(
    call: &Call,
    send: Option<BlocksArgument>,
    receive: Option<ElementsArgument>,
    root: Root,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let received = own_if_any(call, receive, InPlacePermission::of(root, comm))?;
    let sent = send.map(|blocks| equal_blocks(call, &blocks)).transpose()?;
    Ok(collective::scatter(comm, root, sent, received)?)
}

pub fn scatterv(
    call: &Call,
    send: Option<BlockList>,
    receive: Option<ElementsArgument>,
    root: Root,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let received = own_if_any(call, receive, InPlacePermission::of(root, comm))?;
    let sent = send.map(|blocks| blocks.buffers(call)).transpose()?;
    Ok(collective::scatterv(comm, root, sent, received)?)
}

pub fn allgather(
    call: &Call,
    send: ElementsArgument,
    receive: BlocksArgument,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let sent = own(call, &send, InPlacePermission::Allowed)?;
    Ok(collective::allgather(comm, sent, equal_blocks(call, &receive)?)?)
}

pub fn allgatherv(
    call: &Call,
    send: ElementsArgument,
    receive: BlockList,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let sent = own(call, &send, InPlacePermission::Allowed)?;
    Ok(collective::allgatherv(comm, sent, receive.buffers(call)?)?)
}

pub fn alltoall(
    call: &Call,
    send: BlocksArgument,
    receive: BlocksArgument,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let sent = match send.elements().is_in_place() {
        true => None,
        false => Some(equal_blocks(call, &send)?),
    };
    Ok(collective::alltoall(comm, sent, equal_blocks(call, &receive)?)?)
}

/// `MPI_Alltoallv` and `MPI_Alltoallw`.
pub fn alltoallv(
    call: &Call,
    send: BlockList,
    receive: BlockList,
    comm: &Invocation<'_>,
) -> CallOutcome<Collective> {
    let sent = match send.is_in_place() {
        true => None,
        false => Some(send.buffers(call)?),
    };
    Ok(collective::alltoallv(comm, sent, receive.buffers(call)?)?)
}
