//! What the library decides for a process on each node.

use driver_tcp::{NetworkSelection, usable};
use memory_costs::{Migration, PlannedUse, UsePlaces};
use runtime::machine;
use runtime::migration::{self, Nodes};
use runtime::rail_localities::{PreferredLocality, RailLocalities};
use serde::Serialize;
use topology::CpuSet;

/// The decisions for a process on a node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeDecision {
    /// The node.
    pub node: u32,
    /// The interface that it uses first, if the place of any is known, with the distance.
    pub interface: Option<(String, u32)>,
    /// The node of the library's buffers, if the process may run near that interface; otherwise
    /// they stay with the process.
    pub buffers: Option<u32>,
    /// The hardware threads of the helper, if only some of those of the process are near.
    pub helper: Option<Vec<usize>>,
    /// For memory of each other node: how often it must be read so that it moves here first;
    /// `None`: it stays however often it is read.
    pub moves: Vec<(u32, Option<u32>)>,
}

/// The size of the memory whose moves are decided.
pub const MOVED_BYTES: u64 = 8 << 20;

/// The numbers of reads that are tried.
const READS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Returns the decisions for each of these nodes, with interfaces of the selected networks.
pub fn of(
    nodes: Option<&Nodes>,
    processes: &[u32],
    selection: &NetworkSelection,
) -> Vec<NodeDecision> {
    let interfaces: Vec<(String, u64)> = usable(selection)
        .into_iter()
        .map(|interface| (interface.name, interface.speed.unwrap_or(0)))
        .collect();
    processes.iter().map(|&node| decision(nodes, &interfaces, node)).collect()
}

fn decision(nodes: Option<&Nodes>, interfaces: &[(String, u64)], node: u32) -> NodeDecision {
    let mut decision =
        NodeDecision { node, interface: None, buffers: None, helper: None, moves: Vec::new() };
    let Some(nodes) = nodes else { return decision };
    let cpuset: CpuSet = nodes.cores(node).iter().copied().collect();
    if let Some(tree) = machine::tree_with_devices() {
        let seen = RailLocalities::seen_from(tree, &cpuset, interfaces, 0);
        let place = |nearest: usize| {
            let distance = seen.places.get(nearest)?.as_ref()?.distance;
            Some((interfaces.get(nearest)?.0.clone(), distance))
        };
        decision.interface = seen.nearest.and_then(place);
        if let Some(PreferredLocality { threads, node }) = seen.preferred_locality {
            decision.buffers = node;
            decision.helper = threads.map(|threads| threads.iter().collect());
        }
    }
    let costs = migration::costs(nodes);
    let moves = |far: u32, reads: u32| {
        let places = UsePlaces { memory: vec![(far, MOVED_BYTES)], here: node, others: Vec::new() };
        let planned = PlannedUse { reads: f64::from(reads), writes: 0.0 };
        let forecast = costs.forecast(planned, &places, |from, to| nodes.distance(from, to));
        forecast.is_some_and(|forecast| forecast.choice() == Migration::MovePages)
    };
    let others = nodes.all().filter(|far| *far != node);
    decision.moves =
        others.map(|far| (far, READS.into_iter().find(|reads| moves(far, *reads)))).collect();
    decision
}
