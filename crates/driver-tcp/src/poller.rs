//! What the kernel reports of many sockets at once.

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

/// Something can be done with the socket of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadySocket {
    pub number: u64,
    pub readable: bool,
    pub writable: bool,
}

/// Sockets reported at once.
const EVENTS_MAX: usize = 64;

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketInterest {
    /// Something to read.
    Read,
    /// That, and room to write.
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

    /// Watches a socket no more. To be called before it is closed: where a child process has it
    /// too, closing it does not end the watch, and it would be reported for ever.
    pub(crate) fn remove(&self, socket: impl AsFd) {
        // What is not watched needs nothing.
        let _ = epoll::delete(&self.epoll, &socket);
        forks::release(socket);
    }

    /// Changes what is watched for.
    pub(crate) fn watch(
        &self,
        socket: impl AsFd,
        number: u64,
        wanted: SocketInterest,
    ) -> io::Result<()> {
        epoll::modify(&self.epoll, socket, EventData::new_u64(number), wanted.flags())?;
        Ok(())
    }

    /// Watches for those who connect, or no more.
    pub(crate) fn listen(&self, socket: impl AsFd, number: u64, on: bool) -> io::Result<()> {
        let interest = if on { EventFlags::IN } else { EventFlags::empty() };
        epoll::modify(&self.epoll, socket, EventData::new_u64(number), interest)?;
        Ok(())
    }

    /// The sockets with which something can be done now.
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

    /// Is readable when a socket is ready.
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
            Self::Read => EventFlags::IN,
            Self::ReadAndWrite => EventFlags::IN | EventFlags::OUT,
        }
    }
}
