//! The doorbell of a process that sleeps on descriptors.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use driver::Doorbell;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{FOR_PROGRAM, MappedSegment, ON_PIPE, ON_WORD};

/// The doorbell of a process that may have to wake for other descriptors, too.
pub(crate) struct DescriptorBell {
    segment: Arc<MappedSegment>,
    reader: PipeReader,
    others: Mutex<Vec<Arc<OwnedFd>>>,
    /// Whether there are others: the process then sleeps on the pipe and on them, otherwise on the
    /// word of the bell.
    has_others: AtomicBool,
    /// The descriptors that become readable with the pipe and the others.
    watching: Mutex<Vec<Weak<OwnedFd>>>,
    /// The number of threads that are asleep on the pipe or about to sleep.
    sleepers: Mutex<u32>,
}

/// How much is read from the pipe at once. There may be several bytes, if peers rang again.
const PIPE_BYTES: usize = 64;

impl DescriptorBell {
    pub(super) fn new(
        segment: Arc<MappedSegment>,
        reader: PipeReader,
        others: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        // Two threads may try to empty it.
        rustix::io::ioctl_fionbio(&reader, true)?;
        let has_others = AtomicBool::new(!others.is_empty());
        let others = Mutex::new(others.into_iter().map(Arc::new).collect());
        let (watching, sleepers) = (Mutex::default(), Mutex::new(0));
        Ok(Self { segment, reader, others, has_others, watching, sleepers })
    }

    fn others(&self) -> MutexGuard<'_, Vec<Arc<OwnedFd>>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleepers(&self) -> MutexGuard<'_, u32> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watching(&self) -> MutexGuard<'_, Vec<Weak<OwnedFd>>> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn empty_pipe(&self) {
        // An error means that it is empty.
        let _ = (&self.reader).read(&mut [0; PIPE_BYTES]);
    }

    fn wait_on_descriptors(&self, ticket: u32, timeout: Duration) {
        // Others may come while this thread sleeps.
        let others = self.others().clone();
        let others = others.iter().map(|other| PollFd::new(other, PollFlags::IN));
        let own = PollFd::new(&self.reader, PollFlags::IN);
        let mut all: Vec<_> = std::iter::once(own).chain(others).collect();
        let timeout = Timespec::try_from(timeout).ok();
        // The thread that empties the pipe does so before this thread is counted. So if that thread
        // consumed the byte of a ring meant for this one, the bell's word shows the ring here.
        let is_still = {
            let mut sleepers = self.sleepers();
            *sleepers += 1;
            self.segment.header().bell.is_still(ticket)
        };
        if is_still {
            // Interrupted or not: the caller polls again.
            let _ = poll(&mut all, timeout.as_ref());
        }
        let mut sleepers = self.sleepers();
        *sleepers -= 1;
        // What wakes one sleeper must wake all: the last one empties the pipe.
        if *sleepers == 0 && all[0].revents().contains(PollFlags::IN) {
            self.empty_pipe();
        }
    }
}

impl Doorbell for DescriptorBell {
    fn arm(&self) -> u32 {
        let how = || if self.has_others.load(Ordering::SeqCst) { ON_PIPE } else { ON_WORD };
        let before = how();
        let ticket = self.segment.arm(before);
        // Others may have come just before the bell was armed: then `extend` did not ring it.
        if how() == before { ticket } else { self.segment.arm(ON_PIPE) }
    }

    fn wait(&self, ticket: u32, timeout: Duration) {
        // If others came after the bell was armed, `extend` rings it.
        match self.has_others.load(Ordering::SeqCst) {
            true => self.wait_on_descriptors(ticket, timeout),
            false => self.segment.wait(ticket, timeout),
        }
    }

    fn can_wait_beside(&self) -> bool {
        !self.has_others.load(Ordering::SeqCst) && self.segment.can_wait_beside()
    }

    fn wait_beside(&self, ticket: u32, beside: (&AtomicU32, u32), timeout: Duration) {
        match self.has_others.load(Ordering::SeqCst) {
            true => self.wait_on_descriptors(ticket, timeout),
            false => self.segment.wait_beside(ticket, beside, timeout),
        }
    }

    fn ring(&self) {
        self.segment.ring_if_armed();
    }

    fn extend(&self, beside: Vec<OwnedFd>) -> io::Result<bool> {
        // Held until the end, so that a descriptor that begins to watch meanwhile misses none.
        let watching = self.watching();
        for epoll in watching.iter().filter_map(Weak::upgrade) {
            beside.iter().try_for_each(|other| add_to(&epoll, other))?;
        }
        self.others().extend(beside.into_iter().map(Arc::new));
        self.has_others.store(true, Ordering::SeqCst);
        // Threads that have armed the bell sleep on the word or, if they see the others already, on
        // the pipe: this wakes both.
        self.segment.header().bell.arm(FOR_PROGRAM, || ());
        self.segment.ring_if_armed();
        Ok(true)
    }

    fn watch(&self, epoll: &Arc<OwnedFd>) -> io::Result<()> {
        let mut watching = self.watching();
        watching.retain(|one| one.strong_count() > 0);
        add_to(epoll, &self.reader)?;
        self.others().iter().try_for_each(|other| add_to(epoll, &**other))?;
        watching.push(Arc::downgrade(epoll));
        Ok(())
    }

    fn arm_for_program(&self) {
        // Threads that sleep on the pipe empty it when all are awake.
        let sleepers = self.sleepers();
        if *sleepers == 0 {
            self.empty_pipe();
        }
        drop(sleepers);
        if !self.segment.header().bell.is_armed(FOR_PROGRAM) {
            self.segment.arm(FOR_PROGRAM);
        }
    }

    fn is_armed_for_program(&self) -> bool {
        let others = self.others();
        let mut all: Vec<_> = others.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect();
        self.segment.header().bell.is_armed(FOR_PROGRAM)
            && (all.is_empty() || poll(&mut all, Some(&Timespec::default())) == Ok(0))
    }
}

fn add_to(epoll: &OwnedFd, descriptor: &impl AsFd) -> io::Result<()> {
    Ok(epoll::add(epoll, descriptor, EventData::new_u64(0), EventFlags::IN)?)
}
