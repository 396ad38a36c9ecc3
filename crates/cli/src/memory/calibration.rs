//! A short measurement of what messages inside this machine cost, made once when its first job
//! starts, so that processes need not try slow ways of copying.
//!
//! Why: docs/internals/decisions/0106-a-machine-is-calibrated-once.md

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use memory::accesses::{self, Line};
use memory_costs::{
    AccessCondition, CostTable, Curve, Distance, LineState, MemoryOperation, Met, SYSTEM_COPIES,
    SystemCopy,
};
use runtime::samples::{self, MemorySample, Samples};
use sys::{cores, process};

use super::pair::{ONE, ThreadPair, with_pair_within};
use super::sampling;

/// The time of a calibration; without a complete round by then, it fails.
const MEASURING_TIME: Duration = Duration::from_millis(8);

/// How long the other thread of the pair is awaited each time.
const PATIENCE: Duration = Duration::from_millis(2);

/// How long the measuring child may take, with its start and end.
const CHILD_TIME_MAX: Duration = Duration::from_millis(30);

/// The sizes of blocks, in bytes: those of messages whose way is chosen.
const SIZES: [u64; 4] = [4 << 10, 32 << 10, 128 << 10, 512 << 10];

/// Measures this machine if nothing is known of its memory yet, and stores the result for the jobs
/// on it. If the cores are busy, if there is one only, or if the result cannot be stored, nothing
/// happens: a later job tries again, and processes find the fastest ways by trying.
///
/// A child measures, as the launcher has no threads. Must be called before there are other
/// children.
pub fn calibrate_once() {
    let Some(unknown) = UnknownMachine::this() else { return };
    let Ok(child) = process::fork() else { return };
    if child == 0 {
        unknown.calibrate();
        std::process::exit(0);
    }
    let deadline = Instant::now() + CHILD_TIME_MAX;
    while matches!(process::reap(), Ok(None)) {
        if Instant::now() > deadline {
            // It ends as soon as it gets a core again, and is reaped by the next round.
            _ = process::kill(child, process::signal::SIGKILL);
        }
        thread::sleep(Duration::from_micros(200));
    }
}

/// A machine of whose memory nothing is known.
struct UnknownMachine {
    folder: PathBuf,
    known: Samples,
    cores: [usize; 2],
}

impl UnknownMachine {
    /// Returns this machine, if it is such a one and can be measured.
    fn this() -> Option<Self> {
        let (host, folder) = (samples::host(), samples::folder()?);
        // A home that does not exist is not made.
        if !folder.parent()?.parent()?.is_dir() {
            return None;
        }
        let [first, second, ..] = *cores::allowed() else { return None };
        // A file that cannot be used is reported by the processes of the job, and not replaced.
        let kept = Samples::read(&folder, &host).ok()?;
        let known = kept.unwrap_or_else(|| Samples::none(&host));
        let own = MemorySample::of_now(CostTable::default());
        let is_known = known.memory.as_ref().is_some_and(|memory| memory.is_of(&own));
        (!is_known).then_some(Self { folder, known, cores: [first, second] })
    }

    fn calibrate(mut self) {
        if let Ok(table) =
            with_pair_within(self.cores, PATIENCE, |pair| table(pair, MEASURING_TIME))
        {
            self.known.memory = Some(MemorySample::of_now(table));
            _ = self.known.write(&self.folder);
        }
    }
}

/// The conditions that messages meet.
const CONDITIONS: [AccessCondition; 7] = {
    use LineState::{Exclusive, Modified, Shared};
    use MemoryOperation::{Load, Store, StorePast};
    use Met::{Memory, Other, Own};
    [
        AccessCondition::of(Load, Own(Modified)),
        AccessCondition::of(Load, Other(Modified)),
        AccessCondition::of(Load, Memory),
        AccessCondition::of(Store, Own(Modified)),
        AccessCondition::of(Store, Own(Shared)),
        AccessCondition::of(Store, Other(Modified)),
        AccessCondition::of(StorePast, Other(Exclusive)),
    ]
};

/// The shortest time of each condition and each kind of copy for each size.
#[derive(Default)]
struct Shortest {
    accesses: BTreeMap<AccessCondition, BTreeMap<u64, f64>>,
    system_copies: BTreeMap<SystemCopy, BTreeMap<u64, f64>>,
    copies: BTreeMap<u64, f64>,
}

fn note(times: &mut BTreeMap<u64, f64>, bytes: u64, ns: f64) {
    let shortest = times.entry(bytes).or_insert(ns);
    *shortest = shortest.min(ns);
}

/// Measures rounds until the time is over.
///
/// # Errors
/// The first round was not complete by then, the thread has lost its core as often as there were
/// rounds, or the distance of the cores changed.
fn table(pair: &ThreadPair<'_>, limit: Duration) -> Result<CostTable, String> {
    let begin = Instant::now();
    let (mut times, mut crossings, mut rounds) = (Shortest::default(), Vec::new(), 0);
    let preemptions = process::preemptions();
    let mut is_over = || begin.elapsed() > limit;
    let largest = vec![Line([1; 8]); SIZES[SIZES.len() - 1] as usize / size_of::<Line>()];
    *pair.blocks() = vec![largest.clone(), largest];
    while !is_over() {
        for bytes in SIZES {
            crossings.push(pair.crossing_ns()?);
            round(pair, bytes, &mut times, &mut is_over)?;
        }
        rounds += u64::from(!is_over());
    }
    // A figure is the shortest of all rounds, so one of them must not have been interrupted.
    if process::preemptions() - preemptions >= rounds {
        return Err("the cores are too busy".to_owned());
    }
    let crossing_ns = sampling::median(crossings.clone());
    let mut distance = Distance { crossing_ns, ..Distance::default() };
    // Some may have been interrupted.
    let others = crossings.iter().filter(|crossing| !distance.has(**crossing)).count();
    if others > crossings.len() / 4 {
        return Err("the distance between the cores changed".to_owned());
    }
    let curves = times.accesses.into_iter().map(|(key, times)| (key, Curve::new(times)));
    distance.curves = curves.collect();
    let copies = times.system_copies.into_iter().map(|(key, times)| (key, Curve::new(times)));
    distance.copies = copies.collect();
    let mut table = CostTable { copy: Curve::new(times.copies), ..CostTable::default() };
    table.learn(distance);
    table.system = sampling::copy_calls(pair, &table, 9);
    Ok(table)
}

/// Measures each condition and copy once for blocks of one size, until the time is over.
fn round(
    pair: &ThreadPair<'_>,
    bytes: u64,
    times: &mut Shortest,
    is_over: &mut impl FnMut() -> bool,
) -> Result<(), String> {
    let lines = bytes as usize / size_of::<Line>();
    // Within the capacity, as fresh pages would take longer than all else.
    pair.blocks().iter_mut().for_each(|block| block.resize(lines, Line([1; 8])));
    for condition in CONDITIONS {
        if is_over() {
            return Ok(());
        }
        prepare(pair, condition.met)?;
        let access = |blocks: &mut Vec<Vec<Line>>| {
            sampling::access(condition.operation, &mut blocks[0]);
        };
        let time = pair.time(&mut { access });
        note(times.accesses.entry(condition).or_default(), bytes, time);
    }
    for kind in SYSTEM_COPIES {
        if is_over() {
            return Ok(());
        }
        if let Some(time) = sampling::copied_by_system(pair, kind)? {
            note(times.system_copies.entry(kind).or_default(), bytes, time);
        }
    }
    pair.blocks().iter_mut().for_each(|block| accesses::store(block, ONE));
    let time = pair.time(&mut sampling::copy);
    note(&mut times.copies, bytes, time);
    Ok(())
}

/// Brings the first block into a state as messages do, and so without eviction: that would take
/// longer than all else.
fn prepare(pair: &ThreadPair<'_>, met: Met) -> Result<(), String> {
    let store = |past_caches: bool| {
        pair.time(&mut |blocks| match past_caches {
            true => accesses::store_past_caches(&mut blocks[0], ONE),
            false => accesses::store(&mut blocks[0], ONE),
        });
    };
    match met {
        Met::Own(LineState::Modified | LineState::Exclusive) => store(false),
        Met::Own(LineState::Shared) => {
            store(false);
            pair.other_loads(0)?;
        }
        Met::Other(LineState::Modified) => pair.other_stores(0)?,
        Met::Other(_) => {
            store(true);
            pair.other_loads(0)?;
        }
        Met::Memory => store(true),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn nothing_is_kept_that_was_measured_while_others_used_the_core() {
        let [first, second, ..] = *cores::allowed() else { return };
        let limit = Duration::from_millis(500);
        let is_over = AtomicBool::new(false);
        let measured = thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    _ = cores::bind(first);
                    while !is_over.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                });
            }
            let measured = with_pair_within([first, second], limit, |pair| table(pair, limit));
            is_over.store(true, Ordering::Relaxed);
            measured
        });
        assert!(measured.is_err(), "the thread has a ninth of its core");
    }

    #[test]
    fn a_short_calibration_has_all_that_messages_need_or_is_none() {
        let [first, second, ..] = *cores::allowed() else { return };
        // In a debug build, beside other tests, it takes longer.
        let limit = Duration::from_secs(2);
        let begin = Instant::now();
        let measured = with_pair_within([first, second], limit, |pair| table(pair, limit));
        assert!(begin.elapsed() < 20 * limit);
        let Ok(table) = measured else { return };
        assert!(table.is_plausible());
        for exponent in 10..23 {
            let bytes = 1 << exponent;
            for way in runtime::LocalWay::all_of(bytes) {
                let message = way.message(bytes, memory_costs::SentBytes::Fresh);
                assert!(message.expect(&table).is_some_and(|ns| ns > 0.0), "{way:?}, {bytes}");
            }
        }
    }
}
