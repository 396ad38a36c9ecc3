//! The byte stream of a connection.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

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

impl ByteStream for TcpStream {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, into)
    }

    fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Read::read_vectored(&mut &*self, into)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, bytes)
    }

    fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        sys::socket::send(self.as_fd(), pieces)
    }

    fn unacknowledged(&self) -> u64 {
        sys::socket::unacknowledged(self.as_fd()).unwrap_or(0)
    }
}
