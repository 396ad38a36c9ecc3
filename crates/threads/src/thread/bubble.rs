//! Bubbles: groups of threads that a program creates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bubbles::Relation;
use parking_lot::Mutex;

use crate::home::ANYWHERE;
use crate::thread::Thread;
use crate::usage::UsedMemory;

/// A group of threads and nested bubbles that belong together.
///
/// A thread that is created in a bubble does not run until the bubble is
/// [submitted](Bubble::submit). At that point a scheduler sees all threads of the bubble and
/// decides where each runs.
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
    /// The memory that the bubble uses. Its NUMA location is not known until the bubble is
    /// submitted.
    memory: UsedMemory,
}

impl Bubble {
    /// Creates a bubble that is in no other bubble.
    pub fn new(relation: Relation) -> Self {
        Self::made(relation, None)
    }

    /// Creates a bubble inside this bubble. It is submitted together with this bubble.
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

    pub(crate) fn memory(&self) -> &UsedMemory {
        &self.inner.memory
    }

    pub(crate) fn is_submitted(&self) -> bool {
        self.inner.submitted.load(Ordering::Acquire)
    }

    /// Keeps a thread until the bubble is submitted. Returns false if the bubble is submitted
    /// already.
    pub(crate) fn keep(&self, thread: &Arc<Thread>) -> bool {
        let mut threads = self.inner.threads.lock();
        let keeps = !self.is_submitted();
        if keeps {
            threads.push(thread.clone());
        }
        keeps
    }

    /// Marks the bubble as submitted and returns the threads and bubbles that it kept.
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

    /// The place of this bubble itself, or [`ANYWHERE`].
    pub(crate) fn own_home(&self) -> u32 {
        self.inner.home.load(Ordering::Relaxed)
    }

    pub(crate) fn set_home(&self, home: u32) {
        self.inner.home.store(home, Ordering::Relaxed);
    }

    /// The place of this bubble, or else that of the bubble around it.
    pub(crate) fn home(&self) -> u32 {
        match (self.own_home(), self.bubble()) {
            (ANYWHERE, Some(bubble)) => bubble.home(),
            (home, _) => home,
        }
    }

    /// The number that identifies the bubble; numbers begin at 1.
    pub(crate) fn number(&self) -> u64 {
        self.inner.number
    }
}
