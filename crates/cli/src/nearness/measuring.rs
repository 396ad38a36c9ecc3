//! Accesses to memory of each node by threads of each node.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use memory::accesses::{self, Line};
use runtime::migration::Nodes;
use runtime::samples::PlacedBlock;
use sys::{cores, numa};

use super::MadeUpCosts;
use super::analysis::NodeMatrix;

/// The size of a block, and how many of its lines are read one after the other for a latency.
const BLOCK_BYTES: usize = 2 << 20;
const CHASED: usize = 4096;

/// How often each operation is timed; the shortest time counts.
const TIMES: usize = 5;

/// The distance between two lines that are read one after the other, in lines; it has no factor in
/// common with the number of lines.
const STRIDE: usize = 40_503;

/// An operation on a block.
#[derive(Clone, Copy)]
enum Operation {
    Chase,
    Read,
    Write,
    Copy,
}

const OPERATIONS: [(Operation, (&str, &str)); 4] = [
    (Operation::Chase, ("latency of a read", "ns")),
    (Operation::Read, ("read", "GB/s")),
    (Operation::Write, ("written", "GB/s")),
    (Operation::Copy, ("copied to a block on the node of the process", "GB/s")),
];

const TOGETHER: (&str, &str) = ("read by all cores of the node of the process at once", "GB/s");

/// Measures each operation, for threads on the first nodes and memory on the second ones.
pub fn memory(
    nodes: Option<&Nodes>,
    (processes, memories): (&[u32], &[u32]),
    made_up: &MadeUpCosts,
) -> Result<Vec<NodeMatrix>, String> {
    let sides = (processes, memories);
    let is_time = |operation| matches!(operation, Operation::Chase);
    let mut all: Vec<NodeMatrix> = OPERATIONS
        .iter()
        .map(|(operation, title)| NodeMatrix::new(*title, is_time(*operation), sides))
        .collect();
    let mut together = NodeMatrix::new(TOGETHER, false, sides);
    for (row, &process) in processes.iter().enumerate() {
        for (column, &memory) in memories.iter().enumerate() {
            let bound = Bound { nodes, process, memory, made_up };
            for (matrix, (operation, _)) in all.iter_mut().zip(OPERATIONS) {
                matrix.values[row][column] = bound.measure(operation)?;
            }
            together.values[row][column] = bound.measure_together()?;
        }
    }
    all.push(together);
    Ok(all)
}

/// A thread on one node and memory on another.
#[derive(Clone, Copy)]
struct Bound<'a> {
    nodes: Option<&'a Nodes>,
    process: u32,
    memory: u32,
    made_up: &'a MadeUpCosts,
}

impl Bound<'_> {
    /// Returns nanoseconds of a latency, and bytes per nanosecond of the others; `None` if the
    /// system refuses memory there.
    fn measure(self, operation: Operation) -> Result<Option<f64>, String> {
        let measured = thread::scope(|scope| scope.spawn(|| self.here(operation)).join());
        measured.map_err(|_| "a measuring thread has ended".to_owned())?
    }

    fn here(self, operation: Operation) -> Result<Option<f64>, String> {
        let Some(times) = self.times(operation, &Barrier::new(1))? else { return Ok(None) };
        let least = times.into_iter().fold(f64::MAX, f64::min);
        Ok(Some(match operation {
            Operation::Chase => least / CHASED as f64,
            _ => BLOCK_BYTES as f64 / least,
        }))
    }

    /// Returns the time of each round in nanoseconds; `None` if the system refuses memory. All
    /// threads of the barrier begin a round together, those without memory included.
    fn times(self, operation: Operation, start: &Barrier) -> Result<Option<Vec<f64>>, String> {
        let mut blocks = self.blocks();
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            if let Ok(Some([block, own])) = &mut blocks {
                accesses::evict(block.lines());
                accesses::evict(own.lines());
            }
            start.wait();
            if let Ok(Some([block, own])) = &mut blocks {
                times.push(self.time(operation, block, own));
            }
        }
        let times: Result<Vec<f64>, String> = times.into_iter().collect();
        blocks?.map(|_| times).transpose()
    }

    /// Binds this thread. Returns a block on the node of the memory, and one on that of the
    /// process; `None` if the system refuses one of them.
    fn blocks(self) -> Result<Option<[PlacedBlock; 2]>, String> {
        self.bind()?;
        let Some(mut block) = self.block(self.memory) else { return Ok(None) };
        link(block.lines());
        Ok(self.block(self.process).map(|own| [block, own]))
    }

    /// Returns the nanoseconds of an operation.
    fn time(
        self,
        operation: Operation,
        block: &mut PlacedBlock,
        own: &mut PlacedBlock,
    ) -> Result<f64, String> {
        let addresses = block.addresses();
        let begun = Instant::now();
        match operation {
            Operation::Chase => _ = black_box(chase(block.lines())),
            Operation::Read => accesses::load(block.lines()),
            Operation::Write => store(block.lines()),
            Operation::Copy => own.lines().copy_from_slice(block.lines()),
        }
        let units = match operation {
            Operation::Chase => Units::Single(CHASED as u64),
            _ => Units::Kib(BLOCK_BYTES as u64 / 1024),
        };
        self.take_at_least(&addresses, units, begun)?;
        Ok(begun.elapsed().as_nanos() as f64)
    }

    /// Measures the bandwidth of threads on all cores of the node that read at the same time, each
    /// its own block.
    fn measure_together(self) -> Result<Option<f64>, String> {
        let cores = self.cores();
        let start = Barrier::new(cores.len());
        let times = thread::scope(|scope| {
            let read = || self.times(Operation::Read, &start);
            let threads: Vec<_> = cores.iter().map(|_| scope.spawn(read)).collect();
            threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        let mut sums = [0.0; TIMES];
        for own in times {
            let own = own.map_err(|_| "a measuring thread has ended".to_owned())??;
            let Some(own) = own else { return Ok(None) };
            for (sum, time) in sums.iter_mut().zip(own) {
                *sum += time;
            }
        }
        // In one round the threads run at the same time; the round with the least sum counts.
        let mean = sums.into_iter().fold(f64::MAX, f64::min) / cores.len() as f64;
        Ok(Some((cores.len() * BLOCK_BYTES) as f64 / mean))
    }

    /// The cores of the node of the process that it may use.
    fn cores(self) -> Vec<usize> {
        match self.nodes {
            Some(nodes) => nodes.cores(self.process).to_vec(),
            None => cores::allowed(),
        }
    }

    fn bind(self) -> Result<(), String> {
        let Some(nodes) = self.nodes else { return Ok(()) };
        nodes.bind(self.process).map_err(|cause| format!("NUMA node {}: {cause}", self.process))
    }

    fn block(self, node: u32) -> Option<PlacedBlock> {
        match self.nodes {
            Some(_) => PlacedBlock::new(BLOCK_BYTES, node),
            None => Some(PlacedBlock::anywhere(BLOCK_BYTES)),
        }
    }

    /// Waits until the operation has lasted as long as was made up for the distance between the
    /// nodes on which the kernel says that the thread and the memory are.
    fn take_at_least(
        self,
        addresses: &Range<usize>,
        units: Units,
        begun: Instant,
    ) -> Result<(), String> {
        if self.made_up == &MadeUpCosts::default() {
            return Ok(());
        }
        let place = |cause: std::io::Error| format!("where memory is, is not known: {cause}");
        let here = numa::current_node().map_err(place)?;
        let there: BTreeMap<u32, u64> = numa::bytes_by_node(addresses, 16).map_err(place)?;
        let there = there.into_iter().max_by_key(|one| one.1).map_or(here, |one| one.0);
        let distance = self.nodes.map_or(10, |nodes| nodes.distance(here, there));
        let cost = self.made_up.at(distance);
        let ns = match units {
            Units::Single(count) => count * cost.single_ns,
            Units::Kib(count) => count * cost.kib_ns,
        };
        while (begun.elapsed().as_nanos() as u64) < ns {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

/// What a made-up cost counts: single accesses, or KiB.
#[derive(Clone, Copy)]
enum Units {
    Single(u64),
    Kib(u64),
}

fn store(lines: &mut [Line]) {
    // The content is a chain, which the stores keep.
    for (number, line) in lines.iter_mut().enumerate() {
        line.0 = [next(number) as u64; 8];
    }
    accesses::store(&mut [], 0);
}

/// Makes each line name the next one to read.
fn link(lines: &mut [Line]) {
    store(lines);
}

fn next(number: usize) -> usize {
    (number + STRIDE) % (BLOCK_BYTES / size_of::<Line>())
}

fn chase(lines: &[Line]) -> usize {
    (0..CHASED).fold(0, |at, _| lines[at % lines.len()].0[0] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_meets_every_line_before_it_ends() {
        let lines = BLOCK_BYTES / size_of::<Line>();
        let mut at = 0;
        let length = (1..=lines).find(|_| {
            at = next(at);
            at == 0
        });
        assert_eq!(length, Some(lines));
        let mut block = vec![Line::default(); lines];
        link(&mut block);
        assert_eq!(chase(&block), CHASED * STRIDE % lines);
    }

    #[test]
    fn made_up_costs_are_found_again() {
        // Much more than an access costs, so that the real one does not show.
        let made_up: MadeUpCosts = "10:5000:8000".parse().unwrap();
        let found = memory(None, (&[0], &[0]), &made_up).unwrap();
        let value = |number: usize| found[number].values[0][0].unwrap();
        // Other programs may take the core meanwhile, but nothing is faster than what was made up.
        assert!((4_999.0..20_000.0).contains(&value(0)), "{}", value(0));
        for number in 1..4 {
            assert!((0.03..0.1281).contains(&value(number)), "{}", value(number));
        }
        assert!(found[0].spread().unwrap().is_uniform());
    }
}
