//! Watches many sockets at once with epoll.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use sys::forks;

/// Watches sockets, each under a number.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

/// The socket of this number is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadySocket {
    pub number: u64,
    pub readable: bool,
    pub writable: bool,
}

/// The maximal number of sockets reported at once.
const EVENTS_MAX: usize = 64;

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketInterest {
    /// Failures only.
    Failures,
    /// Data to read, or connections to accept.
    Read,
    /// Data to read, and room to write.
    ReadAndWrite,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        forks::keep_from_children(&epoll);
        Ok(Self { epoll })
    }

    /// Watches a socket from now on, until it is [removed](Self::remove).
    pub(crate) fn add(
        &self,
        socket: impl AsFd,
        number: u64,
        wanted: SocketInterest,
    ) -> io::Result<()> {
        epoll::add(&self.epoll, &socket, EventData::new_u64(number), wanted.flags())?;
        forks::keep_from_children(socket);
        Ok(())
    }

    /// Stops watching a socket. To be called before it is closed: if a child process has inherited
    /// it, closing it does not remove it from the epoll instance, which would report it forever.
    pub(crate) fn remove(&self, socket: impl AsFd) {
        // A socket that is not watched needs nothing.
        let _ = epoll::delete(&self.epoll, &socket);
        forks::release(socket);
    }

    /// Changes what a socket is watched for.
    pub(crate) fn watch(
        &self,
        socket: impl AsFd,
        number: u64,
        wanted: SocketInterest,
    ) -> io::Result<()> {
        epoll::modify(&self.epoll, socket, EventData::new_u64(number), wanted.flags())?;
        Ok(())
    }

    /// Returns the sockets that are ready now.
    pub(crate) fn ready(&self) -> io::Result<Vec<ReadySocket>> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut events, Some(&now)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let failed = EventFlags::ERR | EventFlags::HUP;
        let ready = events.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            ReadySocket {
                number: data.u64(),
                readable: flags.intersects(EventFlags::IN | failed),
                writable: flags.intersects(EventFlags::OUT | failed),
            }
        });
        Ok(ready.collect())
    }

    /// Returns the descriptor that is readable when a socket is ready.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        forks::release(&self.epoll);
    }
}

impl SocketInterest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Failures => EventFlags::empty(),
            Self::Read => EventFlags::IN,
            Self::ReadAndWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}
