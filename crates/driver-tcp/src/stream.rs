//! What a connection writes to and reads from.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// Bytes in order, both ways, as far as there is room or something is here: never waits. Tests have
/// a faulty one. What buffers lend their memory to must have no buffer: hence `Sync`.
pub(crate) trait ByteStream: Sync {
    /// Reads what is here.
    fn read(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Reads what is here into these pieces of memory, one after another.
    fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Writes what there is room for.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes what there is room for of these pieces, one after another.
    fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// How many bytes were written and have not reached the peer's machine.
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
