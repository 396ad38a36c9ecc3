//! A lock between processes that survives the end of its holder.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use sys::process;

/// A lock in a word of shared memory: 0, or the process id of the holder. A lock whose holder has
/// ended is taken over; the protected data may then be half changed.
///
/// It is for short critical sections: a waiting process yields its core, and does not sleep.
#[derive(Clone, Copy, Debug)]
pub struct ProcessLock<'a>(&'a AtomicU32);

/// The number of spins before the core is yielded.
const SPINS: u32 = 100;

/// The number of yields between two checks whether the holder still exists.
const YIELDS_PER_CHECK: u32 = 1000;

impl<'a> ProcessLock<'a> {
    /// Creates the lock in this word, which is 0 before its first use.
    #[inline(always)]
    pub fn new(word: &'a AtomicU32) -> Self {
        Self(word)
    }

    /// Calls `body` while no other thread or process holds this lock. `own` is the process id of
    /// the calling process, as the other processes see it.
    #[inline(always)]
    pub fn hold<R>(&self, own: u32, body: impl FnOnce() -> R) -> R {
        if self.0.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait(own);
        }
        let result = body();
        self.0.store(0, Ordering::Release);
        result
    }

    /// Takes the lock when it is free, or when its holder has ended.
    #[cold]
    fn wait(&self, own: u32) {
        let mut turns = 0_u32;
        loop {
            let holder = self.0.load(Ordering::Relaxed);
            let is_abandoned = || {
                turns > SPINS
                    && turns.is_multiple_of(YIELDS_PER_CHECK)
                    && process::has_ended(holder as i32)
            };
            if (holder == 0 || is_abandoned())
                && self
                    .0
                    .compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            turns = turns.wrapping_add(1);
            if turns < SPINS { hint::spin_loop() } else { thread::yield_now() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command};
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;
    use crate::SharedMemory;

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn one_holds_it_after_the_other() {
        let (memory, file) = SharedMemory::create(1, 8).unwrap();
        let nonce = memory.nonce();
        // Like several processes, each thread has a mapping of its own.
        let add = |own| {
            let memory = SharedMemory::map(&file, nonce, 1, 8).unwrap();
            let counter = memory.buffer(0, 8);
            for _ in 0..10_000 {
                ProcessLock::new(memory.word(0)).hold(own, || {
                    let mut bytes = [0; 8];
                    counter.read(0, &mut bytes);
                    counter.write(0, &(u64::from_le_bytes(bytes) + 1).to_le_bytes());
                });
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| add(process::id()));
            scope.spawn(|| add(std::os::unix::process::parent_id()));
        });
        let mut bytes = [0; 8];
        memory.buffer(0, 8).read(0, &mut bytes);
        assert_eq!(u64::from_le_bytes(bytes), 20_000);
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn a_process_that_has_ended_holds_up_nobody() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let word = AtomicU32::new(child.id());
        let has_held = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let hold = || has_held.store(true, Ordering::Relaxed);
                ProcessLock::new(&word).hold(process::id(), hold);
            });
            thread::sleep(Duration::from_millis(50));
            assert!(!has_held.load(Ordering::Relaxed), "the child is still there");
            // The child may still be a zombie, as its parent need not have waited for it.
            child.kill().unwrap();
        });
        assert!(has_held.load(Ordering::Relaxed));
        assert_eq!(word.load(Ordering::Relaxed), 0);
        child.wait().unwrap();
    }
}
