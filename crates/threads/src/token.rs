//! Parking: a thread waits until it has a token, which another thread gives it.
//!
//! The state has two bits. TOKEN: a token was given since the thread took the last. PARKED: the
//! thread has left its stack. The thread that gives the first token to a parked thread makes it
//! ready, once.

use crate::primitive::{AtomicU8, Ordering};

const TOKEN: u8 = 1;
const PARKED: u8 = 2;

/// The token of one thread. It is written by the thread (`take`), by the worker that just ran it
/// (`park`), and by any thread (`give`). All synchronise through this one word.
#[derive(Debug)]
pub(crate) struct Token {
    state: AtomicU8,
}

impl Token {
    pub fn new() -> Self {
        Self { state: AtomicU8::new(0) }
    }

    /// Takes the token if there is one, and returns whether there was. What the giver wrote before
    /// is visible then. A thread calls this first when it runs again.
    pub fn take(&self) -> bool {
        self.state.swap(0, Ordering::AcqRel) & TOKEN != 0
    }

    /// Records that the thread has left its stack and waits. Returns false if the thread has a
    /// token already and must run.
    pub fn park(&self) -> bool {
        self.state.compare_exchange(0, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives the token. Returns true if the caller must make the thread ready.
    #[must_use]
    pub fn give(&self) -> bool {
        self.state.fetch_or(TOKEN, Ordering::AcqRel) == PARKED
    }
}

/// Explores all interleavings: `RUSTFLAGS='--cfg loom' cargo test -p threads --lib --release
/// models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// A thread waits for a flag that two others raise and give tokens for. It is made ready
    /// exactly as often as it parked, and always sees the flag in the end.
    #[test]
    fn a_parked_thread_is_made_ready_once() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let token = Arc::new(Token::new());
            let flags = Arc::new(AtomicUsize::new(0));
            let ready = Arc::new(AtomicUsize::new(0));
            let givers: Vec<_> = (0..2)
                .map(|_| {
                    let (token, flags, ready) = (token.clone(), flags.clone(), ready.clone());
                    thread::spawn(move || {
                        flags.fetch_add(1, Ordering::Relaxed);
                        if token.give() {
                            ready.fetch_add(1, Ordering::AcqRel);
                        }
                    })
                })
                .collect();
            let mut parked = 0;
            while flags.load(Ordering::Relaxed) < 2 {
                if token.take() {
                    continue;
                }
                if token.park() {
                    parked += 1;
                    // As a worker does: run the thread once it was made ready.
                    while ready.load(Ordering::Acquire) < parked {
                        thread::yield_now();
                    }
                }
            }
            givers.into_iter().for_each(|giver| giver.join().unwrap());
            assert_eq!(ready.load(Ordering::Acquire), parked);
        });
    }
}
