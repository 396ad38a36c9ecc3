//! Measures how threads share the bandwidth of caches and memory.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use memory::accesses::{self, Line};
use memory_costs::{CrowdCosts, Curve, MemoryOperation, SharingCosts};
use sys::cores;

/// The block sizes in bytes: in the innermost cache, in the one of a core, in one that cores may
/// share, and in memory.
const SIZES: [usize; 5] = [16 << 10, 256 << 10, 2 << 20, 8 << 20, 32 << 20];

/// Small blocks are accessed repeatedly, this many bytes in all.
const BYTES_EACH: usize = 8 << 20;

/// How often each time is measured; the shortest counts, as disturbances only add time.
const ROUNDS: usize = 5;

/// The memory of all threads together, in bytes; larger blocks are left out.
const MEMORY_MAX: usize = 2 << 30;

/// Measures with 1, 2, 4 and so on up to all cores that this process may use. Empty if it may use
/// one only.
///
/// # Errors
/// A core cannot be used.
pub fn sharing() -> Result<SharingCosts, String> {
    let all = cores::allowed();
    if all.len() < 2 {
        return Ok(SharingCosts::default());
    }
    let measured = counts(all.len()).into_iter().map(|count| crowd(&all[..count]));
    Ok(SharingCosts::new(measured.collect::<Result<Vec<_>, _>>()?))
}

/// The numbers of threads: powers of two, half, and all.
fn counts(all: usize) -> Vec<usize> {
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count <= all);
    let mut counts: Vec<usize> = powers.chain([all.div_ceil(2), all]).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn crowd(cores: &[usize]) -> Result<CrowdCosts, String> {
    let curve = |operation| {
        let fits = |bytes: &usize| bytes * cores.len() <= MEMORY_MAX;
        let point = |bytes: usize| Ok((bytes as u64, together(cores, operation, bytes)?));
        let points: Result<Vec<_>, String> = SIZES.into_iter().filter(fits).map(point).collect();
        points.map(Curve::new)
    };
    Ok(CrowdCosts {
        threads: cores.len() as u32,
        load: curve(MemoryOperation::Load)?,
        store: curve(MemoryOperation::Store)?,
    })
}

/// Returns the mean time of a thread for its block, in nanoseconds, while a thread on each of these
/// cores uses a block of its own.
fn together(cores: &[usize], operation: MemoryOperation, bytes: usize) -> Result<f64, String> {
    let passes = (BYTES_EACH / bytes).max(1);
    let barrier = Barrier::new(cores.len());
    let once = |block: &mut [Line]| match operation {
        MemoryOperation::Load => accesses::load(block),
        _ => accesses::store(block, 1),
    };
    let of_thread = |core: usize| {
        let bound = cores::bind(core);
        let mut block = vec![Line([1; 8]); bytes / size_of::<Line>()];
        once(&mut block);
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            barrier.wait();
            let begun = Instant::now();
            (0..passes).for_each(|_| once(&mut block));
            times.push(begun.elapsed().as_nanos() as f64 / passes as f64);
        }
        bound.map(|()| times).map_err(|cause| format!("core {core} cannot be used: {cause}"))
    };
    let times = thread::scope(|scope| {
        let threads: Vec<_> =
            cores.iter().map(|&core| scope.spawn(move || of_thread(core))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let interrupted = |_| Err("a measurement was interrupted".to_owned());
        ended.map(|times| times.unwrap_or_else(interrupted)).collect::<Result<Vec<_>, String>>()
    })?;
    // In one round the threads run at the same time; the round with the least sum counts.
    let sum = |round: usize| times.iter().map(|times| times[round]).sum::<f64>();
    let least = (0..ROUNDS).map(sum).fold(f64::MAX, f64::min);
    Ok(least / cores.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_half_and_all_are_counted() {
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(12), [1, 2, 4, 6, 8, 12]);
        assert_eq!(counts(1), [1]);
    }

    #[test]
    fn every_number_of_threads_has_a_time_for_every_size() {
        let sharing = sharing().unwrap();
        let counted: Vec<usize> =
            sharing.crowds().iter().map(|crowd| crowd.threads as usize).collect();
        let expected = match cores::allowed().len() {
            1 => Vec::new(),
            all => counts(all),
        };
        assert_eq!(counted, expected);
        assert!(sharing.is_plausible());
        for crowd in sharing.crowds().iter().filter(|crowd| crowd.threads < 32) {
            assert_eq!([crowd.load.points().len(), crowd.store.points().len()], [SIZES.len(); 2]);
        }
    }
}
