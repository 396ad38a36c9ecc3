//! A HYDRO-like solver on simulated machines with the sizes of the course's study: blocks of a
//! grid, four neighbours, one reduction in each step. The reduction is carried out by the schedules
//! that this crate makes for every rank; computation and halos have the times of a model.

use std::collections::{HashMap, VecDeque};

use collectives::{
    CollectiveCall, Costs, InputPlace, Member, Operands, ProcessLayout, Situation, Transfer,
    allreduce, candidates,
};

/// Cores of a node, and threads of a process in the three modes of the study.
pub const NODE_CORES: u32 = 4;
pub const MODES: [(&str, u32); 3] = [("VN", 1), ("DUAL", 2), ("SMP", 4)];

/// The numbers of cores.
pub const CORES: [u32; 9] = [64, 256, 1024, 2048, 4096, 8192, 16_384, 32_768, 40_960];

/// The steps that are simulated, which take the time of the study's run.
const STEPS: u32 = 10;

/// A machine like that of the study, in which a point takes 15.8 µs of a core in a run: 6.17 s for
/// 1.6e9 points on 4096 cores.
const POINT_NS: f64 = 15_800.0 / STEPS as f64;

/// The width of a halo in points, and the bytes of a point: four numbers.
const HALO: u32 = 2;
const POINT_BYTES: u32 = 32;

/// What a thread that joins others adds to the time of all, as a share: imbalance and barriers.
const THREAD_SHARE: f64 = 0.004;

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub cores: u32,
    /// Threads of each process.
    pub threads: u32,
    /// Points along each edge of the square.
    pub edge: u32,
}

/// Returns the costs of a network of 425 MB/s with a latency of 2.5 µs.
fn costs() -> Costs {
    Costs {
        packet_ns: 500,
        latency_ns: 500,
        copy_ps: 500,
        far_packet_ns: 1000,
        far_latency_ns: 2500,
        far_ps: 2350,
        ..Costs::default()
    }
}

impl Run {
    /// The course's weak scaling on squares: 390,625 points for each core.
    pub fn weak(cores: u32, threads: u32) -> Self {
        let edge = (f64::from(cores) * 390_625.0).sqrt() as u32;
        Self { cores, threads, edge }
    }

    /// The course's strong scaling: 40,000 × 40,000 points.
    pub fn strong(cores: u32, threads: u32) -> Self {
        Self { cores, threads, edge: 40_000 }
    }

    /// Returns the time of the run in seconds.
    pub fn seconds(self) -> f64 {
        let processes = self.cores / self.threads;
        let world = World::new(self, processes);
        let mut clocks = vec![0.0; processes as usize];
        for _ in 0..STEPS {
            world.compute(&mut clocks);
            world.exchange(&mut clocks, Direction::Rows);
            world.exchange(&mut clocks, Direction::Columns);
            world.reduce(&mut clocks);
        }
        clocks.into_iter().fold(0.0, f64::max) * 1e-9
    }

    /// Returns the seconds that rank 0 spends with the messages of all other ranks, which it takes
    /// in the order of ranks when all have come, if its queue of unexpected messages is searched.
    pub fn searching_seconds(self) -> f64 {
        let processes = f64::from(self.cores / self.threads);
        processes * processes / 2.0 * ENTRY_NS * 1e-9
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Rows,
    Columns,
}

struct World {
    run: Run,
    costs: Costs,
    /// The grid of processes.
    rows: u32,
    columns: u32,
    /// Processes on a node.
    together: u32,
    /// For each rank, for each round of the reduction: to whom it sends, and from whom it receives.
    reduction: Vec<Vec<(Vec<u32>, Vec<u32>)>>,
}

impl World {
    fn new(run: Run, processes: u32) -> Self {
        let rows = (1..=processes)
            .rfind(|rows| processes.is_multiple_of(*rows) && rows * rows <= processes)
            .unwrap_or(1);
        let together = NODE_CORES / run.threads;
        let layout = ProcessLayout::by(processes, |rank| rank / together);
        let situation =
            Situation { layout, costs: costs(), cores: NODE_CORES, ..Situation::default() };
        let operands = Operands { count: 1, element_bytes: 8, commutative: true };
        let input = InputPlace::SendBuffer;
        let call = CollectiveCall::Allreduce { operands, input };
        let member = |rank: u32| Member { rank, size: processes, situation: &situation };
        // All members choose one algorithm.
        let algorithm = candidates(&call, member(0), None)[0].algorithm;
        let of_rank = |rank: u32| {
            let made = allreduce::with(algorithm, member(rank), operands, input);
            let round = |transfers: &[Transfer]| {
                let to = transfers.iter().filter_map(|one| match one {
                    Transfer::Send { peer, .. } => Some(*peer),
                    _ => None,
                });
                let from = transfers.iter().filter_map(|one| match one {
                    Transfer::Receive { peer, .. } => Some(*peer),
                    _ => None,
                });
                (to.collect(), from.collect())
            };
            made.rounds().map(|one| round(one.transfers)).collect()
        };
        let reduction = (0..processes).map(of_rank).collect();
        Self { run, costs: costs(), rows, columns: processes / rows, together, reduction }
    }

    /// Points of the longest block along each dimension.
    fn block(&self) -> (u32, u32) {
        (self.run.edge.div_ceil(self.rows), self.run.edge.div_ceil(self.columns))
    }

    fn compute(&self, clocks: &mut [f64]) {
        let (height, width) = self.block();
        // Fluxes are also computed along the edges, for both neighbours.
        let points = f64::from(height + HALO) * f64::from(width + HALO);
        let threads = f64::from(self.run.threads);
        let time = points * POINT_NS / threads * (1.0 + THREAD_SHARE * (threads - 1.0));
        clocks.iter_mut().for_each(|clock| *clock += time);
    }

    /// Exchanges halos with both neighbours of one dimension; the links of a node are shared by its
    /// processes.
    fn exchange(&self, clocks: &mut [f64], direction: Direction) {
        let (height, width) = self.block();
        let length = match direction {
            Direction::Rows => width,
            Direction::Columns => height,
        };
        let bytes = f64::from(length * HALO * POINT_BYTES);
        let mut network = Network::new(self);
        let neighbours = |rank: u32| -> Vec<u32> {
            let (row, column) = (rank / self.columns, rank % self.columns);
            match direction {
                Direction::Rows => {
                    [row.checked_sub(1), Some(row + 1).filter(|row| *row < self.rows)]
                        .into_iter()
                        .flatten()
                        .map(|row| row * self.columns + column)
                        .collect()
                }
                Direction::Columns => {
                    [column.checked_sub(1), Some(column + 1).filter(|one| *one < self.columns)]
                        .into_iter()
                        .flatten()
                        .map(|column| row * self.columns + column)
                        .collect()
                }
            }
        };
        for rank in 0..clocks.len() as u32 {
            for peer in neighbours(rank) {
                network.send(clocks, rank, peer, bytes);
            }
        }
        for rank in 0..clocks.len() as u32 {
            for peer in neighbours(rank) {
                assert!(network.receive(clocks, peer, rank), "the neighbour has sent");
            }
        }
    }

    /// Carries out the reduction by the schedules of all ranks.
    fn reduce(&self, clocks: &mut [f64]) {
        let mut network = Network::new(self);
        let mut states = vec![(0_usize, 0_usize); clocks.len()];
        let mut ready: VecDeque<u32> = (0..clocks.len() as u32).collect();
        let mut waiting: HashMap<(u32, u32), u32> = HashMap::new();
        while let Some(rank) = ready.pop_front() {
            let (mut round, mut received) = states[rank as usize];
            let rounds = &self.reduction[rank as usize];
            while let Some((to, from)) = rounds.get(round) {
                if received == 0 {
                    for peer in to {
                        network.send(clocks, rank, *peer, 8.0);
                        ready.extend(waiting.remove(&(rank, *peer)));
                    }
                }
                match from.get(received) {
                    None => (round, received) = (round + 1, 0),
                    Some(peer) if network.receive(clocks, *peer, rank) => {
                        received += 1;
                        if received == from.len() {
                            (round, received) = (round + 1, 0);
                        }
                    }
                    Some(peer) => {
                        waiting.insert((*peer, rank), rank);
                        break;
                    }
                }
            }
            states[rank as usize] = (round, received);
        }
        let is_over = |(state, rounds): (&(usize, usize), &Vec<_>)| state.0 >= rounds.len();
        assert!(states.iter().zip(&self.reduction).all(is_over), "every rank has its result");
    }
}

/// Messages on their way.
struct Network<'a> {
    world: &'a World,
    /// When the link of each node is free.
    links: Vec<f64>,
    arrivals: HashMap<(u32, u32), VecDeque<f64>>,
}

impl<'a> Network<'a> {
    fn new(world: &'a World) -> Self {
        let nodes = world.reduction.len().div_ceil(world.together as usize);
        Self { world, links: vec![0.0; nodes], arrivals: HashMap::new() }
    }

    fn is_near(&self, one: u32, other: u32) -> bool {
        one / self.world.together == other / self.world.together
    }

    fn send(&mut self, clocks: &mut [f64], from: u32, to: u32, bytes: f64) {
        let Costs { packet_ns, latency_ns, copy_ps, far_packet_ns, far_latency_ns, far_ps, .. } =
            self.world.costs;
        let clock = &mut clocks[from as usize];
        let arrival = if self.is_near(from, to) {
            *clock += packet_ns as f64 + bytes * copy_ps as f64 * 1e-3;
            *clock + latency_ns as f64
        } else {
            *clock += far_packet_ns as f64;
            let link = &mut self.links[(from / self.world.together) as usize];
            *link = link.max(*clock) + bytes * far_ps as f64 * 1e-3;
            *link + far_latency_ns as f64
        };
        self.arrivals.entry((from, to)).or_default().push_back(arrival);
    }

    /// Returns whether the message has been sent; then the receiver has waited for it.
    fn receive(&mut self, clocks: &mut [f64], from: u32, to: u32) -> bool {
        let arrival = self.arrivals.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let Some(arrival) = arrival else { return false };
        let packet_ns = match self.is_near(from, to) {
            true => self.world.costs.packet_ns,
            false => self.world.costs.far_packet_ns,
        };
        let clock = &mut clocks[to as usize];
        *clock = clock.max(arrival) + packet_ns as f64;
        true
    }
}

/// Seconds that the course measured on squares, by mode, from 4096 cores on.
pub const MEASURED_WEAK: [[f64; 5]; 3] = [
    [6.17, 6.67, 8.00, 13.32, 19.57],
    [6.17, 6.14, 6.52, 7.64, 8.56],
    [6.24, 6.19, 6.33, 6.57, 7.19],
];
pub const MEASURED_STRONG: [[f64; 5]; 3] = [
    [6.17, 3.54, 3.10, 8.07, 13.67],
    [6.17, 3.10, 1.88, 2.35, 3.12],
    [6.24, 3.10, 1.63, 1.20, 1.26],
];

/// The time of passing one entry of a queue with which the course's curves are met best, in
/// nanoseconds.
const ENTRY_NS: f64 = 14.0;
