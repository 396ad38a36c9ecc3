//! Two processes that copy large messages by the protocol of the shared-memory driver
//! (`driver_shm::protocol`), in simulated time.
//!
//! The shared words and the pool lie in ordinary memory. During each copy the other process may
//! act. Reading or writing the other process's memory may fail. Programs compute for a while, or
//! forever. Idle processes sleep until their doorbell rings.
//!
//! The invariants: all bytes are right, and stay right. Memory is not read after its send is
//! reported complete, nor written after its region is revoked. No announced message waits forever,
//! not even for a sender that only computes.

mod receiving;
mod sending;
mod world;

use fastrand::Rng;

use receiving::ReceiverSide;
use sending::SenderSide;
use world::CopyWorld;

/// The counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Messages whose data arrived complete.
    pub whole: u32,
    /// Of these, messages that the sender wrote into the offered buffer.
    pub written: u32,
    /// Of these, messages that were sent ahead and read by the receiver.
    pub claimed: u32,
    /// Messages that could not be copied by this protocol, and are left to packets.
    pub failed: u32,
    /// Messages that sender and receiver copied jointly.
    pub joint: u32,
    /// How often a sleeping process was woken by its doorbell.
    pub rings: u32,
}

/// The parameters that differ from run to run.
#[derive(Clone, Copy, Debug)]
pub struct CopySetting {
    /// The number of messages.
    pub messages: usize,
    /// In how many of eight cases the receiver cannot read the sender's memory.
    pub failing_reads: u8,
    /// In how many of eight cases the sender cannot write the receiver's memory.
    pub failing_writes: u8,
    /// The fate of the sender in the middle of the run.
    pub sender: ProcessFate,
}

/// The fate of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFate {
    /// It continues.
    GoesOn,
    /// Its program computes forever, and its helper polls.
    Computes,
    /// It stops doing anything.
    Stops,
}

impl CopySetting {
    /// A random setting.
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

/// After this many rounds, a message that is not done counts as waiting forever.
const ROUNDS_MAX: u32 = 100_000;

/// Runs two processes until all messages have arrived that can arrive.
///
/// # Panics
/// An invariant is violated.
pub fn run(seed: u64, setting: CopySetting) -> CopyReport {
    let mut rng = Rng::with_seed(seed);
    let world = CopyWorld::new(
        rng.fork(),
        setting,
        [Box::<SenderSide>::default(), Box::<ReceiverSide>::default()],
    );
    // In short runs the fate of the sender would hardly matter.
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
