//! Idle workers that sleep, and the protocol against lost wake-ups.
//!
//! A worker counts itself as a sleeper, then checks all queues once more, then sleeps. A thread
//! that adds to a queue adds first and reads the count of sleepers afterwards. Each of them has a
//! fence between its two steps, so at least one of them sees the other.

use crate::primitive::{AtomicUsize, Ordering, fence};

#[derive(Debug)]
pub(crate) struct Sleepers {
    count: AtomicUsize,
}

impl Sleepers {
    pub fn new() -> Self {
        Self { count: AtomicUsize::new(0) }
    }

    /// Whether any worker sleeps, or is about to sleep and may not have seen what the caller added
    /// before.
    #[inline]
    pub fn any(&self) -> bool {
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether any worker sleeps, without a fence. It may miss a worker that falls asleep at this
    /// moment.
    #[inline]
    pub fn were_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Counts the caller as a sleeper, calls `sleep` if `is_empty` still holds, and removes it from
    /// the count.
    pub fn sleep(&self, is_empty: impl Fn() -> bool, sleep: impl FnOnce()) {
        self.count.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if is_empty() {
            sleep();
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::queue::ReadyQueue;
    use loom::sync::Arc;
    use loom::thread;

    /// One thread adds to a queue while the other goes to sleep: either it is woken, or it does not
    /// sleep.
    #[test]
    fn nobody_sleeps_while_something_is_ready() {
        loom::model(|| {
            let queue = Arc::new(ReadyQueue::new());
            let sleepers = Arc::new(Sleepers::new());
            let woken = Arc::new(AtomicUsize::new(0));
            let adder = {
                let (queue, sleepers, woken) = (queue.clone(), sleepers.clone(), woken.clone());
                thread::spawn(move || {
                    queue.push(7);
                    if sleepers.any() {
                        woken.store(1, Ordering::SeqCst);
                    }
                })
            };
            sleepers.sleep(
                || queue.len() == 0,
                || {
                    while woken.load(Ordering::SeqCst) == 0 {
                        thread::yield_now();
                    }
                },
            );
            assert_eq!(queue.pop(), Some(7));
            adder.join().unwrap();
        });
    }

    /// Two threads take from a queue while a third adds: each entry is taken once.
    #[test]
    fn each_entry_is_taken_once() {
        loom::model(|| {
            let queue = Arc::new(ReadyQueue::new());
            queue.push(1);
            let other = {
                let queue = queue.clone();
                thread::spawn(move || queue.take(|entry| *entry == 1).len())
            };
            let own = usize::from(queue.exchange(2) == 1);
            let other = other.join().unwrap();
            assert_eq!(own + other, 1);
        });
    }
}
