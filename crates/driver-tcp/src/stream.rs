//! The byte stream of a connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{RecvFlags, SendFlags};
use sealing::Sealing;

use crate::sealed::SealedStream;

/// A non-blocking byte stream in both directions, which does as much as is possible now. Tests use
/// a faulty one. Buffers lend their memory to it during a call; hence `Sync`.
pub(crate) trait ByteStream: Sync {
    /// Reads the bytes that are here.
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Reads the bytes that are here into these pieces of memory, one after another.
    fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Writes as many bytes as there is room for.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes as many bytes of these pieces as there is room for, one after another.
    fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Returns how many bytes were written and have not reached the peer's machine.
    fn unacknowledged(&self) -> u64;

    /// Whether bytes have left the system's socket, and wait here to be read.
    #[inline]
    fn holds_bytes(&self) -> bool {
        false
    }
}

/// The stream of a rail.
pub(crate) enum RailStream<S = TcpStream> {
    Plain(S),
    Sealed(Box<SealedStream<S>>),
}

impl<S> RailStream<S> {
    pub(crate) fn new(socket: S, sealing: Option<Sealing>) -> Self {
        match sealing {
            Some(sealing) => Self::Sealed(Box::new(SealedStream::new(socket, sealing))),
            None => Self::Plain(socket),
        }
    }

    pub(crate) fn socket(&self) -> &S {
        match self {
            Self::Plain(socket) => socket,
            Self::Sealed(sealed) => &sealed.stream,
        }
    }
}

impl AsFd for RailStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

impl<S: ByteStream> ByteStream for RailStream<S> {
    #[inline]
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Sealed(sealed) => sealed.read(into),
        }
    }

    #[inline]
    fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read_vectored(into),
            Self::Sealed(sealed) => sealed.read_vectored(into),
        }
    }

    #[inline]
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Sealed(sealed) => sealed.write(bytes),
        }
    }

    #[inline]
    fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write_vectored(pieces),
            Self::Sealed(sealed) => sealed.write_vectored(pieces),
        }
    }

    fn unacknowledged(&self) -> u64 {
        match self {
            Self::Plain(socket) => socket.unacknowledged(),
            Self::Sealed(sealed) => sealed.unacknowledged(),
        }
    }

    #[inline]
    fn holds_bytes(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Sealed(sealed) => sealed.holds_bytes(),
        }
    }
}

/// The system is called directly: the C library's functions are cancellation points, which costs
/// two atomic exchanges for each call in a process of several threads.
impl ByteStream for TcpStream {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self, into, RecvFlags::empty())?.0)
    }

    fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::readv(self, into)?)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::socket::send(self.as_fd(), pieces)
    }

    fn unacknowledged(&self) -> u64 {
        sys::socket::unacknowledged(self.as_fd()).unwrap_or(0)
    }
}
