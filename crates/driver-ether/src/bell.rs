//! The descriptor that a process sleeps on: it covers the sockets for urgent frames, and a timer
//! for what must be sent although nothing arrives.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use sys::forks;

use crate::timing::Time;

/// Readable when there may be work.
#[derive(Debug)]
pub(crate) struct WakingDescriptor {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer expires, if it runs.
    ends_at: Option<Time>,
}

impl WakingDescriptor {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        forks::keep_from_children(&epoll);
        forks::keep_from_children(&timer);
        let waking = Self { epoll, timer, ends_at: None };
        waking.watch(waking.timer.as_fd())?;
        Ok(waking)
    }

    /// Watches a socket, too.
    pub(crate) fn watch(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(0), EventFlags::IN)?)
    }

    /// Ensures that the descriptor is readable at this time. A timer that expires before is left
    /// alone: mostly, what is awaited arrives in time.
    pub(crate) fn wake_at(&mut self, at: Option<Time>, now: Time) {
        if let Some(at) = at
            && self.ends_at.is_none_or(|known| at < known)
        {
            self.set(at.saturating_sub(now).max(1));
            self.ends_at = Some(at);
        }
    }

    /// Resets the descriptor if the timer has expired, so that the timer does not make it readable
    /// any more.
    pub(crate) fn pass(&mut self, now: Time) {
        if self.ends_at.is_some_and(|ends_at| now >= ends_at) {
            self.set(0);
            self.ends_at = None;
        }
    }

    /// Sets the timer to expire after this many nanoseconds; 0: never.
    fn set(&self, after: Time) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let (seconds, rest) = (after / 1_000_000_000, after % 1_000_000_000);
        let value = Timespec { tv_sec: seconds as i64, tv_nsec: rest as _ };
        let times = Itimerspec { it_interval: zero, it_value: value };
        // Any time is valid.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times);
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for WakingDescriptor {
    fn drop(&mut self) {
        forks::release(&self.timer);
        forks::release(&self.epoll);
    }
}
