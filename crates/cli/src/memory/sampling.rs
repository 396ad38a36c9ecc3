//! Measures a table of costs.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::iter;
use std::time::{Duration, Instant};

use memory::accesses::{self, Line};
use memory_costs::{
    AccessCondition, CONDITIONS, CostTable, Curve, Distance, LineState, MemoryOperation, Met,
    SYSTEM_COPIES, SystemCopy, SystemCosts,
};

use super::pair::{ONE, PairBlocks, ThreadPair};

/// The block sizes in bytes, as powers of two: from a small part of an inner cache to more than
/// most caches hold.
const SIZES: std::ops::RangeInclusive<u32> = 10..=24;

/// Measurement rounds continue until this time has passed.
const TIME: Duration = Duration::from_secs(3);

/// The time limit if no distance is completely measured before.
const TIME_MAX: Duration = Duration::from_secs(15);

/// The minimum number of rounds.
const ROUNDS_MIN: usize = 3;

/// The minimum number of times of one condition and one size at one distance.
const TIMES_MIN: usize = 3;

/// Small blocks are measured several times in a round, up to this many bytes in total, but not more
/// often than the maximum.
const SMALL_BYTES: u64 = 256 << 10;
const TIMES_EACH_MAX: u64 = 8;

/// The minimum number of copies that are timed in a round.
const COPIES_MIN: u64 = 3;

/// A measured operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timed {
    Access(AccessCondition),
    Copy(SystemCopy),
}

/// The single measurements: the crossing time and the duration.
type Times = BTreeMap<(Timed, u64), Vec<(f64, f64)>>;

/// The size of a page, the unit in which a system call copies.
const PAGE_BYTES: usize = 4096;

/// Measures what accesses cost between the two threads of a pair, at each distance that their cores
/// had during the measurement.
///
/// # Errors
/// The cores are too busy, or the distance changed all the time.
pub fn table(pair: &ThreadPair<'_>) -> Result<CostTable, String> {
    let begin = Instant::now();
    let (mut times, mut copies) = (Times::new(), BTreeMap::<u64, Vec<f64>>::new());
    let mut rounds = 0;
    let mut found = Vec::new();
    while rounds < ROUNDS_MIN
        || begin.elapsed() < TIME
        || (found.is_empty() && begin.elapsed() < TIME_MAX)
    {
        for exponent in SIZES {
            round(pair, 1 << exponent, &mut times, &mut copies)?;
        }
        rounds += 1;
        found = distances(&times);
    }
    let mut table = CostTable {
        copy: Curve::new(copies.into_iter().map(|(bytes, times)| (bytes, median(times)))),
        ..CostTable::default()
    };
    for distance in found {
        table.learn(distance);
    }
    if table.distances.is_empty() {
        return Err("the distances between the cores changed too often".to_owned());
    }
    table.system = SystemCosts { page_fault_ns: page_fault_ns(), ..copy_calls(pair, &table, 40) };
    Ok(table)
}

fn round(
    pair: &ThreadPair<'_>,
    bytes: u64,
    times: &mut Times,
    copies: &mut BTreeMap<u64, Vec<f64>>,
) -> Result<(), String> {
    let lines = bytes as usize / size_of::<Line>();
    *pair.blocks() = vec![vec![Line([1; 8]); lines], vec![Line([1; 8]); lines]];
    let times_each = (SMALL_BYTES / bytes).clamp(1, TIMES_EACH_MAX);
    let accesses = CONDITIONS.into_iter().map(Timed::Access);
    let all = accesses.chain(SYSTEM_COPIES.into_iter().map(Timed::Copy));
    for timed in all.flat_map(|one| iter::repeat_n(one, times_each as usize)) {
        let before = pair.crossing_ns()?;
        let Some(time) = once(pair, timed)? else { continue };
        let after = pair.crossing_ns()?;
        let crossing = (before * after).sqrt();
        let is_steady = Distance { crossing_ns: before, ..Distance::default() }.has(after);
        if is_steady {
            times.entry((timed, bytes)).or_default().push((crossing, time));
        }
    }
    for _ in 0..times_each.max(COPIES_MIN) {
        pair.blocks().iter_mut().for_each(|block| accesses::store(block, ONE));
        copies.entry(bytes).or_default().push(pair.time(&mut copy));
    }
    Ok(())
}

/// Brings the blocks into the required states, and measures the time. Returns `None` if a state is
/// not possible here.
fn once(pair: &ThreadPair<'_>, timed: Timed) -> Result<Option<f64>, String> {
    match timed {
        Timed::Access(condition) => {
            if !prepare(pair, condition.met, 0)? {
                return Ok(None);
            }
            Ok(Some(pair.time(&mut |blocks| access(condition.operation, &mut blocks[0]))))
        }
        Timed::Copy(kind) => copied_by_system(pair, kind),
    }
}

/// Measures a copy by the system. Returns `None` if it is not permitted here.
pub fn copied_by_system(pair: &ThreadPair<'_>, kind: SystemCopy) -> Result<Option<f64>, String> {
    let (own, others) = (Met::Own(LineState::Modified), Met::Other(LineState::Modified));
    let [from, into] = match kind {
        SystemCopy::Fetched | SystemCopy::FetchedAgain => [others, own],
        SystemCopy::Given => [own, others],
    };
    prepare(pair, from, 0)?;
    if kind == SystemCopy::FetchedAgain {
        // Not through memory: a block that was evicted before is copied half as fast.
        accesses::load(&pair.blocks()[0]);
    }
    prepare(pair, into, 1)?;
    let mut is_done = false;
    let time = pair.time(&mut |blocks| {
        let (from, into) = blocks.split_at_mut(1);
        is_done = accesses::copy_by_system(&from[0], &mut into[0]);
    });
    Ok(is_done.then_some(time))
}

/// Copies the first block to the second.
pub fn copy(blocks: &mut PairBlocks) {
    let (from, into) = blocks.split_at_mut(1);
    into[0].copy_from_slice(&from[0]);
    accesses::store(&mut [], 0);
}

/// Brings a block into a state. Returns whether that is possible here.
pub fn prepare(pair: &ThreadPair<'_>, met: Met, block: usize) -> Result<bool, String> {
    let evict = || accesses::evict(&pair.blocks()[block]);
    match met {
        Met::Own(LineState::Modified) => {
            pair.time(&mut |blocks| accesses::store(&mut blocks[block], ONE));
        }
        Met::Other(LineState::Modified) => pair.other_stores(block)?,
        _ if !evict() => return Ok(false),
        Met::Memory => {}
        Met::Own(LineState::Exclusive) => accesses::load(&pair.blocks()[block]),
        Met::Own(LineState::Shared) => {
            pair.other_loads(block)?;
            accesses::load(&pair.blocks()[block]);
        }
        Met::Other(_) => pair.other_loads(block)?,
    }
    Ok(true)
}

pub fn access(operation: MemoryOperation, block: &mut [Line]) {
    match operation {
        MemoryOperation::Load => accesses::load(block),
        MemoryOperation::Store => accesses::store(block, ONE),
        MemoryOperation::StorePast => accesses::store_past_caches(block, ONE),
    }
}

/// The distances at which everything possible was measured, with the medians of the times.
fn distances(times: &Times) -> Vec<Distance> {
    let mut crossings: Vec<f64> = times.values().flatten().map(|time| time.0).collect();
    crossings.sort_by(f64::total_cmp);
    let mut groups: Vec<Vec<f64>> = Vec::new();
    for crossing in crossings {
        match groups.last_mut() {
            Some(group) if crossing < group[0] * 1.5 => group.push(crossing),
            _ => groups.push(vec![crossing]),
        }
    }
    let complete = |group: Vec<f64>| {
        let (least, most) = (*group.first()?, *group.last()?);
        let mut points: BTreeMap<Timed, Vec<(u64, f64)>> = BTreeMap::new();
        for (&(timed, bytes), taken) in times {
            let here = taken.iter().filter(|time| (least..=most).contains(&time.0));
            let here: Vec<f64> = here.map(|time| time.1).collect();
            if here.len() < TIMES_MIN {
                return None;
            }
            points.entry(timed).or_default().push((bytes, median(here)));
        }
        let mut distance = Distance { crossing_ns: median(group), ..Distance::default() };
        for (timed, points) in points {
            match timed {
                Timed::Access(condition) => distance.curves.insert(condition, Curve::new(points)),
                Timed::Copy(kind) => distance.copies.insert(kind, Curve::new(points)),
            };
        }
        Some(distance)
    };
    groups.into_iter().filter_map(complete).collect()
}

/// The costs of the system calls that copy, each the median of so many times. A call that is not
/// permitted here costs nothing.
pub fn copy_calls(pair: &ThreadPair<'_>, table: &CostTable, times: usize) -> SystemCosts {
    let by_call = |bytes: usize| {
        let lines = bytes / size_of::<Line>();
        *pair.blocks() = vec![vec![Line([1; 8]); lines], vec![Line([1; 8]); lines]];
        let times = (0..times).map(|_| {
            pair.time(&mut |blocks| {
                let (from, into) = blocks.split_at_mut(1);
                accesses::copy_by_system(&from[0], &mut into[0]);
            })
        });
        let copied = table.copy.at(bytes as u64).unwrap_or(0.0);
        (median(times.collect()) - copied).max(0.0)
    };
    let (one, many) = (by_call(PAGE_BYTES), by_call(64 * PAGE_BYTES));
    let copy_page_ns = (many - one).max(0.0) / 63.0;
    let copy_call_ns = (one - copy_page_ns).max(0.0);
    SystemCosts { copy_call_ns, copy_page_ns, ..SystemCosts::default() }
}

/// The time of the first access to a page: the median over several areas.
fn page_fault_ns() -> f64 {
    const PAGES: usize = 256;
    // So large that every allocator maps it anew each time, and unmaps it.
    const AREA_BYTES: usize = 256 << 20;
    let area = |_| {
        let mut fresh = vec![0_u8; AREA_BYTES];
        let begin = Instant::now();
        fresh.chunks_exact_mut(PAGE_BYTES).take(PAGES).for_each(|page| page[0] = black_box(1));
        let time = begin.elapsed();
        black_box(fresh);
        time.as_nanos() as f64 / PAGES as f64
    };
    median((0..9).map(area).collect())
}

/// The median, which outliers do not change.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_sorted_by_the_distance_at_which_they_were_taken() {
        let condition = CONDITIONS[0];
        let timed = Timed::Access(condition);
        let mut times = Times::new();
        let taken = [(25.0, 10.0), (160.0, 70.0), (26.0, 11.0), (170.0, 60.0), (27.0, 99.0)];
        times.insert((timed, 1024), taken.to_vec());
        // Three times at the nearer distance, only two at the farther one.
        let found = distances(&times);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].crossing_ns, 26.0);
        assert_eq!(found[0].curves[&condition].points(), [(1024, 11.0)]);
    }
}
