//! Bubbles, as programs make them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bubbles::Relation;
use parking_lot::Mutex;

use crate::home::ANYWHERE;
use crate::thread::Thread;
use crate::usage::{MemoryUse, UsedMemory};
use crate::worker;

/// Threads, and bubbles, that belong together.
///
/// Threads that are made in it wait until it is [submitted](Bubble::submit): then a scheduler sees
/// all of them and decides where each runs.
#[derive(Clone)]
pub struct Bubble {
    inner: Arc<BubbleInner>,
}

struct BubbleInner {
    number: u64,
    relation: Relation,
    bubble: Option<Bubble>,
    home: AtomicU32,
    submitted: AtomicBool,
    threads: Mutex<Vec<Arc<Thread>>>,
    bubbles: Mutex<Vec<Bubble>>,
    /// Of which it is not known yet where it is, until the bubble is submitted.
    memory: UsedMemory,
}

impl Bubble {
    /// A bubble by itself.
    pub fn new(relation: Relation) -> Self {
        Self::made(relation, None)
    }

    /// A bubble in this one. It is submitted with it.
    pub fn inside(&self, relation: Relation) -> Self {
        let bubble = Self::made(relation, Some(self.clone()));
        if self.is_submitted() {
            bubble.inner.submitted.store(true, Ordering::Release);
        } else {
            self.inner.bubbles.lock().push(bubble.clone());
        }
        bubble
    }

    fn made(relation: Relation, bubble: Option<Bubble>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self {
            inner: Arc::new(BubbleInner {
                number: COUNT.fetch_add(1, Ordering::Relaxed) + 1,
                relation,
                bubble,
                home: AtomicU32::new(ANYWHERE),
                submitted: AtomicBool::new(false),
                threads: Mutex::new(Vec::new()),
                bubbles: Mutex::new(Vec::new()),
                memory: UsedMemory::default(),
            }),
        }
    }

    /// Makes all its threads ready, where the scheduler puts them; threads that are made in it from
    /// then on are ready at once.
    ///
    /// # Panics
    /// The caller is not a thread of [`Workers`](crate::Workers).
    pub fn submit(&self) {
        worker::with(|local| local.shared.submit(self, local.slot()));
    }

    /// Says that the threads of this bubble use memory together.
    ///
    /// The scheduler `memory` puts them on the NUMA node that has most of it; where load forces
    /// them elsewhere, what is written follows (move_pages(2)). Where memory is, is looked up when
    /// the bubble is submitted and when this is called; pages that nobody has touched until then
    /// count for no node.
    pub fn uses(&self, addresses: Range<usize>, access: MemoryUse) {
        let machine = worker::local().map(|local| local.shared.machine.clone());
        self.inner.memory.add(addresses, access, machine.as_deref());
    }

    pub(crate) fn memory(&self) -> &UsedMemory {
        &self.inner.memory
    }

    pub(crate) fn is_submitted(&self) -> bool {
        self.inner.submitted.load(Ordering::Acquire)
    }

    /// Keeps a thread until the bubble is submitted. False: it was already.
    pub(crate) fn keep(&self, thread: &Arc<Thread>) -> bool {
        let mut threads = self.inner.threads.lock();
        let keeps = !self.is_submitted();
        if keeps {
            threads.push(thread.clone());
        }
        keeps
    }

    /// From now on it is submitted; what it kept.
    pub(crate) fn open(&self) -> (Vec<Arc<Thread>>, Vec<Bubble>) {
        let mut threads = self.inner.threads.lock();
        self.inner.submitted.store(true, Ordering::Release);
        (std::mem::take(&mut threads), std::mem::take(&mut self.inner.bubbles.lock()))
    }

    pub(crate) fn relation(&self) -> Relation {
        self.inner.relation
    }

    pub(crate) fn bubble(&self) -> Option<&Bubble> {
        self.inner.bubble.as_ref()
    }

    /// Where it stands by itself, or [`ANYWHERE`].
    pub(crate) fn own_home(&self) -> u32 {
        self.inner.home.load(Ordering::Relaxed)
    }

    pub(crate) fn set_home(&self, home: u32) {
        self.inner.home.store(home, Ordering::Relaxed);
    }

    /// Where it stands, by itself or in its bubble.
    pub(crate) fn home(&self) -> u32 {
        match (self.own_home(), self.bubble()) {
            (ANYWHERE, Some(bubble)) => bubble.home(),
            (home, _) => home,
        }
    }

    /// What tells it from others; they are counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.inner.number
    }
}
