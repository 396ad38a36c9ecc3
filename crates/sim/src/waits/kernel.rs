//! A simulated kernel in virtual time: threads that are interleaved at each step, futex words, a
//! clock.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fastrand::Rng;
use generator::{Generator, Gn};
use progress::entry_lock::Threads;
use progress::waiting::{SLEEP_MAX, WaitingSystem};

use super::Waits;

/// The kernel of the world that runs on the calling thread of the test.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Virtual;

/// The threads of the world.
#[derive(Default)]
pub(super) struct Machine {
    threads: Vec<Generator<'static, (), ()>>,
}

/// The state of a thread in the simulated kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadActivity {
    /// It runs, or waits for a core.
    Runs,
    /// The program computes.
    Computes,
    /// It sleeps on this word until it is woken.
    SleepsOn(usize),
    /// It sleeps on this word with a timeout.
    ShortSleeps(usize),
    /// It has ended.
    Ended,
}

/// The state of all threads.
struct ThreadTable {
    rng: Rng,
    now: u64,
    /// When each thread continues, and in which turn. An entry is outdated if its thread was woken,
    /// and so has another turn, in the meantime.
    agenda: BinaryHeap<Reverse<(u64, u64, usize, u64)>>,
    made: u64,
    threads: Vec<SimulatedThread>,
    current: usize,
    /// A process for which something has arrived, to be checked.
    suspect: Option<usize>,
    times: KernelTimes,
    done: Waits,
}

/// The kernel thread of a simulated thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelThread {
    Own,
    /// Other threads of the process share the kernel thread.
    Shared,
}

struct SimulatedThread {
    process: usize,
    kernel_thread: KernelThread,
    activity: ThreadActivity,
    turn: u64,
}

/// The durations in this world, in nanoseconds.
#[derive(Clone, Copy)]
struct KernelTimes {
    step: u64,
    /// One step in this many loses the core, for at most `loss_max`.
    loss: u32,
    loss_max: u64,
    wake_max: u64,
}

impl KernelTimes {
    fn random(rng: &mut Rng) -> Self {
        Self {
            step: [1_000, 20_000, 50_000, 200_000][rng.usize(..4)],
            loss: [10, 100, 10_000][rng.usize(..3)],
            loss_max: [10_000, 1_000_000, 50_000_000][rng.usize(..3)],
            wake_max: [1_000, 50_000, 20_000_000][rng.usize(..3)],
        }
    }
}

thread_local! {
    static PLAN: RefCell<Option<ThreadTable>> = const { RefCell::new(None) };
}

/// A world that has not ended after this many steps counts as endless.
const STEPS_MAX: u64 = 20_000_000;

/// The stack size of a thread, in words.
const STACK_WORDS: usize = 16 << 10;

fn plan<T>(use_it: impl FnOnce(&mut ThreadTable) -> T) -> T {
    PLAN.with_borrow_mut(|plan| use_it(plan.as_mut().expect("a world has begun")))
}

/// Begins a world.
pub(super) fn begin(mut rng: Rng) {
    let times = KernelTimes::random(&mut rng);
    let plan = ThreadTable {
        rng,
        now: 0,
        agenda: BinaryHeap::new(),
        made: 0,
        threads: Vec::new(),
        current: 0,
        suspect: None,
        times,
        done: Waits::default(),
    };
    PLAN.set(Some(plan));
}

/// Ends the world, and returns its counters.
pub(super) fn end() -> Waits {
    plan(|plan| Waits { nanoseconds: plan.now, ..plan.done })
}

/// The states of the threads of a process.
pub(super) fn doings(process: usize) -> Vec<ThreadActivity> {
    plan(|plan| {
        let own = plan.threads.iter().filter(|thread| thread.process == process);
        own.map(|thread| thread.activity).collect()
    })
}

/// Marks a process for which something has arrived, and which must not sleep now.
pub(super) fn suspect(process: usize) {
    plan(|plan| plan.suspect = Some(process));
}

/// The program computes for this many nanoseconds.
pub(super) fn compute(nanoseconds: u64) {
    plan(|plan| {
        let current = plan.current;
        plan.threads[current].activity = ThreadActivity::Computes;
        let time = plan.now + nanoseconds;
        plan.call(current, time);
    });
    leave();
}

impl ThreadTable {
    fn call(&mut self, thread: usize, time: u64) {
        self.made += 1;
        let turn = self.threads[thread].turn;
        self.agenda.push(Reverse((time, self.made, thread, turn)));
    }

    /// The duration of a step, of which `own` is the thread's own work.
    fn step(&mut self, own: u64) -> u64 {
        let KernelTimes { loss, loss_max, .. } = self.times;
        let lost = if self.rng.u32(..loss) == 0 {
            self.done.losses += 1;
            within(&mut self.rng, loss_max)
        } else {
            0
        };
        1 + self.rng.u64(own / 2..=own) + lost
    }

    fn wake(&mut self, word: usize, count: usize) {
        let sleeps = |thread: &SimulatedThread| matches!(thread.activity, ThreadActivity::SleepsOn(on) | ThreadActivity::ShortSleeps(on) if on == word);
        let all: Vec<_> = (0..self.threads.len()).filter(|&i| sleeps(&self.threads[i])).collect();
        for index in all.into_iter().take(count) {
            let time = self.now + within(&mut self.rng, self.times.wake_max);
            self.threads[index].turn += 1;
            self.threads[index].activity = ThreadActivity::Runs;
            self.call(index, time);
            self.done.woken += 1;
        }
    }
}

/// A random duration. Each order of magnitude is equally likely.
pub(super) fn within(rng: &mut Rng, longest: u64) -> u64 {
    let bits = rng.u32(0..=u64::BITS - longest.leading_zeros());
    rng.u64(..=longest.min((1 << bits) - 1))
}

/// Suspends the calling thread until its time comes.
fn leave() {
    #[expect(
        deprecated,
        reason = "a scope would have to be handed through the library's own code"
    )]
    generator::yield_with(());
    plan(|plan| {
        let current = plan.current;
        plan.threads[current].activity = ThreadActivity::Runs;
    });
}

/// A step of the calling thread of about this many nanoseconds. Other threads may run before it
/// ends.
pub(super) fn pass(own: u64) {
    let stays = plan(|plan| {
        let time = plan.now + plan.step(own);
        let stays = plan.agenda.peek().is_none_or(|Reverse((next, ..))| *next > time);
        if stays {
            plan.now = time;
        } else {
            plan.call(plan.current, time);
        }
        stays
    });
    if !stays {
        leave();
    }
}

/// The time that a poll takes.
pub(super) fn pass_poll() {
    let step = plan(|plan| plan.times.step);
    pass(step);
}

/// The duration of a system call, in nanoseconds.
const CALL_NS: u64 = 500;

fn sleep_on(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    pass(CALL_NS);
    if word.load(Ordering::SeqCst) != expected {
        return;
    }
    plan(|plan| {
        let (current, address) = (plan.current, word.as_ptr().addr());
        match limit {
            // The safety limit against lost wake-ups must not count as a wake-up here.
            None | Some(SLEEP_MAX) => {
                plan.threads[current].activity = ThreadActivity::SleepsOn(address)
            }
            Some(limit) => {
                plan.threads[current].activity = ThreadActivity::ShortSleeps(address);
                let time = plan.now + limit.as_nanos() as u64 + plan.step(CALL_NS);
                plan.call(current, time);
            }
        }
    });
    leave();
}

/// Wakes this many threads that sleep on a word.
fn wake(word: &AtomicU32, count: usize) {
    pass(CALL_NS);
    plan(|plan| plan.wake(word.as_ptr().addr(), count));
    pass(CALL_NS);
}

impl Threads for Virtual {
    fn pass_barrier(&self) {
        pass(CALL_NS);
    }

    fn sleep(&self, word: &AtomicU32, expected: u32) {
        sleep_on(word, expected, None);
    }

    fn wake(&self, word: &AtomicU32) {
        wake(word, usize::MAX);
    }

    fn wake_one(&self, word: &AtomicU32) {
        wake(word, 1);
    }

    fn pass_core(&self) {
        pass(CALL_NS);
    }

    fn now(&self) -> u64 {
        plan(|plan| plan.now)
    }
}

impl WaitingSystem for Virtual {
    fn spin(&self) {
        pass(1);
    }

    fn sleep_at_most(&self, word: &AtomicU32, expected: u32, limit: Duration) {
        sleep_on(word, expected, Some(limit));
    }

    fn pause(&self, duration: Duration) {
        pass(duration.as_nanos() as u64);
    }

    fn shares_kernel_thread(&self) -> bool {
        plan(|plan| plan.threads[plan.current].kernel_thread == KernelThread::Shared)
    }

    fn thread_number(&self) -> u64 {
        plan(|plan| plan.current as u64 + 1)
    }
}

impl Machine {
    /// Adds a thread of a process, which begins with the world.
    pub(super) fn start(
        &mut self,
        process: usize,
        kernel_thread: KernelThread,
        run: impl FnOnce() + Send + 'static,
    ) {
        self.threads.push(Gn::new_opt(STACK_WORDS, run));
        plan(|plan| {
            let activity = ThreadActivity::Runs;
            plan.threads.push(SimulatedThread { process, kernel_thread, activity, turn: 0 });
            let time = plan.now + plan.step(CALL_NS);
            plan.call(plan.threads.len() - 1, time);
        });
    }

    /// Runs all threads until they have ended. `check` is called for each process of which a thread
    /// goes to sleep, and for each process passed to [`suspect`].
    pub(super) fn run(
        &mut self,
        check: &mut dyn FnMut(usize) -> Result<(), String>,
    ) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            let Some((thread, process)) = plan(ThreadTable::next) else { return Self::all_ended() };
            self.threads[thread].resume();
            if self.threads[thread].is_done() {
                plan(|plan| plan.threads[thread].activity = ThreadActivity::Ended);
            }
            let suspects = plan(|plan| {
                let rests = plan.threads[thread].activity != ThreadActivity::Runs;
                [rests.then_some(process), plan.suspect.take()]
            });
            for process in suspects.into_iter().flatten() {
                check(process)
                    .map_err(|what| format!("at {} ns: {what}", plan(|plan| plan.now)))?;
            }
        }
        Err("the world does not end".into())
    }

    fn all_ended() -> Result<(), String> {
        plan(|plan| {
            match plan.threads.iter().position(|thread| thread.activity != ThreadActivity::Ended) {
                None => Ok(()),
                Some(index) => {
                    let process = plan.threads[index].process;
                    Err(format!("thread {index}, of process {process}, sleeps for ever"))
                }
            }
        })
    }
}

impl ThreadTable {
    /// The thread that continues next, and its process.
    fn next(&mut self) -> Option<(usize, usize)> {
        while let Some(Reverse((time, _, thread, turn))) = self.agenda.pop() {
            if self.threads[thread].turn == turn {
                self.threads[thread].turn += 1;
                (self.now, self.current) = (time, thread);
                return Some((thread, self.threads[thread].process));
            }
        }
        None
    }
}
