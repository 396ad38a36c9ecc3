//! Compares one region for all receivers with one region for each: how long it takes until 1 to 15
//! other processes have copied 4 KiB to 4 MiB from one process.
//!
//!     cargo run --release -p driver-shm --example region_broadcast [-- --json]
//!
//! The owner declares its buffer, once or anew for each receiver, distributes tokens in shared
//! memory, waits until all receivers have copied, and revokes. Both variants alternate; the times
//! are medians. The first and last bytes of every copy are checked. Processes are bound to the
//! allowed cores in turn.

use std::env;
use std::error::Error;
use std::process::{Child, Command};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base::{GateId, RegionToken};
use driver::{Driver, RegionAccess, Regions, Settings};
use driver_shm::{Shm, open_memory, share_memory};
use memory::{Buffer, SharedMemory};
use sys::cores;

type Outcome<T> = Result<T, Box<dyn Error>>;

const PROCESSES: [u32; 4] = [2, 4, 8, 16];
const SIZES: [usize; 11] = {
    let mut sizes = [4 << 10; 11];
    let mut index = 0;
    while index < sizes.len() {
        sizes[index] <<= index;
        index += 1;
    }
    sizes
};
const LARGEST: usize = SIZES[SIZES.len() - 1];

/// Words of shared memory: the size of this turn, the words for all receivers, then the words of
/// each receiver.
const SIZE: usize = 0;
const FOR_ALL: usize = 16;
const WORDS_EACH: usize = 16;
/// The words for all receivers, or for one: the last turn that is ready, a token, the last turn
/// that is done.
const READY: usize = 0;
const TOKEN: usize = 1;
const DONE: usize = 5;
const WORDS: usize = FOR_ALL + WORDS_EACH * 16;
/// The turn number that ends the receivers.
const END: u32 = u32::MAX;

const TIMEOUT: Duration = Duration::from_secs(20);
const BATCHES: usize = 9;
const BATCH: Duration = Duration::from_millis(3);

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", gate, core, oversubscribed, owner, shared] => {
            cores::bind(core.parse()?)?;
            receive(gate.parse()?, oversubscribed.parse()?, owner.to_owned(), shared)
        }
        [] => own(false),
        ["--json"] => own(true),
        _ => Err("usage: region_broadcast [--json]".into()),
    }
}

/// Waits until `is_there` returns true, or fails when there is no progress for long. Yields the
/// core from time to time if other processes of this run share it.
fn wait(oversubscribed: bool, mut is_there: impl FnMut() -> bool) -> Outcome<()> {
    let (mut polls, start) = (0_u32, Instant::now());
    while !is_there() {
        polls += 1;
        if !polls.is_multiple_of(200) {
            continue;
        }
        if start.elapsed() > TIMEOUT {
            return Err("another process of this measurement is gone or stuck".into());
        }
        if oversubscribed {
            cores::yield_now();
        }
    }
    Ok(())
}

fn token_at(shared: &SharedMemory, at: usize) -> RegionToken {
    let mut bytes = [0; RegionToken::BYTES];
    for (index, four) in bytes.chunks_exact_mut(4).enumerate() {
        let word = shared.word(at + TOKEN + index).load(Ordering::Relaxed);
        four.copy_from_slice(&word.to_le_bytes());
    }
    RegionToken::from_bytes(bytes)
}

fn receive(gate: u32, oversubscribed: bool, owner: String, shared: &str) -> Outcome<()> {
    let settings = Settings { single_copy: true, ..Settings::default() };
    let mut shm = Shm::create(GateId(gate), &settings, Box::new(move |_| Ok(owner.clone())))?;
    if !shm.connect(GateId(0))?.fetches {
        return Err("the system does not let this process read its parent's memory".into());
    }
    let shared = open_memory(shared, WORDS, 0)?;
    let into = Buffer::zeroed(LARGEST);
    let mine = FOR_ALL + WORDS_EACH * gate as usize;
    let mut last = 0;
    loop {
        let mut at = FOR_ALL;
        wait(oversubscribed, || {
            let is_new = |at: usize| shared.word(at + READY).load(Ordering::Acquire) > last;
            at = if is_new(mine) { mine } else { FOR_ALL };
            is_new(at)
        })?;
        last = shared.word(at + READY).load(Ordering::Acquire);
        if last == END {
            return Ok(());
        }
        let size = shared.word(SIZE).load(Ordering::Relaxed) as usize;
        shm.read_region(GateId(0), token_at(&shared, at), 0, size, &into, 0)?;
        for place in [0, size - 4] {
            let mut stamp = [0; 4];
            into.read(place, &mut stamp);
            if u32::from_le_bytes(stamp) != last {
                return Err(format!("wrong data in turn {last}, at byte {place} of {size}").into());
            }
        }
        shared.word(mine + DONE).store(last, Ordering::Release);
    }
}

struct Owner {
    shm: Shm,
    shared: Rc<SharedMemory>,
    memory: Buffer,
    receivers: Vec<Child>,
    oversubscribed: bool,
    turn: u32,
}

impl Owner {
    fn new(processes: u32, allowed: &[usize]) -> Outcome<(Self, driver_shm::Invitation)> {
        let none = Box::new(|_| Err(driver::DriverError { message: "no cards here".into() }));
        let settings = Settings { single_copy: true, ..Settings::default() };
        let shm = Shm::create(GateId(0), &settings, none)?;
        let (shared, invitation) = share_memory(WORDS, 0)?;
        let program = env::current_exe()?;
        let oversubscribed = processes as usize > allowed.len();
        let receivers = (1..processes)
            .map(|gate| {
                let cards = [shm.card(), invitation.card.clone()];
                let core = allowed[gate as usize % allowed.len()];
                let words =
                    ["receive", &gate.to_string(), &core.to_string(), &oversubscribed.to_string()];
                Command::new(&program).args(words).args(cards).spawn()
            })
            .collect::<Result<_, _>>()?;
        let memory = Buffer::zeroed(LARGEST);
        Ok((Self { shm, shared, memory, receivers, oversubscribed, turn: 0 }, invitation))
    }

    /// Gives the region to the receiver `gate`, or (0) to all receivers.
    fn give(&self, gate: usize, token: RegionToken) {
        let at = FOR_ALL + WORDS_EACH * gate;
        for (index, four) in token.to_bytes().chunks_exact(4).enumerate() {
            let word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            self.shared.word(at + TOKEN + index).store(word, Ordering::Relaxed);
        }
        self.shared.word(at + READY).store(self.turn, Ordering::Release);
    }

    fn broadcast(&mut self, size: usize, for_each: bool) -> Outcome<()> {
        self.turn += 1;
        let from = self.memory.contiguous_part(0, size);
        for place in [0, size - 4] {
            from.write(place, &self.turn.to_le_bytes());
        }
        self.shared.word(SIZE).store(size as u32, Ordering::Relaxed);
        let gates = if for_each { 1..=self.receivers.len() } else { 0..=0 };
        let mut regions = Vec::with_capacity(self.receivers.len());
        for gate in gates {
            let region = self.shm.declare(&from, RegionAccess::Read).ok_or("no region is free")?;
            self.give(gate, region);
            regions.push(region);
        }
        for gate in 1..=self.receivers.len() {
            let done: &AtomicU32 = self.shared.word(FOR_ALL + WORDS_EACH * gate + DONE);
            wait(self.oversubscribed, || done.load(Ordering::Acquire) == self.turn)?;
        }
        for region in regions {
            self.shm.revoke(region)?;
        }
        Ok(())
    }

    /// Returns the median time of one broadcast in microseconds: with one region, and with one
    /// region for each receiver.
    fn measure(&mut self, size: usize) -> Outcome<[f64; 2]> {
        let mut times = [Vec::new(), Vec::new()];
        for batch in 0..=BATCHES {
            for (for_each, times) in [false, true].into_iter().zip(&mut times) {
                let (start, mut count) = (Instant::now(), 0);
                while count < 3 || start.elapsed() < BATCH {
                    self.broadcast(size, for_each)?;
                    count += 1;
                }
                // The first batch is the warm-up.
                if batch > 0 {
                    times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(count));
                }
            }
        }
        Ok(times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        }))
    }

    fn end(mut self) -> Outcome<()> {
        self.shared.word(FOR_ALL + READY).store(END, Ordering::Release);
        for receiver in &mut self.receivers {
            if !receiver.wait()?.success() {
                return Err("a receiver failed".into());
            }
        }
        Ok(())
    }
}

fn own(json: bool) -> Outcome<()> {
    let allowed = cores::allowed();
    cores::bind(allowed[0])?;
    if !json {
        println!("processes       bytes      one region   one for each   one / each");
    }
    for processes in PROCESSES {
        let (mut owner, _invitation) = Owner::new(processes, &allowed)?;
        for size in SIZES {
            let [once, each] = owner.measure(size)?;
            if json {
                println!(
                    "{{\"record\":\"region\",\"processes\":{processes},\"bytes\":{size},\
                     \"once_us\":{once:.3},\"each_us\":{each:.3}}}"
                );
            } else {
                let ratio = once / each;
                println!("{processes:9} {size:11} {once:12.2} µs {each:11.2} µs {ratio:12.2}");
            }
        }
        owner.end()?;
    }
    Ok(())
}
