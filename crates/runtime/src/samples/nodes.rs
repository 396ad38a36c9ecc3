//! Measuring what accesses between NUMA nodes cost, and what it costs to move.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use memory::accesses::{self, Line};
use memory::placing::Placing;
use memory_costs::{Curve, MemoryOperation, Met, NODE_CONDITIONS, NodeCosts, NodeDistance};
use sys::{cores, numa, signals};

use crate::migration::Nodes;

/// The sizes of blocks: what the caches of a core hold, what they hold in part, and what not.
const SIZES: [usize; 3] = [64 << 10, 1 << 20, 16 << 20];

/// So often each is measured; the shortest time counts, as whatever disturbs makes it longer.
const TIMES: usize = 4;

/// Measures it, in a tenth of a second for each distance that firmware tells; nothing where all
/// nodes are equally far, or where this process may not use several.
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

/// Runs a closure on a thread that runs on a node; none if it may not, or there can be no thread.
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
    /// So many bytes on this node; none if the system refuses.
    pub fn new(bytes: usize, node: u32) -> Option<Self> {
        let mut block = Self(Vec::with_capacity(bytes / size_of::<Line>()));
        let start = block.0.as_ptr() as usize;
        Placing::Node(node).apply(start..start + bytes).ok()?;
        block.0.resize(bytes / size_of::<Line>(), Line::default());
        Some(block)
    }

    /// The cache lines of it.
    pub fn lines(&mut self) -> &mut [Line] {
        &mut self.0
    }

    /// Where it is.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.0.as_ptr() as usize;
        start..start + size_of_val(&*self.0)
    }
}

impl Drop for PlacedBlock {
    fn drop(&mut self) {
        // The allocator may give it to others.
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

/// How long the pages of a block take there and back, half of it.
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

/// How long a thread takes to get to another node.
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
