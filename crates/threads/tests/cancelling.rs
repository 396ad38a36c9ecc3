//! Tests of the cancellation of threads.

use std::sync::Arc;
use std::time::Duration;

use threads::sync::{Condition, Mutex, Semaphore};
use threads::{sleep, spawn, yield_now};

mod common;
use common::workers;

/// Each cancellable wait ends when the thread is cancelled, before the wait or in it; it reports
/// one request once.
#[test]
fn a_thread_that_is_asked_to_end_is_told_in_one_wait() {
    let never = Arc::new(Semaphore::new(0));
    let waits: [fn(&Semaphore) -> bool; 4] = [
        |never| never.acquire_or_cancel().is_err(),
        |_| threads::sleep_or_cancel(Duration::from_secs(1000)).is_err(),
        |_| {
            let (mutex, condition) = (Mutex::new(()), Condition::new());
            let (guard, waited) = condition.wait_or_cancel(mutex.lock());
            assert!(mutex.try_lock().is_none());
            drop(guard);
            waited.is_err()
        },
        |_| {
            let other = spawn(|| sleep(Duration::from_millis(30)));
            match other.join_or_cancel() {
                Ok(_) => false,
                Err(other) => other.join().is_ok(),
            }
        },
    ];
    for count in [1, 2] {
        for wait in waits {
            for early in [true, false] {
                let never = never.clone();
                let reported = workers(count).run(move || {
                    let again = Arc::new(Semaphore::new(0));
                    let permits = again.clone();
                    let thread = spawn(move || {
                        let reported = wait(&never);
                        // The request is not reported a second time.
                        permits.acquire_or_cancel().is_ok() && reported
                    });
                    if !early {
                        sleep(Duration::from_millis(3));
                    }
                    thread.cancel();
                    sleep(Duration::from_millis(1));
                    again.release();
                    thread.join().unwrap()
                });
                assert!(reported, "{count} {early}");
            }
        }
    }
}

/// A cancelled thread has taken no permit and no signal, whatever the interleaving.
#[test]
fn those_who_are_asked_to_end_take_nothing_with_them() {
    for count in [1, 2, 4] {
        workers(count).run(|| {
            const THREADS: usize = 60;
            for round in 0..50 {
                let permits = Arc::new(Semaphore::new(0));
                let line = Arc::new((Mutex::new(0_usize), Condition::new()));
                let waiting: Vec<_> = (0..THREADS)
                    .map(|_| {
                        let (permits, line) = (permits.clone(), line.clone());
                        spawn(move || {
                            if permits.acquire_or_cancel().is_err() {
                                return false;
                            }
                            let mut signals = line.0.lock();
                            while *signals == 0 {
                                signals = line.1.wait(signals);
                            }
                            *signals -= 1;
                            true
                        })
                    })
                    .collect();
                (0..round % 3).for_each(|_| yield_now());
                for (number, thread) in waiting.iter().enumerate() {
                    if (number + round) % 2 == 0 { permits.release() } else { thread.cancel() }
                }
                // No thread still waits for the signal on behalf of a cancelled thread.
                (0..THREADS).for_each(|_| permits.release());
                *line.0.lock() += THREADS;
                line.1.notify_all();
                let went_on = waiting.into_iter().map(|t| t.join().unwrap());
                let went_on = went_on.filter(|&went_on| went_on).count();
                let mut left = 0;
                while permits.try_acquire() {
                    left += 1;
                }
                assert_eq!(went_on + left, THREADS / 2 + THREADS);
                assert_eq!(*line.0.lock() + went_on, THREADS);
            }
        });
    }
}
