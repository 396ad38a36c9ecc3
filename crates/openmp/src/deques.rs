//! The tasks of a team that are ready to run: a queue for each thread. A thread takes its newest
//! task first, and the oldest ones of others.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tasks::Task;

/// The queue of a thread.
#[repr(align(128))]
#[derive(Default)]
struct Deque(Mutex<VecDeque<Arc<Task>>>);

impl Deque {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Task>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queues of a team.
#[derive(Default)]
pub struct Deques {
    /// Never freed: a thread that leaves the team may still look.
    all: AtomicPtr<Vec<Deque>>,
    queued: AtomicUsize,
    /// How many tasks were ever added: a thread that found none waits for another number.
    added: AtomicUsize,
}

impl Deques {
    /// Provides queues for so many threads, while there are no tasks.
    pub fn provide(&self, threads: usize) {
        if self.all().len() < threads {
            let all = (0..threads.next_power_of_two()).map(|_| Deque::default()).collect();
            self.all.store(ptr::from_mut(Box::leak(Box::new(all))), Ordering::Release);
        }
    }

    fn all(&self) -> &[Deque] {
        // SAFETY: it is null, or a vector that is neither changed nor freed.
        unsafe { self.all.load(Ordering::Acquire).as_ref() }.map_or(&[], Vec::as_slice)
    }

    /// Adds a task to the queue of thread `id`. Returns how many tasks the queue had.
    pub fn push(&self, id: usize, task: Arc<Task>) -> usize {
        let mut deque = self.all()[id].lock();
        let before = deque.len();
        deque.push_back(task);
        drop(deque);
        self.queued.fetch_add(1, Ordering::SeqCst);
        self.added.fetch_add(1, Ordering::SeqCst);
        before
    }

    /// How many tasks wait in the queue of thread `id`.
    pub fn waiting(&self, id: usize) -> usize {
        match self.has_any() {
            true => self.all()[id].lock().len(),
            false => 0,
        }
    }

    pub fn has_any(&self) -> bool {
        self.queued.load(Ordering::SeqCst) > 0
    }

    pub fn added(&self) -> usize {
        self.added.load(Ordering::SeqCst)
    }

    /// Takes a task: the newest of thread `id`, or else the oldest of another. `may` is asked with
    /// the queue locked, so that it knows what happened before a task was added.
    pub fn take(&self, id: usize, may: impl Fn() -> bool) -> Option<Arc<Task>> {
        self.search(id, |deque, is_own| match (may(), is_own) {
            (false, _) => None,
            (true, true) => deque.pop_back(),
            (true, false) => deque.pop_front(),
        })
    }

    /// Takes a task that descends from another one.
    pub fn take_descendant(&self, id: usize, of: &Arc<Task>) -> Option<Arc<Task>> {
        self.search(id, |deque, _| {
            let place = deque.iter().rposition(|task| task.descends_from(of))?;
            deque.remove(place)
        })
    }

    fn search(
        &self,
        id: usize,
        mut take: impl FnMut(&mut VecDeque<Arc<Task>>, bool) -> Option<Arc<Task>>,
    ) -> Option<Arc<Task>> {
        if !self.has_any() {
            return None;
        }
        let all = self.all();
        let found = (0..all.len())
            .find_map(|more| take(&mut all[(id + more) % all.len()].lock(), more == 0))?;
        self.queued.fetch_sub(1, Ordering::SeqCst);
        Some(found)
    }
}
