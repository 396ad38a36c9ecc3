//! The slot of the calling process.

use std::fs::{self, File, OpenOptions};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use base::variables::{LENDING, LOCAL_RANK, LOCAL_SIZE};
use memory::SharedMemory;
use sys::clock::Moment;
use sys::{cores, environment, futex, process, usage};

use crate::board::{
    AWAKE, BORROWED, BORROWS, CHANGES, CORES, CORES_MAX, IDLE, LENT, LendingRecord, PROCESS, SET,
    SINCE, TICK_NS, TIMES_LENT, UNUSED, WANTS, WATCHES, add, idle, record_of, word, words,
};

/// How many processes a process signals at most when its cores become free: those after it first.
/// Others find the cores when they look of their own accord.
const SIGNALLED_MAX: usize = 4;

/// How much later another thread may have read the clock, in ticks: a minute.
const LATER_MAX: u32 = (60_000_000_000 / TICK_NS) as u32;

/// The number of awake threads of a process that has ended.
const ENDED: i32 = i32::MIN / 2;

/// What the calling process lends and borrows. Copies of it, and shares that other libraries of the
/// process have found, are equal.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Never unmapped: threads may sleep on its words until the process ends.
    memory: &'static SharedMemory,
    processes: usize,
    slot: usize,
    /// The process that has joined. Its children inherit this value, but not the slot.
    process: u32,
}

impl Share {
    /// Joins the board of this machine, or finds the slot that another library of this process has
    /// joined. None if the launcher has created no board, or another process has the slot. The
    /// memory is mapped once: MPI can be initialised many times in a process.
    pub fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Share>> = OnceLock::new();
        FOUND.get_or_init(Self::look).as_ref()
    }

    fn look() -> Option<Self> {
        let number = |name| environment::text(name)?.parse::<u32>().ok();
        let (slot, processes) = (number(LOCAL_RANK)?, number(LOCAL_SIZE)?);
        let file = inherited()?;
        let memory = SharedMemory::open(&file, words(processes)).ok()?;
        // Its words are used until the process ends.
        let memory: &'static SharedMemory = Box::leak(Box::new(memory));
        Self::join(memory, processes, slot, &cores::allowed())
    }

    fn join(
        memory: &'static SharedMemory,
        processes: u32,
        slot: u32,
        own: &[usize],
    ) -> Option<Self> {
        let is_sound = slot < processes && own.iter().all(|core| *core < CORES_MAX);
        let share = Self {
            memory,
            processes: processes as usize,
            slot: slot as usize,
            process: std::process::id(),
        };
        if !is_sound || own.is_empty() {
            return None;
        }
        let holder = share.own(PROCESS);
        let before = match holder.compare_exchange(0, share.process, SeqCst, SeqCst) {
            Ok(_) => 0,
            Err(before) if before == share.process => return Some(share),
            Err(before) if process::has_ended(before as i32) => before,
            Err(_) => return None,
        };
        if before != 0 {
            // A process of this rank has ended, and the program goes on in another one.
            holder.compare_exchange(before, share.process, SeqCst, SeqCst).ok()?;
            share.retire();
        }
        share.enter(own);
        Some(share)
    }

    /// Withdraws what the former process of this slot has lent.
    fn retire(&self) {
        let cores = self.own(CORES).swap(0, SeqCst);
        self.own(UNUSED).store(0, SeqCst);
        self.memory.word(IDLE).fetch_sub(idle(cores, self.awake(self.slot)), SeqCst);
    }

    fn enter(&self, own: &[usize]) {
        for place in SET..SET + CORES_MAX / 32 {
            self.own(place).store(0, SeqCst);
        }
        for core in own {
            self.own(SET + core / 32).fetch_or(1 << (core % 32), SeqCst);
        }
        // The thread that joins is awake.
        self.own(AWAKE).store(1, SeqCst);
        self.own(SINCE).store(ticks(), SeqCst);
        let more = idle(own.len() as u32, 1);
        self.memory.word(IDLE).fetch_add(more, SeqCst);
        self.own(CORES).store(own.len() as u32, SeqCst);
    }

    fn own(&self, place: usize) -> &'static AtomicU32 {
        word(self.memory, self.slot, place)
    }

    /// Returns the number of awake threads of the process of a slot.
    pub(crate) fn awake(&self, slot: usize) -> i32 {
        word(self.memory, slot, AWAKE).load(SeqCst) as i32
    }

    fn lends(&self, slot: usize) -> u32 {
        idle(self.number_of_cores(slot), self.awake(slot))
    }

    /// Returns how many cores the process of a slot has; 0: none has joined.
    pub(crate) fn number_of_cores(&self, slot: usize) -> u32 {
        word(self.memory, slot, CORES).load(SeqCst)
    }

    /// Whether all cores of a process seem to be in use, as far as it reports.
    pub(crate) fn reports_nothing(&self, slot: usize) -> bool {
        self.lends(slot) == 0
    }

    /// Returns the number of slots.
    pub(crate) fn processes(&self) -> usize {
        self.processes
    }

    /// Whether another process has joined in a slot.
    pub(crate) fn is_other(&self, slot: usize) -> bool {
        slot != self.slot && self.number_of_cores(slot) > 0
    }

    /// Returns the processor time of the process of a slot; none if it has ended.
    pub(crate) fn processor_time(&self, slot: usize) -> Option<Duration> {
        usage::processor_time_of(word(self.memory, slot, PROCESS).load(SeqCst) as i32)
    }

    /// Whether the main thread of the process of a slot runs, or would if it had a core.
    pub(crate) fn main_thread_is_ready(&self, slot: usize) -> bool {
        let number = word(self.memory, slot, PROCESS).load(SeqCst);
        process::state(number as i32) == Some("running")
    }

    /// Records how many of its cores the process of a slot does not use.
    pub(crate) fn set_unused(&self, slot: usize, count: u32) {
        word(self.memory, slot, UNUSED).store(count, SeqCst);
    }

    /// Counts a thread that has begun to run, or has woken up.
    pub fn thread_wakes(&self) {
        self.change(1);
    }

    /// Counts a thread that is about to sleep, or has ended.
    pub fn thread_sleeps(&self) {
        self.change(-1);
    }

    /// Begins a sleep of the calling thread in a library that does not count threads. Returns
    /// whether [`thread_wakes`](Self::thread_wakes) must end it: only the main thread is known to
    /// be counted.
    pub fn main_thread_sleeps(&self) -> bool {
        let is_main = process::thread_id() == std::process::id();
        if is_main {
            self.change(-1);
        }
        is_main
    }

    /// Lends all cores of this process, which ends.
    pub fn end(&self) {
        if self.is_of_this_process() {
            let awake = self.awake(self.slot);
            self.change(ENDED.saturating_sub(awake));
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn change(&self, by: i32) {
        if !self.is_of_this_process() {
            return;
        }
        let before = self.own(AWAKE).fetch_add(by as u32, SeqCst) as i32;
        // What was observed before no longer holds.
        self.own(UNUSED).store(0, SeqCst);
        let cores = self.own(CORES).load(SeqCst);
        let (was_idle, is_idle) = (idle(cores, before), idle(cores, before.saturating_add(by)));
        if was_idle == is_idle {
            return;
        }
        self.note(was_idle, is_idle);
        if is_idle > was_idle {
            self.memory.word(IDLE).fetch_add(is_idle - was_idle, SeqCst);
            self.signal(WANTS, SIGNALLED_MAX);
        } else {
            self.memory.word(IDLE).fetch_sub(was_idle - is_idle, SeqCst);
            self.signal(BORROWS, usize::MAX);
        }
    }

    /// Adds to the sums for reports.
    fn note(&self, was_idle: u32, is_idle: u32) {
        let now = ticks();
        let lasted = now.wrapping_sub(self.own(SINCE).swap(now, SeqCst));
        // Another thread may have read the clock later.
        let lasted = if lasted > u32::MAX - LATER_MAX { 0 } else { lasted };
        add(self.memory, self.slot, LENT, u64::from(lasted) * u64::from(was_idle));
        self.own(TIMES_LENT).fetch_add(u32::from(is_idle > was_idle), SeqCst);
    }

    /// Signals other processes for which a word of their slot is not 0, the next ones first.
    fn signal(&self, reason: usize, most: usize) {
        let others = (1..self.processes).map(|more| (self.slot + more) % self.processes);
        let concerned = others.filter(|other| word(self.memory, *other, reason).load(SeqCst) != 0);
        for other in concerned.take(most) {
            signal(self.memory, other);
        }
    }

    /// Whether other processes lend cores.
    pub fn others_lend(&self) -> bool {
        self.memory.word(IDLE).load(SeqCst) > self.lends(self.slot)
    }

    /// Returns the cores that other processes lend, in order.
    pub fn lent_by_others(&self) -> Vec<usize> {
        let mut lent = Vec::new();
        for slot in (0..self.processes).filter(|slot| *slot != self.slot) {
            let count = self.lends(slot).max(word(self.memory, slot, UNUSED).load(SeqCst)) as usize;
            if count > 0 {
                let cores = self.cores_of(slot);
                // Threads of the owner that are awake may run on any of its cores. The last ones
                // are lent, so that each borrower takes the same.
                lent.extend_from_slice(&cores[cores.len().saturating_sub(count)..]);
            }
        }
        lent.sort_unstable();
        lent.dedup();
        let own = self.cores();
        lent.retain(|core| !own.contains(core));
        lent
    }

    /// Returns the cores of this process.
    pub fn cores(&self) -> Vec<usize> {
        self.cores_of(self.slot)
    }

    /// Returns the cores of all processes of the machine that have joined.
    pub fn cores_of_all(&self) -> Vec<usize> {
        (0..self.processes).flat_map(|slot| self.cores_of(slot)).collect()
    }

    fn cores_of(&self, slot: usize) -> Vec<usize> {
        let words = (0..CORES_MAX / 32)
            .map(|place| (place * 32, word(self.memory, slot, SET + place).load(SeqCst)));
        let cores = words.filter(|(_, bits)| *bits != 0).flat_map(|(first, bits)| {
            (0..32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| first + bit)
        });
        cores.collect()
    }

    /// Records whether this process has more busy threads than cores. If it has, and other
    /// processes lend cores, the thread that borrows them is woken.
    #[inline]
    pub fn set_wants(&self, wants: bool) {
        if self.own(WANTS).load(SeqCst) == u32::from(wants) {
            return;
        }
        self.own(WANTS).store(u32::from(wants), SeqCst);
        if wants && self.own(BORROWS).load(SeqCst) == 0 && self.others_lend() {
            signal(self.memory, self.slot);
        }
    }

    /// Whether this process has more busy threads than cores.
    pub fn wants(&self) -> bool {
        self.own(WANTS).load(SeqCst) != 0
    }

    /// Records how many cores of others this process uses from now on, after the former number has
    /// lasted so long.
    pub fn set_borrows(&self, count: usize, lasted: Duration) {
        let before = self.own(BORROWS).swap(count as u32, SeqCst);
        let ticks = lasted.as_nanos() as u64 / TICK_NS;
        add(self.memory, self.slot, BORROWED, ticks * u64::from(before));
    }

    /// Returns the number of changes that concern this process, to be read before the lent cores.
    pub fn changes(&self) -> u32 {
        self.own(CHANGES).load(SeqCst)
    }

    /// Sleeps until something changes that concerns this process, or `timeout` has passed.
    pub fn wait_for_change(&self, seen: u32, timeout: Duration) {
        self.own(WATCHES).store(1, SeqCst);
        if self.changes() == seen {
            futex::wait(self.own(CHANGES), seen, Some(timeout));
        }
        self.own(WATCHES).store(0, SeqCst);
    }

    /// Returns what this process has lent and borrowed.
    pub fn record(&self) -> LendingRecord {
        record_of(self.memory, self.slot)
    }
}

/// Wakes the thread of a process that borrows cores.
fn signal(memory: &SharedMemory, slot: usize) {
    let changes = word(memory, slot, CHANGES);
    changes.fetch_add(1, SeqCst);
    if word(memory, slot, WATCHES).load(SeqCst) != 0 {
        // It fails only for words that are not mapped.
        let _ = futex::wake(changes, 1);
    }
}

fn ticks() -> u32 {
    (Moment::now().nanoseconds() / TICK_NS) as u32
}

/// Opens the file that the launcher has passed to this process. Both libraries of a process open
/// it, so the descriptor stays as it is.
fn inherited() -> Option<File> {
    let descriptor: u32 = environment::text(LENDING)?.parse().ok()?;
    let path = format!("/proc/self/fd/{descriptor}");
    let label = SharedMemory::LABEL.to_bytes();
    let link = fs::read_link(&path).ok()?;
    let name = link.as_os_str().as_encoded_bytes().strip_prefix(b"/memfd:")?;
    // A program between launcher and process may have opened another file under this number.
    name.starts_with(label).then(|| OpenOptions::new().read(true).write(true).open(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Watch;
    use crate::board::LendingBoard;
    use std::time::Instant;

    /// Joins as each of the processes of a machine, which have so many cores each.
    fn joined(cores_of_each: &[usize]) -> (LendingBoard, Vec<Share>) {
        let count = cores_of_each.len() as u32;
        let board = LendingBoard::create(count).unwrap();
        let file = board.file().try_clone().unwrap();
        let memory = SharedMemory::open(&file, words(count)).unwrap();
        let memory: &'static SharedMemory = Box::leak(Box::new(memory));
        let mut first = 0;
        let shares = (0..).zip(cores_of_each).map(|(slot, cores)| {
            let own: Vec<usize> = (first..first + cores).collect();
            first += cores;
            Share::join(memory, count, slot, &own).unwrap()
        });
        let shares = shares.collect();
        (board, shares)
    }

    #[test]
    fn what_is_lent_is_what_awake_threads_leave() {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let counts: Vec<usize> = (0..random.usize(2..6)).map(|_| random.usize(1..5)).collect();
            let (_board, shares) = joined(&counts);
            let mut awake = vec![1_usize; counts.len()];
            for _ in 0..100 {
                let one = random.usize(..counts.len());
                if awake[one] > 0 && random.bool() {
                    shares[one].thread_sleeps();
                    awake[one] -= 1;
                } else {
                    shares[one].thread_wakes();
                    awake[one] += 1;
                }
                let idle = |slot: usize| counts[slot].saturating_sub(awake[slot]);
                let asked = random.usize(..counts.len());
                let others = (0..counts.len()).filter(|slot| *slot != asked);
                let lent = others.flat_map(|slot| {
                    let end: usize = counts[..=slot].iter().sum();
                    end - idle(slot)..end
                });
                let expected: Vec<usize> = lent.collect();
                assert_eq!(shares[asked].lent_by_others(), expected, "seed {seed}");
                assert_eq!(shares[asked].others_lend(), !expected.is_empty(), "seed {seed}");
            }
        }
    }

    #[test]
    fn only_processes_that_want_cores_are_signalled() {
        let (_board, shares) = joined(&[1, 1, 1]);
        shares[1].set_wants(true);
        let before: Vec<u32> = shares.iter().map(Share::changes).collect();
        shares[0].thread_sleeps();
        let changed = |of: usize| shares[of].changes().wrapping_sub(before[of]);
        assert_eq!([changed(0), changed(1), changed(2)], [0, 1, 0]);
        // What is returned concerns only those that use it.
        shares[0].thread_wakes();
        assert_eq!([changed(0), changed(1), changed(2)], [0, 1, 0]);
        shares[2].set_borrows(1, Duration::ZERO);
        shares[0].thread_sleeps();
        shares[0].thread_wakes();
        assert_eq!([changed(0), changed(1), changed(2)], [0, 2, 1]);
    }

    #[test]
    fn a_process_that_comes_to_want_cores_finds_what_was_lent_before() {
        let (_board, shares) = joined(&[1, 1]);
        shares[0].thread_sleeps();
        let before = shares[1].changes();
        shares[1].set_wants(true);
        assert_eq!(shares[1].changes(), before + 1);
        shares[1].set_wants(false);
        shares[0].thread_wakes();
        shares[1].set_wants(true);
        assert_eq!(shares[1].changes(), before + 1);
    }

    #[test]
    fn a_process_that_has_ended_lends_its_cores() {
        let (_board, shares) = joined(&[2, 1]);
        shares[0].end();
        assert_eq!(shares[1].lent_by_others(), [0, 1]);
        // Threads that still run there change nothing.
        shares[0].thread_wakes();
        shares[0].thread_sleeps();
        shares[0].end();
        assert_eq!(shares[1].lent_by_others(), [0, 1]);
        assert_eq!(shares[0].record().times_lent, 1);
    }

    #[test]
    fn what_was_lent_and_borrowed_is_recorded() {
        let (_board, shares) = joined(&[1, 1]);
        shares[0].thread_sleeps();
        shares[1].set_borrows(1, Duration::ZERO);
        std::thread::sleep(Duration::from_millis(5));
        shares[1].set_borrows(0, Duration::from_millis(5));
        shares[0].thread_wakes();
        let (lender, borrower) = (shares[0].record(), shares[1].record());
        assert!(lender.lent >= 0.005 && lender.borrowed == 0.0, "{lender:?}");
        assert_eq!((borrower.lent, borrower.borrowed), (0.0, 0.005));
    }

    #[test]
    fn cores_are_found_that_their_owner_does_not_use() {
        let (_board, shares) = joined(&[1, 1]);
        // This process has ended. The first observation only begins.
        shares[0].own(PROCESS).store(i32::MAX as u32, SeqCst);
        let mut watch = Watch::new(shares[1]);
        let begun = Instant::now();
        watch.look(begun);
        assert_eq!(shares[1].lent_by_others(), [0; 0]);
        watch.look(begun + Duration::from_millis(15));
        assert_eq!(shares[1].lent_by_others(), [0]);
        // Once its threads wake up or sleep, only what it reports counts.
        shares[0].thread_wakes();
        assert_eq!(shares[1].lent_by_others(), [0; 0]);
        // A process that uses its core lends nothing.
        shares[0].own(PROCESS).store(std::process::id(), SeqCst);
        let begun = begun + Duration::from_millis(100);
        watch.look(begun);
        let used = usage::processor_time();
        while usage::processor_time() - used < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        watch.look(begun + Duration::from_millis(15));
        assert_eq!(shares[1].lent_by_others(), [0; 0]);
        // Nor does one that is ready to run while others have its core.
        shares[0].set_unused(0, 1);
        let mut child =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        shares[0].own(PROCESS).store(child.id(), SeqCst);
        watch.look(begun + Duration::from_millis(300));
        watch.look(begun + Duration::from_millis(315));
        let lent = shares[1].lent_by_others();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(lent, [0; 0]);
    }

    #[test]
    fn all_libraries_of_a_process_share_a_slot_and_another_process_gets_none() {
        let (_board, shares) = joined(&[1, 1]);
        let again = Share::join(shares[0].memory, 2, 0, &[0]).unwrap();
        again.thread_sleeps();
        assert_eq!(shares[1].lent_by_others(), [0]);
        assert!(Share::join(shares[0].memory, 2, 2, &[0]).is_none());
        assert!(Share::join(shares[0].memory, 2, 1, &[CORES_MAX]).is_none());
        // The first process of the machine is another one, and never ends.
        shares[0].own(PROCESS).store(1, SeqCst);
        assert!(Share::join(shares[0].memory, 2, 0, &[0]).is_none());
    }

    #[test]
    fn a_process_takes_the_slot_of_one_that_has_ended() {
        let (_board, shares) = joined(&[3, 1]);
        shares[0].thread_sleeps();
        // No process has this number.
        shares[0].own(PROCESS).store(i32::MAX as u32, SeqCst);
        let next = Share::join(shares[0].memory, 2, 0, &[0, 1]).unwrap();
        assert_eq!(shares[1].lent_by_others(), [1]);
        next.thread_wakes();
        assert!(!shares[1].others_lend());
    }
}
