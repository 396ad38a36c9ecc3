//! `combray bench migration`: compares what is decided for uses of memory on another NUMA node with
//! the measured time of each alternative.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use memory::accesses;
use memory_costs::{Migration, MigrationForecast, NodeCosts, PlannedUse, UsePlaces};
use runtime::migration::{self, Nodes};
use runtime::samples::PlacedBlock;
use sys::numa;

use super::size;

/// The sizes of memory, in bytes.
const SIZES: [usize; 3] = [1 << 20, 8 << 20, 32 << 20];

/// How often the memory is read and written.
const USES: [(u32, u32); 5] = [(1, 0), (8, 0), (32, 0), (0, 8), (8, 8)];

/// How often each alternative is run; the shortest time counts.
const RUNS: usize = 2;

/// A decision counts as right if its choice takes at most this many times the shortest time.
const AS_GOOD: f64 = 1.1;

/// The initial nodes of thread and memory.
#[derive(Clone, Copy)]
struct DistantPair {
    thread: u32,
    memory: u32,
    distance: u64,
}

/// Runs and predicts all cases.
///
/// # Errors
/// There is only one NUMA node, or the costs of other nodes cannot be measured.
pub fn compare() -> Result<i32, String> {
    let nodes = Nodes::here().ok_or(
        "there is one NUMA node, or the kernel does not report the distances between nodes: \
         nothing can move",
    )?;
    let costs = migration::costs(&nodes);
    println!(
        "{:>8}{:>10}{:>7}{:>8}  {:27}{:27}decided",
        "distance", "bytes", "reads", "writes", "predicted ms", "measured ms"
    );
    println!("{:33}  {:27}{:27}", "", "stay    pages   thread", "stay    pages   thread");
    let (mut all, mut right) = (0, 0);
    for apart in pairs(&nodes) {
        for (bytes, (reads, writes)) in SIZES.iter().flat_map(|&bytes| USES.map(|one| (bytes, one)))
        {
            let planned = PlannedUse { reads: f64::from(reads), writes: f64::from(writes) };
            let forecast = forecast(costs, &nodes, apart, planned, bytes as u64)?;
            let measured = measured(&nodes, apart, (reads, writes), bytes)?;
            let (choice, took) = match forecast.choice() {
                Migration::Stay => ("stay", measured[0]),
                Migration::MovePages => ("pages", measured[1]),
                Migration::MoveThread(_) => ("thread", measured[2]),
            };
            let is_right = took <= measured.into_iter().fold(f64::MAX, f64::min) * AS_GOOD;
            let predicted = [
                forecast.stay_ns,
                forecast.pages_ns.unwrap_or(f64::NAN),
                forecast.thread.map_or(f64::NAN, |thread| thread.1),
            ];
            println!(
                "{:>8}{:>10}{reads:>7}{writes:>8}  {:27}{:27}{choice}{}",
                apart.distance,
                size(bytes as u64),
                milliseconds(predicted),
                milliseconds(measured),
                if is_right { "" } else { ", which is not the fastest" }
            );
            all += 1;
            right += u32::from(is_right);
        }
    }
    println!("{right} of {all} decisions are the fastest, or within 10 % of it");
    Ok(0)
}

fn milliseconds(times: [f64; 3]) -> String {
    times.map(|ns| format!("{:<8.2}", ns / 1e6)).concat()
}

/// A pair of nodes for each distance except the least.
fn pairs(nodes: &Nodes) -> Vec<DistantPair> {
    let mut by_distance = BTreeMap::new();
    for (thread, memory) in nodes.usable().flat_map(|from| nodes.usable().map(move |to| (from, to)))
    {
        let distance = nodes.distance(thread, memory);
        by_distance.entry(distance).or_insert(DistantPair { thread, memory, distance });
    }
    by_distance.into_values().filter(|apart| apart.thread != apart.memory).collect()
}

fn forecast(
    costs: &NodeCosts,
    nodes: &Nodes,
    apart: DistantPair,
    planned: PlannedUse,
    bytes: u64,
) -> Result<MigrationForecast, String> {
    let places = UsePlaces {
        memory: vec![(apart.memory, bytes)],
        here: apart.thread,
        others: vec![apart.memory],
    };
    let forecast = costs.forecast(planned, &places, |from, to| nodes.distance(from, to));
    forecast.ok_or_else(|| "the cost of memory of other nodes could not be measured".to_owned())
}

/// The shortest times in nanoseconds to stay, to move the pages, and to move the thread, including
/// the use of the memory.
fn measured(
    nodes: &Nodes,
    apart: DistantPair,
    uses: (u32, u32),
    bytes: usize,
) -> Result<[f64; 3], String> {
    let mut least = [f64::MAX; 3];
    for _ in 0..RUNS {
        for (least, how) in least.iter_mut().zip([
            Migration::Stay,
            Migration::MovePages,
            Migration::MoveThread(apart.memory),
        ]) {
            let time =
                thread::scope(|scope| scope.spawn(|| once(nodes, apart, uses, bytes, how)).join());
            *least = least.min(time.map_err(|_| "a measuring thread has ended".to_owned())??);
        }
    }
    Ok(least)
}

fn once(
    nodes: &Nodes,
    apart: DistantPair,
    (reads, writes): (u32, u32),
    bytes: usize,
    how: Migration,
) -> Result<f64, String> {
    let reported = |cause: std::io::Error| cause.to_string();
    nodes.bind(apart.thread).map_err(reported)?;
    let mut block = PlacedBlock::new(bytes, apart.memory).ok_or("memory could not be placed")?;
    accesses::evict(block.lines());
    let begun = Instant::now();
    match how {
        Migration::Stay => {}
        Migration::MovePages => {
            numa::migrate(block.addresses(), &[apart.thread]).map_err(reported)?;
        }
        Migration::MoveThread(node) => nodes.bind(node).map_err(reported)?,
    }
    for _ in 0..reads {
        accesses::load(block.lines());
    }
    for round in 0..writes {
        accesses::store(block.lines(), u64::from(round));
    }
    Ok(begun.elapsed().as_nanos() as f64)
}
