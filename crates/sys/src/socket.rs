//! Sockets: sending without signals, senders of data, and statistics of TCP connections.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendFlags};

use crate::check;

/// Writes these bytes, in order, as far as there is room. Returns how many were written. If the
/// other end is closed this is an error, without the signal SIGPIPE, which would kill a program
/// that does not expect it.
///
/// # Errors
/// The system's; `ENOTSOCK` if the descriptor is no socket.
pub fn send(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let slices = &slices[..slices.len().min(SLICES_MAX)];
    let mut nothing = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, slices, &mut nothing, SendFlags::NOSIGNAL)?)
}

/// Reads bytes that have arrived, without waiting and whatever the mode of the socket. Returns how
/// many; 0: the other end is closed.
///
/// # Errors
/// `WouldBlock` if none have arrived; the system's; `ENOTSOCK` if the descriptor is no socket.
pub fn receive_now(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    let (place, length) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the kernel writes at most `length` bytes to the place.
    let received = unsafe { libc::recv(socket.as_raw_fd(), place, length, libc::MSG_DONTWAIT) };
    check(received as libc::c_long).map(|received| received as usize)
}

/// The maximum number of slices of one call (IOV_MAX).
const SLICES_MAX: usize = 1024;

/// Returns how many bytes were written to a connection and not acknowledged by the peer's machine.
///
/// # Errors
/// If the descriptor is no connection.
pub fn unacknowledged(connection: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ for sockets) writes one int to the given address.
    let result = unsafe { libc::ioctl(connection.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    check(libc::c_long::from(result))?;
    Ok(bytes.max(0) as u64)
}

/// Makes the two ends of a connection inside this machine.
///
/// # Errors
/// The system's, with the name of the call.
pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
    UnixStream::pair().map_err(|cause| crate::refused_or_lacking("socketpair", cause))
}

/// Returns the abstract Unix addresses that begin with `begin` and at which a process on this
/// machine listens or is connected: the parts after `begin`, in order.
pub fn abstract_names(begin: &str) -> Vec<String> {
    // Names of other processes, which may contain any bytes, hide none of these.
    let table = std::fs::read("/proc/net/unix").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    let names = table.lines().filter_map(|line| line.rsplit_once(" @")?.1.strip_prefix(begin));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the user of the process that made the other end of a Unix socket.
///
/// # Errors
/// The system's; also if it is no Unix socket.
pub fn peer_user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(peer(socket)?.uid)
}

/// Returns the process at the other end of a Unix socket, by its number among the processes that
/// this one sees; 0: it does not see that process.
///
/// # Errors
/// The system's; also if it is no Unix socket.
pub fn peer_process(socket: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(peer(socket)?.pid as u32)
}

fn peer(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the system writes at most `length` bytes to the structure, which has that size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    check(result.into())?;
    Ok(peer)
}

/// Enables [`receive_from`] to return which process has sent the data of a Unix socket.
///
/// # Errors
/// The system's; also if it is no Unix socket.
pub fn name_senders(socket: BorrowedFd<'_>) -> io::Result<()> {
    let one: libc::c_int = 1;
    // SAFETY: the system reads an integer from the address of an integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const one).cast(),
            size_of_val(&one) as libc::socklen_t,
        )
    };
    check(result.into()).map(drop)
}

/// Reads data of a single process. Returns the number of bytes, 0 at the end, and the sender's
/// process number in this process's namespace. That is 0 if the sender has no number here, or if
/// [`name_senders`] was not called.
///
/// # Errors
/// The system's.
pub fn receive_from(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, i32)> {
    let mut slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // Aligned for the control messages that the system writes into it.
    let mut control = [0_u64; 8];
    // SAFETY: all fields of the structure are integers and pointers, for which zero is a valid
    // value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the memory that the structure points to may be written, with the given lengths.
    let received =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = check(received as libc::c_long)? as usize;
    // SAFETY: the system has filled the structure; the first header, if there is one, is completely
    // in `control`.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let is_sender = |header: &&libc::cmsghdr| {
        (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS)
    };
    let sender = header.filter(is_sender).map_or(0, |header| {
        // SAFETY: a header of this type is followed by such a structure, possibly unaligned.
        unsafe { libc::CMSG_DATA(header).cast::<libc::ucred>().read_unaligned() }.pid
    });
    Ok((received, sender))
}

/// The state of a connection that carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// How many requests the peer's machine has not answered: retransmissions of the oldest
    /// unacknowledged segment, or, if nothing is underway because nothing could be sent, probes.
    pub unanswered: u8,
    /// The time since the peer's machine last acknowledged anything.
    pub silence: Duration,
    /// The number of segments received from it, with or without data; it wraps around at 2^32.
    pub segments: u32,
}

/// Returns the state of a TCP connection.
///
/// # Errors
/// If the descriptor is no TCP connection.
pub fn health(connection: BorrowedFd<'_>) -> io::Result<Health> {
    // SAFETY: all fields of the structure are integers, for which zero is a valid value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the structure.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    check(libc::c_long::from(result))?;
    Ok(Health {
        unanswered: info.tcpi_retransmits.max(info.tcpi_probes),
        silence: Duration::from_millis(u64::from(info.tcpi_last_ack_recv)),
        segments: info.tcpi_segs_in,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn a_process_that_has_sent_is_named() {
        let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut bytes = [0; 8];
        other.write_all(b"abc").unwrap();
        assert_eq!(receive_from(one.as_fd(), &mut bytes).unwrap(), (3, 0));
        name_senders(one.as_fd()).unwrap();
        other.write_all(b"defg").unwrap();
        let own = std::process::id() as i32;
        assert_eq!(receive_from(one.as_fd(), &mut bytes).unwrap(), (4, own));
        assert_eq!(&bytes[..4], b"defg");
        drop(other);
        assert_eq!(receive_from(one.as_fd(), &mut bytes).unwrap().0, 0);
    }

    #[test]
    fn what_is_sent_arrives_in_order_until_nobody_reads() {
        let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        let slices = [&b"gathered "[..], b"", b"bytes"].map(IoSlice::new);
        assert_eq!(send(one.as_fd(), &slices).unwrap(), 14);
        let mut got = [0; 14];
        other.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"gathered bytes");
        drop(other);
        assert_eq!(send(one.as_fd(), &slices).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_connection_tells_what_is_underway() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        one.write_all(&[1; 1000]).unwrap();
        other.read_exact(&mut [0; 1000]).unwrap();
        while unacknowledged(one.as_fd()).unwrap() > 0 {}
        let health = health(one.as_fd()).unwrap();
        assert_eq!(health.unanswered, 0);
        assert!((1..100).contains(&health.segments), "{health:?}");
        assert!(health.silence < Duration::from_secs(60), "{health:?}");
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(super::health(file.as_fd()).is_err());
    }
}
