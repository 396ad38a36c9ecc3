//! Descriptors that are out of the way while further processes are started.
//!
//! The system copies all descriptors of a process when it forks and closes them again in the child,
//! so each start would take time for the descriptors of all earlier ranks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use sys::passing;

use super::rank::DESCRIPTORS_OF_RANK;

/// The descriptors of a rank.
pub(super) type Parked = [OwnedFd; DESCRIPTORS_OF_RANK];

/// How many ranks have their descriptors parked at once.
pub(super) const TOGETHER: usize = 64;

const _: () = assert!(TOGETHER * DESCRIPTORS_OF_RANK <= passing::PASSED_MAX);

/// Descriptors that were sent and have not been received.
pub(super) struct Parking {
    entrance: UnixStream,
    exit: UnixStream,
    /// How many ranks were parked, in the order of their messages.
    parked: Vec<usize>,
}

impl Parking {
    /// Makes room.
    pub(super) fn new() -> io::Result<Self> {
        let (entrance, exit) = UnixStream::pair()?;
        entrance.set_nonblocking(true)?;
        Ok(Self { entrance, exit, parked: Vec::new() })
    }

    /// Parks the descriptors of at most [`TOGETHER`] ranks, and closes them here. Returns them if
    /// the system does not allow it.
    pub(super) fn park(&mut self, ranks: Vec<Parked>) -> Result<(), Vec<Parked>> {
        let descriptors: Vec<BorrowedFd<'_>> = ranks.iter().flatten().map(AsFd::as_fd).collect();
        if passing::send_descriptors(&self.entrance, &descriptors).is_err() {
            return Err(ranks);
        }
        self.parked.push(ranks.len());
        Ok(())
    }

    /// Returns all descriptors, in the order in which they were parked.
    ///
    /// # Errors
    /// This process has no room for them.
    pub(super) fn take_all(self) -> io::Result<Vec<Parked>> {
        let mut all = Vec::new();
        for count in self.parked {
            let mut received = passing::receive_descriptors(&self.exit)?.into_iter();
            for _ in 0..count {
                let one: Vec<OwnedFd> = received.by_ref().take(DESCRIPTORS_OF_RANK).collect();
                all.extend(Parked::try_from(one).ok());
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn parked_descriptors_come_back_in_their_order() {
        let mut parking = Parking::new().unwrap();
        let mut writers = Vec::new();
        for count in [TOGETHER, 1, 7] {
            let ranks = (0..count).map(|_| {
                [0; DESCRIPTORS_OF_RANK].map(|_| {
                    let (reader, writer) = std::io::pipe().unwrap();
                    writers.push(writer);
                    OwnedFd::from(reader)
                })
            });
            parking.park(ranks.collect()).unwrap();
        }
        for (number, writer) in writers.iter_mut().enumerate() {
            write!(writer, "{number}").unwrap();
        }
        drop(writers);
        let back = parking.take_all().unwrap();
        assert_eq!(back.len(), TOGETHER + 8);
        for (number, descriptor) in back.into_iter().flatten().enumerate() {
            let mut text = String::new();
            File::from(descriptor).read_to_string(&mut text).unwrap();
            assert_eq!(text, number.to_string());
        }
    }
}
