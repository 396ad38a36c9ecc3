//! Two threads on two cores: one measures while the other prepares.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memory::accesses::{self, Line};
use sys::cores;

/// The blocks of memory that both threads use, in turn.
pub type PairBlocks = Vec<Vec<Line>>;

/// The measuring thread's handle on the pair.
pub struct ThreadPair<'a> {
    shared: &'a PairState,
    /// The cost of reading the clock twice and waiting for one's own stores.
    overhead_ns: f64,
    /// If the other thread does not get its core for this long, that is an error.
    patience: Duration,
}

#[derive(Default)]
struct PairState {
    blocks: Mutex<PairBlocks>,
    /// The task of the other thread and its block; [`IDLE`] when the task is done.
    task: OwnLine,
    call: OwnLine,
    answer: OwnLine,
}

/// A word in a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct OwnLine(AtomicU32);

/// The initial value: as a floating-point number it is not slower than others.
pub const ONE: u64 = 1.0_f64.to_bits();

const IDLE: u32 = 0;
const LOAD: u32 = 1;
const STORE: u32 = 2;
const CROSS: u32 = 3;
const NOTHING: u32 = 4;
const END: u32 = 5;

/// How many round trips of a line are made to measure a crossing.
const CROSSINGS: u32 = 24;

/// How long the other thread is usually awaited.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures with two threads on these cores.
///
/// # Errors
/// A core cannot be used, or `measure` failed.
pub fn with_pair<T: Send>(
    cores: [usize; 2],
    measure: impl FnOnce(&ThreadPair<'_>) -> Result<T, String> + Send,
) -> Result<T, String> {
    with_pair_within(cores, PATIENCE, measure)
}

/// Like [`with_pair`]; the other thread is awaited for so long each time.
///
/// # Errors
/// Those of [`with_pair`].
pub fn with_pair_within<T: Send>(
    [own, other]: [usize; 2],
    patience: Duration,
    measure: impl FnOnce(&ThreadPair<'_>) -> Result<T, String> + Send,
) -> Result<T, String> {
    let bind =
        |core| cores::bind(core).map_err(|cause| format!("core {core} cannot be used: {cause}"));
    let shared = PairState::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let bound = bind(other);
            shared.serve();
            bound
        });
        let measuring = scope.spawn(|| {
            let _end = EndOnDrop(&shared);
            bind(own)?;
            let mut pair = ThreadPair { shared: &shared, overhead_ns: 0.0, patience };
            pair.await_start()?;
            let empty = (0..200).map(|_| pair.time(&mut |_| accesses::store(&mut [], 0)));
            pair.overhead_ns = empty.fold(f64::MAX, f64::min);
            measure(&pair)
        });
        measuring.join().unwrap_or_else(|_| Err("a measurement was interrupted".to_owned()))
    })
}

/// Ends the other thread, even if the measuring thread panics.
struct EndOnDrop<'a>(&'a PairState);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.task.0.store(END, Ordering::Release);
    }
}

impl PairState {
    fn blocks(&self) -> MutexGuard<'_, PairBlocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        loop {
            let task = self.task.0.load(Ordering::Acquire);
            let block = (task >> 8) as usize;
            match task & 0xff {
                IDLE => {
                    spin_loop();
                    continue;
                }
                LOAD => accesses::load(&self.blocks()[block]),
                STORE => accesses::store(&mut self.blocks()[block], ONE),
                CROSS => {
                    for round in 1..=CROSSINGS {
                        // The measuring thread may have given up.
                        while self.call.0.load(Ordering::Acquire) != round
                            && self.task.0.load(Ordering::Relaxed) != END
                        {
                            spin_loop();
                        }
                        self.answer.0.store(round, Ordering::Release);
                    }
                }
                NOTHING => {}
                _ => return,
            }
            // In the meantime the task can only have changed to the end.
            _ = self.task.0.compare_exchange(task, IDLE, Ordering::Release, Ordering::Relaxed);
        }
    }
}

impl ThreadPair<'_> {
    /// The blocks, for use by the measuring thread only.
    pub fn blocks(&self) -> MutexGuard<'_, PairBlocks> {
        self.shared.blocks()
    }

    /// Has the other thread read a block.
    pub fn other_loads(&self, block: usize) -> Result<(), String> {
        self.order(LOAD | (block as u32) << 8)
    }

    /// Has the other thread write a block.
    pub fn other_stores(&self, block: usize) -> Result<(), String> {
        self.order(STORE | (block as u32) << 8)
    }

    fn order(&self, task: u32) -> Result<(), String> {
        self.shared.task.0.store(task, Ordering::Release);
        self.await_other()
    }

    fn await_other(&self) -> Result<(), String> {
        self.await_change(|| self.shared.task.0.load(Ordering::Acquire) == IDLE)
    }

    /// Waits until the other thread has made a round trip, so that it is known to run.
    fn await_start(&self) -> Result<(), String> {
        self.order(NOTHING)
    }

    fn await_change(&self, has_come: impl Fn() -> bool) -> Result<(), String> {
        let (mut deadline, mut polls) = (None, 0_u32);
        while !has_come() {
            spin_loop();
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(1 << 10)
                && Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + self.patience)
            {
                return Err("other programs keep the cores busy".to_owned());
            }
        }
        Ok(())
    }

    /// Measures how long a cache line currently takes from one core to the other, in nanoseconds.
    pub fn crossing_ns(&self) -> Result<f64, String> {
        let PairState { task, call, answer, .. } = self.shared;
        for word in [call, answer] {
            word.0.store(0, Ordering::Relaxed);
        }
        task.0.store(CROSS, Ordering::Release);
        let turn = |round| {
            call.0.store(round, Ordering::Release);
            self.await_change(|| answer.0.load(Ordering::Acquire) == round)
        };
        // The first round trips wake the other thread.
        let waking = CROSSINGS / 3;
        (1..=waking).try_for_each(turn)?;
        let begin = Instant::now();
        (waking + 1..=CROSSINGS).try_for_each(turn)?;
        let time = begin.elapsed();
        self.await_other()?;
        Ok(time.as_nanos() as f64 / f64::from(2 * (CROSSINGS - waking)))
    }

    /// Measures how long an operation on the blocks takes until its stores are visible, in
    /// nanoseconds.
    pub fn time(&self, what: &mut dyn FnMut(&mut PairBlocks)) -> f64 {
        let mut blocks = self.blocks();
        let begin = Instant::now();
        what(&mut blocks);
        let time = begin.elapsed();
        (time.as_nanos() as f64 - self.overhead_ns).max(0.1)
    }
}
