//! Two processes that copy large messages by the protocol of the driver of shared memory
//! (`driver_shm::protocol`), in simulated time.
//!
//! The words that they share and the pool lie in ordinary memory, and each copy is a moment in
//! which the other process may act. Reading or writing the other's memory may fail; programs
//! compute for a while, or for ever; processes that have nothing to do sleep until they are rung.
//! What must hold: all bytes are right, and stay so; memory is not read after its send is reported
//! to be over, nor written after its region is revoked; nothing that is announced waits for ever,
//! not even for a sender that only computes.

mod receiving;
mod sending;
mod world;

use fastrand::Rng;

use world::CopyWorld;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Messages whose data came whole.
    pub whole: u32,
    /// Of these, such that the sender wrote where they were offered.
    pub written: u32,
    /// Of these, such that were sent ahead and read by the receiver.
    pub claimed: u32,
    /// Messages that could not be copied so, and are left to packets.
    pub failed: u32,
    /// Messages that were copied jointly.
    pub joint: u32,
    /// How often a process that slept was rung.
    pub rings: u32,
}

/// What is different from run to run.
#[derive(Clone, Copy, Debug)]
pub struct CopySetting {
    /// How many messages there are.
    pub messages: usize,
    /// In how many of eight cases the receiver cannot read.
    pub failing_reads: u8,
    /// In how many of eight cases the sender cannot write.
    pub failing_writes: u8,
    /// What becomes of the sender in the middle.
    pub sender: ProcessFate,
}

/// What becomes of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFate {
    /// It goes on.
    GoesOn,
    /// Its program computes for ever, and its helper looks.
    Computes,
    /// It does nothing any more.
    Stops,
}

impl CopySetting {
    /// A setting for a seed.
    pub fn of(rng: &mut Rng) -> Self {
        let fault = |rng: &mut Rng| *rng.choice(&[0, 0, 1, 4, 8]).expect("there are some");
        let sender = match rng.u8(..6) {
            0 => ProcessFate::Computes,
            1 => ProcessFate::Stops,
            _ => ProcessFate::GoesOn,
        };
        let failing_reads = if sender == ProcessFate::GoesOn { fault(rng) } else { 0 };
        Self { messages: rng.usize(1..12), failing_reads, failing_writes: fault(rng), sender }
    }
}

/// After so many rounds what is not done waits for ever.
const ROUNDS_MAX: u32 = 100_000;

/// Runs two processes until all messages have come that can.
///
/// # Panics
/// If something does not hold.
pub fn run(seed: u64, setting: CopySetting) -> CopyReport {
    let mut rng = Rng::with_seed(seed);
    let world = CopyWorld::new(rng.fork(), setting);
    // Short runs hardly meet the end of the sender.
    let fatal_round = rng.u32(..200);
    for round in 0..ROUNDS_MAX {
        if round == fatal_round {
            world.decide_fate();
        }
        world.pass_time();
        match rng.u8(..8) {
            0 => world.change_programs(),
            1..4 => world.step_sender(),
            4..7 => world.step_receiver(),
            _ => world.send_next(),
        }
        if world.is_over() {
            return world.check();
        }
    }
    panic!("seed {seed}: something waits for ever, with {setting:?}: {}", world.describe());
}
