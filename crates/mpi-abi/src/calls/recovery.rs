//! Extensions by which programs survive failed processes. Their names and semantics are those of
//! the proposal for user-level failure mitigation (ULFM), which is not part of the standard.

use std::ffi::c_int;
use std::rc::Rc;

use mpi::Communicator;

use crate::arguments::{KnownCommunicator, Out};
use crate::c::{Comm, Group, Request};
use crate::call::Call;
use crate::failure::CallOutcome;

use super::communicators::hand_out;
use super::{groups, requests};

pub fn mpix_comm_revoke(call: &Call, comm: KnownCommunicator) -> CallOutcome<()> {
    comm.revoke(&call.library.process);
    Ok(())
}

/// Makes progress first, so that a program that calls this repeatedly detects a revocation.
pub fn mpix_comm_is_revoked(
    call: &Call,
    comm: KnownCommunicator,
    flag: Out<c_int>,
) -> CallOutcome<()> {
    call.library.process.progress();
    flag.set_flag(comm.is_revoked());
    Ok(())
}

pub fn mpix_comm_shrink(
    call: &Call,
    comm: KnownCommunicator,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let made = comm.shrink(&call.library.process)?;
    hand_out(call, Some(made), newcomm)
}

/// Returns the handle of the new communicator at once, which is not usable until the request is
/// complete.
pub fn mpix_comm_ishrink(
    call: &Call,
    comm: KnownCommunicator,
    newcomm: Out<Comm>,
    request: Out<Request>,
) -> CallOutcome<()> {
    let library = call.library;
    let place = comm.placeholder(&library.process);
    let handle = library.communicators.insert(Rc::clone(&place));
    let made = move |outcome: base::Result<Rc<Communicator>>| {
        if let Ok(made) = outcome {
            library.communicators.replace(handle, made);
        }
    };
    let begun = comm.begin_shrink(&library.process, &place, Box::new(made));
    newcomm.set(handle);
    requests::hand_out(call, comm.handle, begun, request);
    Ok(())
}

pub fn mpix_comm_agree(
    call: &Call,
    comm: KnownCommunicator,
    flag: memory::Buffer,
) -> CallOutcome<()> {
    Ok(comm.agree(&call.library.process, flag)?)
}

pub fn mpix_comm_iagree(
    call: &Call,
    comm: KnownCommunicator,
    flag: memory::Buffer,
    request: Out<Request>,
) -> CallOutcome<()> {
    let begun = comm.begin_agree(&call.library.process, flag);
    requests::hand_out(call, comm.handle, begun, request);
    Ok(())
}

pub fn mpix_comm_failure_ack(call: &Call, comm: KnownCommunicator) -> CallOutcome<()> {
    comm.acknowledge_all(&call.library.process);
    Ok(())
}

pub fn mpix_comm_failure_get_acked(
    call: &Call,
    comm: KnownCommunicator,
    failedgrp: Out<Group>,
) -> CallOutcome<()> {
    groups::hand_out(call, comm.acknowledged(&call.library.process), failedgrp);
    Ok(())
}

pub fn mpix_comm_get_failed(
    call: &Call,
    comm: KnownCommunicator,
    failedgrp: Out<Group>,
) -> CallOutcome<()> {
    groups::hand_out(call, comm.failed(&call.library.process), failedgrp);
    Ok(())
}

pub fn mpix_comm_ack_failed(
    call: &Call,
    comm: KnownCommunicator,
    num_to_ack: usize,
    num_acked: Out<c_int>,
) -> CallOutcome<()> {
    num_acked.set(comm.acknowledge_first(&call.library.process, num_to_ack) as c_int);
    Ok(())
}
