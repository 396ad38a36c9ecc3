//! Sending without signals, and what TCP connections tell of themselves.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::check;

/// Writes these bytes, in their order, as far as there is room; returns how many. Where nobody
/// reads any more this is an error, without the signal (SIGPIPE) that would end a program that does
/// not expect it.
///
/// # Errors
/// The system's; `ENOTSOCK` where the descriptor is no socket.
pub fn send(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all fields of the structure are integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_ptr().cast::<libc::iovec>().cast_mut();
    message.msg_iovlen = slices.len().min(SLICES_MAX) as _;
    // SAFETY: an IoSlice has the form of an iovec, and the kernel only reads what they describe.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    check(sent as libc::c_long).map(|sent| sent as usize)
}

/// The system takes no more at once (IOV_MAX).
const SLICES_MAX: usize = 1024;

/// Bytes that were written to a connection and that the peer's machine has not acknowledged.
///
/// # Errors
/// The descriptor is no connection.
pub fn unacknowledged(connection: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (which sockets know as SIOCOUTQ) writes one int to the address given.
    let result = unsafe { libc::ioctl(connection.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    check(libc::c_long::from(result))?;
    Ok(bytes.max(0) as u64)
}

/// The ends of a connection inside this machine.
///
/// # Errors
/// The system's, with the name of the call.
pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
    UnixStream::pair().map_err(|cause| crate::refused_or_lacking("socketpair", cause))
}

/// The addresses without a place in any folder at which somebody listens on this machine, or is
/// connected, and that begin with these words: what follows, in order.
pub fn abstract_names(begin: &str) -> Vec<String> {
    // Other names, which anybody may have made of any bytes, hide none of these.
    let table = std::fs::read("/proc/net/unix").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    let names = table.lines().filter_map(|line| line.rsplit_once(" @")?.1.strip_prefix(begin));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The user of the process that made the other end of a Unix socket.
///
/// # Errors
/// The system's; also where it is no Unix socket.
pub fn peer_user(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the system writes at most `length` bytes to the structure, which is that long.
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
    Ok(peer.uid)
}

/// From now on, [`receive_from`] tells which process has sent what comes from a Unix socket.
///
/// # Errors
/// The system's; also where it is no Unix socket.
pub fn name_senders(socket: BorrowedFd<'_>) -> io::Result<()> {
    let one: libc::c_int = 1;
    // SAFETY: the system reads an integer from the address, which is that of one.
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

/// Reads what one process has sent: how many bytes, 0 at the end, and the number of the process as
/// this one knows it. That is 0 where it cannot be named here, or where senders are not named.
///
/// # Errors
/// The system's.
pub fn receive_from(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, i32)> {
    let mut slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // Aligned as the control messages that the system writes into it have to be.
    let mut control = [0_u64; 8];
    // SAFETY: all fields of the structure are integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: what the structure points to may be written, with the lengths that it tells.
    let received =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = check(received as libc::c_long)? as usize;
    // SAFETY: the system has filled the structure; the first header, if there is one, lies whole in
    // `control`.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let is_sender = |header: &&libc::cmsghdr| {
        (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS)
    };
    let sender = header.filter(is_sender).map_or(0, |header| {
        // SAFETY: behind a header of this kind lies such a structure, perhaps not aligned.
        unsafe { libc::CMSG_DATA(header).cast::<libc::ucred>().read_unaligned() }.pid
    });
    Ok((received, sender))
}

/// How a connection fares that carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// How often the peer's machine was asked for an answer in vain: by sending the oldest segment
    /// again that it has not acknowledged, or, where nothing is underway as nothing could be
    /// sent, by probing.
    pub unanswered: u8,
    /// How long ago the peer's machine last acknowledged anything.
    pub silence: Duration,
    /// How many segments have come from it, whatever was in them; it starts again after 2^32.
    pub segments: u32,
}

/// How a TCP connection fares.
///
/// # Errors
/// The descriptor is no TCP connection.
pub fn health(connection: BorrowedFd<'_>) -> io::Result<Health> {
    // SAFETY: all fields of the structure are integers, for which zero is a value.
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
    fn who_has_sent_is_named() {
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
