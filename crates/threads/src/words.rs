//! Sleeping on words of memory, like the kernel's futexes. Locks outside this crate use it, so that
//! a user-level thread sleeps while its worker runs other threads.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::thread::wait::Wait;
use crate::worker;

/// Whether workers were ever started. It is checked first, so that programs without workers pay one
/// load.
static HAS_WORKERS: AtomicBool = AtomicBool::new(false);

/// The number of threads that sleep on words, or are about to.
static ASLEEP: AtomicUsize = AtomicUsize::new(0);

/// The sleeping threads, hashed by the addresses of their words.
static SLEEPERS: [Mutex<Vec<Sleeper>>; SHARDS] = [const { Mutex::new(Vec::new()) }; SHARDS];

/// The address of a word, and the wait of the thread that sleeps on it.
type Sleeper = (usize, Arc<Wait>);

const SHARDS: usize = 64;

pub(crate) fn note_workers() {
    HAS_WORKERS.store(true, Ordering::Relaxed);
}

/// Whether the caller is a thread of [`Workers`](crate::Workers), which shares its kernel thread
/// with other threads.
#[inline]
pub fn is_current() -> bool {
    HAS_WORKERS.load(Ordering::Relaxed) && worker::current().is_some()
}

/// The number of workers on which the caller may run; `None` if it is not a thread of
/// [`Workers`](crate::Workers).
#[inline]
pub fn workers() -> Option<u32> {
    if !HAS_WORKERS.load(Ordering::Relaxed) {
        return None;
    }
    worker::local().map(|local| local.shared.machine.processor_count())
}

/// Whether another thread of [`Workers`](crate::Workers) is ready to run on the caller's worker.
/// Returns false on kernel threads that are not workers.
#[inline]
pub fn has_others_ready() -> bool {
    HAS_WORKERS.load(Ordering::Relaxed) && worker::local().is_some_and(|local| !local.is_alone())
}

/// A number that identifies the calling thread, if it is a thread of [`Workers`](crate::Workers).
/// No other thread has this number until the caller has ended. It is larger than any kernel
/// thread's number.
#[inline]
pub fn number() -> Option<NonZeroU64> {
    if !HAS_WORKERS.load(Ordering::Relaxed) {
        return None;
    }
    NonZeroU64::new(std::ptr::from_ref(worker::current()?).addr() as u64)
}

/// Sleeps while the word is `expected`, for `limit` at most. It may return earlier. The worker runs
/// other threads meanwhile.
///
/// # Panics
/// The caller is not a thread of [`Workers`](crate::Workers).
pub fn sleep_on(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    let address = std::ptr::from_ref(word).addr();
    if let Some(thread) = worker::current() {
        // Only waits for communication use this function.
        thread.communicates.store(true, Ordering::Relaxed);
    }
    let wait = Wait::new();
    {
        let mut sleepers = shard(address).lock();
        ASLEEP.fetch_add(1, Ordering::Relaxed);
        // Either the changed word is seen here, or the thread that changed it sees the sleeper.
        fence(Ordering::SeqCst);
        if word.load(Ordering::Acquire) != expected {
            ASLEEP.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        sleepers.push((address, wait.clone()));
    }
    if let Some(limit) = limit {
        let shared = worker::with(|local| local.shared.clone());
        shared.timers.add(Instant::now() + limit, wait.clone());
    }
    wait.wait();
    if limit.is_some() {
        // The entry may still be in the list if the wait timed out.
        shard(address).lock().retain(|(_, other)| !Arc::ptr_eq(other, &wait));
    }
    ASLEEP.fetch_sub(1, Ordering::Relaxed);
}

/// Wakes at most `count` threads that sleep on a word, longest sleepers first. Returns how many
/// were woken. Call it after the word was changed.
#[inline]
pub fn wake_on(word: &AtomicU32, count: usize) -> usize {
    if !HAS_WORKERS.load(Ordering::Relaxed) {
        return 0;
    }
    fence(Ordering::SeqCst);
    if ASLEEP.load(Ordering::Relaxed) == 0 { 0 } else { wake_those_on(word, count) }
}

#[cold]
fn wake_those_on(word: &AtomicU32, count: usize) -> usize {
    let address = std::ptr::from_ref(word).addr();
    let woken: Vec<Arc<Wait>> = {
        let mut sleepers = shard(address).lock();
        let mut left = count;
        let mut wakes = |(other, _): &mut Sleeper| {
            let wakes = *other == address && left > 0;
            left -= usize::from(wakes);
            wakes
        };
        sleepers.extract_if(.., &mut wakes).map(|(_, wait)| wait).collect()
    };
    woken.iter().for_each(|wait| wait.end());
    woken.len()
}

fn shard(address: usize) -> &'static Mutex<Vec<Sleeper>> {
    // Words are aligned to four bytes, and often lie in cache lines of their own.
    &SLEEPERS[(address >> 2 ^ address >> 8) % SHARDS]
}
