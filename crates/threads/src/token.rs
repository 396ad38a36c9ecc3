//! Parking: a thread waits until it has a token, which others give it.
//!
//! Two bits. TOKEN: somebody gave one since the thread took the last. PARKED: the thread has left
//! its stack, and whoever gives the first token then makes it ready, once.

use crate::primitive::{AtomicU8, Ordering};

const TOKEN: u8 = 1;
const PARKED: u8 = 2;

/// The token of one thread. Written by the thread (`take`), by the worker that just ran it
/// (`park`), and by anybody (`give`); each pairs with the others through the one word.
#[derive(Debug)]
pub(crate) struct Token {
    state: AtomicU8,
}

impl Token {
    pub fn new() -> Self {
        Self { state: AtomicU8::new(0) }
    }

    /// Takes the token if there is one; what its giver wrote before is visible then. Also what a
    /// thread does first when it runs again.
    pub fn take(&self) -> bool {
        self.state.swap(0, Ordering::AcqRel) & TOKEN != 0
    }

    /// The thread has left its stack and waits. False: it has a token already, and must run.
    pub fn park(&self) -> bool {
        self.state.compare_exchange(0, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives the token. True: the caller must make the thread ready.
    #[must_use]
    pub fn give(&self) -> bool {
        self.state.fetch_or(TOKEN, Ordering::AcqRel) == PARKED
    }
}

/// All interleavings: `RUSTFLAGS='--cfg loom' cargo test -p threads --lib --release models`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// A thread waits for a flag that two others raise and give tokens for: it is made ready
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
                    // What a worker does: it runs the thread when it was made ready.
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
