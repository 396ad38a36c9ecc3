//! Measures the cost of accesses between NUMA nodes, and the cost of moving pages and threads.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use memory::accesses::{self, Line};
use memory::placing::Placing;
use memory_costs::{Curve, MemoryOperation, Met, NODE_CONDITIONS, NodeCosts, NodeDistance};
use sys::{cores, numa, signals};

use crate::migration::Nodes;

/// The sizes of blocks in bytes: one that fits the caches of a core, one that fits in part, and one
/// that does not fit.
const SIZES: [usize; 3] = [64 << 10, 1 << 20, 16 << 20];

/// The number of measurements of each cost. The shortest time counts, as disturbances only add
/// time.
const TIMES: usize = 4;

/// Measures the costs, in a tenth of a second for each distance that the firmware reports. The
/// result is empty if all nodes are equally far, or if this process may not use several.
pub fn node_costs(nodes: &Nodes) -> NodeCosts {
    let mut pairs: BTreeMap<u64, [u32; 2]> = BTreeMap::new();
    for (from, to) in nodes.usable().flat_map(|from| nodes.all().map(move |to| (from, to))) {
        pairs.entry(nodes.distance(from, to)).or_insert([from, to]);
    }
    if pairs.len() < 2 {
        return NodeCosts::default();
    }
    let measured = pairs.iter().map(|(&distance, &[from, to])| {
        let curves = on_node(nodes, from, || curves(to))?;
        Some(NodeDistance { distance, curves })
    });
    let distances = measured.flatten().collect();
    let &[from, to] = pairs.values().next_back().expect("there are two at least");
    let moving = on_node(nodes, from, || moving(from, to)).unwrap_or_default();
    NodeCosts { distances, moving, thread_ns: thread_ns(nodes).unwrap_or(0.0) }
}

/// Runs a closure on a thread that is bound to a node; none if binding is not allowed or no thread
/// can be started.
fn on_node<T: Send>(nodes: &Nodes, node: u32, run: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let bound = move || nodes.bind(node).is_ok().then(run);
        let started =
            signals::without_signals(|| thread::Builder::new().spawn_scoped(scope, bound));
        started.ok()?.join().ok().flatten()
    })
}

/// Memory on a node.
pub struct PlacedBlock(Vec<Line>);

impl PlacedBlock {
    /// Allocates this many bytes on this node; none if the system refuses.
    pub fn new(bytes: usize, node: u32) -> Option<Self> {
        let mut block = Self(Vec::with_capacity(bytes / size_of::<Line>()));
        let start = block.0.as_ptr() as usize;
        Placing::Node(node).apply(start..start + bytes).ok()?;
        block.0.resize(bytes / size_of::<Line>(), Line::default());
        Some(block)
    }

    /// Allocates this many bytes where the system places them.
    pub fn anywhere(bytes: usize) -> Self {
        Self(vec![Line::default(); bytes / size_of::<Line>()])
    }

    /// Returns its cache lines.
    pub fn lines(&mut self) -> &mut [Line] {
        &mut self.0
    }

    /// Returns its addresses.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.0.as_ptr() as usize;
        start..start + size_of_val(&*self.0)
    }
}

impl Drop for PlacedBlock {
    fn drop(&mut self) {
        // The allocator may reuse it for other data.
        let _ = Placing::FirstTouch.apply(self.addresses());
    }
}

fn curves(node: u32) -> BTreeMap<memory_costs::AccessCondition, Curve> {
    let mut points: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for bytes in SIZES {
        let Some(mut block) = PlacedBlock::new(bytes, node) else { continue };
        for condition in NODE_CONDITIONS {
            let times = (0..TIMES).filter_map(|_| {
                match condition.met {
                    Met::Memory if !accesses::evict(&block.0) => return None,
                    Met::Memory => {}
                    _ => accesses::store(&mut block.0, 1),
                }
                let begun = Instant::now();
                match condition.operation {
                    MemoryOperation::Load => accesses::load(&block.0),
                    _ => accesses::store(&mut block.0, 2),
                }
                Some(begun.elapsed().as_nanos() as f64)
            });
            let time = least(times);
            points.entry(condition).or_default().extend(time.map(|ns| (bytes as u64, ns)));
        }
    }
    points.into_iter().map(|(condition, points)| (condition, Curve::new(points))).collect()
}

/// Measures half the time to move the pages of a block to the other node and back.
fn moving(from: u32, to: u32) -> Curve {
    let point = |bytes: usize| {
        let block = PlacedBlock::new(bytes, from)?;
        let once = |_| {
            let begun = Instant::now();
            numa::migrate(block.addresses(), &[to]).ok()?;
            numa::migrate(block.addresses(), &[from]).ok()?;
            Some(begun.elapsed().as_nanos() as f64 / 2.0)
        };
        Some((bytes as u64, least((0..TIMES).filter_map(once))?))
    };
    Curve::new(SIZES.into_iter().filter_map(point))
}

/// Measures the time that a thread takes to move to another node, in nanoseconds.
fn thread_ns(nodes: &Nodes) -> Option<f64> {
    let (first, second) = (nodes.usable().next()?, nodes.usable().nth(1)?);
    let once = |_| {
        nodes.bind(first).ok()?;
        let begun = Instant::now();
        nodes.bind(second).ok()?;
        cores::yield_now();
        Some(begun.elapsed().as_nanos() as f64)
    };
    on_node(nodes, first, || least((0..TIMES).filter_map(once))).flatten()
}

fn least(times: impl Iterator<Item = f64>) -> Option<f64> {
    times.min_by(f64::total_cmp)
}
