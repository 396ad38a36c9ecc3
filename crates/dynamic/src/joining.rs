//! Processes that have a socket in common (`MPI_Comm_join`, section 11.10.4 of the MPI standard).

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Instant;

use base::{Error, ErrorClass, Result};
use hangs::PortWait;
use mpi::Process;
use mpi::communicator::Communicator;
use socket2::SockRef;

use crate::meeting::wait;
use crate::{Ports, accept, connect, step_limit};

/// The length of the message by which a side sends the name of its port: the name and zero bytes.
const MESSAGE_BYTES: usize = 256;

/// Makes an intercommunicator of this process and the process at the other end of a socket. Nothing
/// else may be underway on the socket; afterwards the program may use it again.
///
/// # Errors
/// `Arg` if it is not a connected stream socket; those of [`accept`] and [`connect`].
pub fn join(process: &Process, socket: BorrowedFd<'_>) -> Result<Rc<Communicator>> {
    let kind = SockRef::from(&socket).r#type().map_err(|cause| unusable(&cause))?;
    if kind != socket2::Type::STREAM {
        let detail = "the descriptor is a socket, but not a stream: MPI_Comm_join needs TCP, or a \
                      Unix socket of type SOCK_STREAM";
        return Err(Error::new(ErrorClass::Arg, detail));
    }
    let ports = Ports::default();
    let own = ports.open()?;
    let other = exchange(process, socket, &own)?;
    let alone = process.alone();
    // Both sides see the same two names, so one accepts and one connects.
    match own < other {
        true => accept(process, alone, 0, (&ports, &own)),
        false => connect(process, alone, 0, &other),
    }
}

/// Sends the name of the own port, and returns that of the other side.
fn exchange(process: &Process, socket: BorrowedFd<'_>, own: &str) -> Result<String> {
    let mut message = own.as_bytes().to_vec();
    message.resize(MESSAGE_BYTES, 0);
    let (mut sent, mut received) = (0, Vec::new());
    let deadline = Instant::now() + step_limit()?;
    wait((process, PortWait::Answer), &mut || None, || {
        while sent < MESSAGE_BYTES {
            match sys::socket::send(socket, &[IoSlice::new(&message[sent..])]) {
                Ok(count) => sent += count,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(unusable(&error)),
            }
        }
        while received.len() < MESSAGE_BYTES {
            // No byte more: what follows belongs to the program.
            let mut room = [0; MESSAGE_BYTES];
            let wanted = MESSAGE_BYTES - received.len();
            match sys::socket::receive_now(socket, &mut room[..wanted]) {
                Ok(0) => return Err(unusable(&ErrorKind::UnexpectedEof.into())),
                Ok(count) => received.extend_from_slice(&room[..count]),
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(unusable(&error)),
            }
        }
        let is_whole = sent == MESSAGE_BYTES && received.len() == MESSAGE_BYTES;
        if !is_whole && Instant::now() >= deadline {
            let detail = "the process at the other end of the socket does not call MPI_Comm_join";
            return Err(Error::new(ErrorClass::Port, detail));
        }
        Ok(is_whole.then_some(()))
    })?;
    let end = received.iter().position(|byte| *byte == 0).unwrap_or(MESSAGE_BYTES);
    Ok(String::from_utf8_lossy(&received[..end]).into_owned())
}

/// Whether a call on the socket may succeed later.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn unusable(cause: &io::Error) -> Error {
    let detail = format!(
        "the descriptor cannot be used ({cause}): it must be a connected stream socket, at whose \
         other end a process calls MPI_Comm_join"
    );
    Error::new(ErrorClass::Arg, detail)
}
