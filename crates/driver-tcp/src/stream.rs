//! The byte stream of a connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::AsFd;

use rustix::net::{RecvFlags, SendFlags};

/// A non-blocking byte stream in both directions, which does as much as is possible now. Tests use
/// a faulty one. Buffers lend their memory to it, so it must not buffer data; hence `Sync`.
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
