//! Threads that make system calls for nonblocking operations: input and output block, and the
//! program's threads must not. Functions of the program never run here.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The largest number of threads: as many as the calls that keep a device busy.
const FILE_THREADS_MAX: usize = 4;

/// A thread that has been idle for this long ends.
const THREAD_IDLE_MAX: Duration = Duration::from_secs(5);

/// The size of their stacks, in bytes.
const STACK_BYTES: usize = 256 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// The threads of a process.
#[derive(Clone, Default)]
pub(crate) struct ThreadPool {
    shared: Arc<PoolShared>,
}

#[derive(Default)]
struct PoolShared {
    state: Mutex<PoolState>,
    /// Notified when there is a job.
    wanted: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// The thread that makes the system calls of a transfer.
#[derive(Clone)]
pub(crate) enum SystemCaller {
    /// The thread that makes progress.
    Here,
    /// Threads of the library, which ring when they are done.
    Threads(ThreadPool, Arc<dyn Fn() + Send + Sync>),
}

impl SystemCaller {
    /// Begins a job.
    pub fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> PoolTask<T> {
        match self {
            SystemCaller::Here => PoolTask { outcome: Arc::new(Mutex::new(Some(work()))) },
            SystemCaller::Threads(pool, ring) => {
                let ring = Arc::clone(ring);
                pool.begin(work, move || ring())
            }
        }
    }
}

/// The outcome of a job.
pub(crate) struct PoolTask<T> {
    outcome: Arc<Mutex<Option<T>>>,
}

impl ThreadPool {
    /// Begins a job; calls `done` when its outcome is stored.
    fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        done: impl FnOnce() + Send + 'static,
    ) -> PoolTask<T> {
        let outcome = Arc::new(Mutex::new(None));
        let place = Arc::clone(&outcome);
        self.add(Box::new(move || {
            let found = work();
            *place.lock() = Some(found);
            done();
        }));
        PoolTask { outcome }
    }

    fn add(&self, job: Job) {
        let mut state = self.shared.state.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads == FILE_THREADS_MAX {
            self.shared.wanted.notify_one();
            return;
        }
        let shared = Arc::clone(&self.shared);
        let builder = thread::Builder::new().name("combray-files".into()).stack_size(STACK_BYTES);
        let started = sys::signals::without_signals(|| builder.spawn(move || serve(&shared)));
        match started {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => {
                self.shared.wanted.notify_one();
            }
            // The system provides no thread: the caller does the job now.
            Err(_) => {
                let job = state.jobs.pop_back().expect("it was pushed above");
                drop(state);
                job();
            }
        }
    }
}

/// The main function of a thread.
fn serve(shared: &PoolShared) {
    let mut state = shared.state.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            job();
            state = shared.state.lock();
            continue;
        }
        state.idle += 1;
        let is_over = shared.wanted.wait_for(&mut state, THREAD_IDLE_MAX).timed_out();
        state.idle -= 1;
        if is_over && state.jobs.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

impl<T> PoolTask<T> {
    /// Removes and returns the outcome once it is stored.
    pub fn take(&self) -> Option<T> {
        self.outcome.lock().take()
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        write!(f, "ThreadPool({} threads, {} jobs)", state.threads, state.jobs.len())
    }
}

impl<T> fmt::Debug for PoolTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.outcome.lock().is_some() { "over" } else { "underway" };
        write!(f, "PoolTask({state})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn more_jobs_than_threads_all_end() {
        let pool = ThreadPool::default();
        let (sender, receiver) = mpsc::channel();
        let begin = |number: usize| {
            let sender = sender.clone();
            pool.begin(move || number * number, move || sender.send(()).unwrap())
        };
        let tasks: Vec<_> = (0..20).map(begin).collect();
        for _ in 0..20 {
            receiver.recv().unwrap();
        }
        for (number, task) in tasks.iter().enumerate() {
            assert_eq!(task.take(), Some(number * number));
            assert_eq!(task.take(), None);
        }
        assert!(pool.shared.state.lock().threads <= FILE_THREADS_MAX);
    }
}
