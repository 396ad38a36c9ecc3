//! Passing descriptors through a socket of this machine.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// How many descriptors a message may have (SCM_MAX_FD).
pub const PASSED_MAX: usize = 253;

/// Sends copies of these descriptors, at most [`PASSED_MAX`], in a message of one byte.
///
/// # Errors
/// The system's, for example that too many are underway; then none was sent.
pub fn send_descriptors(socket: impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the descriptors of one message, which are close-on-exec.
///
/// # Errors
/// The system's; `EMFILE` if this process has no room for all of them.
pub fn receive_descriptors(socket: impl AsFd) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    let message = recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let received = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => rights.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let received = received.collect();
    match message.flags.contains(ReturnFlags::CTRUNC) {
        true => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        false => Ok(received),
    }
}
