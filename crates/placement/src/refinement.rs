//! Refinement of a cut after Fiduccia and Mattheyses. Each step makes the best possible move, even
//! if it makes the cut worse. At the end the cut returns to the best state that was reached.

use std::collections::BinaryHeap;

use crate::graph::{AffinityGraph, Half};

/// The allowed number of ranks on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub least: u64,
    pub most: u64,
}

impl Bounds {
    /// The number of ranks by which a load is out of bounds.
    pub fn violation(self, load: u64) -> u64 {
        self.least.saturating_sub(load).max(load.saturating_sub(self.most))
    }

    pub fn widened(self, by: u64) -> Self {
        Self { least: self.least.saturating_sub(by), most: self.most + by }
    }
}

/// The maximum number of passes over all vertices.
const PASSES_MAX: u32 = 12;

/// Improves the balance first and then the cut, until a pass brings no improvement.
pub(crate) fn refine(graph: &AffinityGraph, sides: &mut [Half], bounds: Bounds) {
    for _ in 0..PASSES_MAX {
        if !Pass::new(graph, sides, bounds).run() {
            return;
        }
    }
}

/// A pass over the vertices. Each vertex moves at most once.
struct Pass<'a> {
    graph: &'a AffinityGraph,
    sides: &'a mut [Half],
    bounds: Bounds,
    load: u64,
    /// By how much the cut decreases when a vertex moves.
    gains: Vec<i64>,
    /// Whether a vertex has moved, or cannot move.
    locked: Vec<bool>,
    /// For each side, the moves away from it, best on top. The heaps may contain outdated moves.
    moves: [BinaryHeap<(i64, u32, u32)>; 2],
    /// The next number of an entry. Of equal moves the latest is taken, because it is near the
    /// previous moves.
    stamp: u32,
}

impl<'a> Pass<'a> {
    fn new(graph: &'a AffinityGraph, sides: &'a mut [Half], bounds: Bounds) -> Self {
        let load = graph.load(sides);
        let count = graph.len();
        let mut pass = Self {
            graph,
            sides,
            bounds,
            load,
            gains: vec![0; count],
            locked: vec![false; count],
            moves: [BinaryHeap::new(), BinaryHeap::new()],
            stamp: 0,
        };
        for vertex in 0..count as u32 {
            let side = pass.sides[vertex as usize];
            let signed = |&(neighbor, weight): &(u32, i64)| {
                if pass.sides[neighbor as usize] == side { -weight } else { weight }
            };
            pass.gains[vertex as usize] = graph.neighbors(vertex).iter().map(signed).sum();
            if graph.fixed[vertex as usize].is_some() {
                pass.locked[vertex as usize] = true;
            } else {
                pass.offer(vertex);
            }
        }
        pass
    }

    fn offer(&mut self, vertex: u32) {
        let heap = &mut self.moves[self.sides[vertex as usize] as usize];
        heap.push((self.gains[vertex as usize], self.stamp, vertex));
        self.stamp += 1;
    }

    /// Runs the pass. Returns whether it improved the cut.
    fn run(mut self) -> bool {
        // Limits the number of moves without improvement.
        let attempts_left = 50 + self.graph.len() / 8;
        let slack = self.graph.size_max();
        let mut moved: Vec<u32> = Vec::new();
        let mut loss = 0_i64;
        let mut best = (self.bounds.violation(self.load), 0);
        let mut best_length = 0;
        while moved.len() - best_length < attempts_left {
            let Some(vertex) = self.next(slack) else { break };
            loss -= self.gains[vertex as usize];
            self.shift(vertex);
            moved.push(vertex);
            let now = (self.bounds.violation(self.load), loss);
            if now < best {
                (best, best_length) = (now, moved.len());
            }
        }
        for &vertex in &moved[best_length..] {
            self.sides[vertex as usize] = self.sides[vertex as usize].other();
        }
        best_length > 0
    }

    /// Returns the next vertex to move.
    fn next(&mut self, slack: u64) -> Option<u32> {
        loop {
            let left = self.top(Half::Left);
            let right = self.top(Half::Right);
            let side = match (left, right) {
                (None, None) => return None,
                (Some(_), None) => Half::Left,
                (None, Some(_)) => Half::Right,
                (Some(_), Some(_)) if self.load > self.bounds.most => Half::Left,
                (Some(_), Some(_)) if self.load < self.bounds.least => Half::Right,
                (Some(left), Some(right)) if left.0 >= right.0 => Half::Left,
                _ => Half::Right,
            };
            let (_, _, vertex) = self.moves[side as usize].pop()?;
            let after = self.load_after(vertex);
            let wide = self.bounds.widened(slack);
            if wide.violation(after) == 0 || wide.violation(after) < wide.violation(self.load) {
                return Some(vertex);
            }
            self.locked[vertex as usize] = true;
        }
    }

    /// The best move away from a side. Outdated moves before it are dropped.
    fn top(&mut self, side: Half) -> Option<(i64, u32, u32)> {
        let heap = &mut self.moves[side as usize];
        while let Some(&(gain, stamp, vertex)) = heap.peek() {
            if !self.locked[vertex as usize] && self.gains[vertex as usize] == gain {
                return Some((gain, stamp, vertex));
            }
            heap.pop();
        }
        None
    }

    fn load_after(&self, vertex: u32) -> u64 {
        let size = u64::from(self.graph.sizes[vertex as usize]);
        match self.sides[vertex as usize] {
            Half::Left => self.load - size,
            Half::Right => self.load + size,
        }
    }

    fn shift(&mut self, vertex: u32) {
        self.load = self.load_after(vertex);
        self.locked[vertex as usize] = true;
        let side = self.sides[vertex as usize].other();
        self.sides[vertex as usize] = side;
        let graph = self.graph;
        for &(neighbor, weight) in graph.neighbors(vertex) {
            let change = if self.sides[neighbor as usize] == side { -2 } else { 2 };
            self.gains[neighbor as usize] += change * weight;
            if !self.locked[neighbor as usize] {
                self.offer(neighbor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    /// A graph of `count` vertices, each one rank.
    fn graph(count: u32, edges: &[(u32, u32, i64)]) -> AffinityGraph {
        let mut graph = AffinityGraph { starts: vec![0], ..AffinityGraph::default() };
        for vertex in 0..count {
            for &(one, other, weight) in edges {
                if vertex == one || vertex == other {
                    graph.edges.push((one + other - vertex, weight));
                }
            }
            graph.starts.push(graph.edges.len() as u32);
            graph.sizes.push(1);
            graph.fixed.push(None);
        }
        graph
    }

    fn halves(count: u32) -> Bounds {
        Bounds { least: u64::from(count / 2), most: u64::from(count.div_ceil(2)) }
    }

    /// Puts every second vertex on the left, the worst cut of the graphs below.
    fn alternating(count: u32) -> Vec<Half> {
        (0..count).map(|vertex| if vertex % 2 == 0 { Half::Left } else { Half::Right }).collect()
    }

    fn refined(graph: &AffinityGraph, mut sides: Vec<Half>, bounds: Bounds) -> (u64, i64) {
        refine(graph, &mut sides, bounds);
        (bounds.violation(graph.load(&sides)), graph.cut(&sides))
    }

    #[test]
    fn the_best_cuts_are_found_from_bad_ones() {
        let cliques: Vec<_> = (0..16)
            .flat_map(|one| (one + 1..16).map(move |other| (one, other)))
            .filter(|(one, other)| one / 8 == other / 8)
            .map(|(one, other)| (one, other, 1))
            .chain([(7, 8, 1)])
            .collect();
        let line: Vec<_> = (0..31).map(|vertex| (vertex, vertex + 1, 1)).collect();
        let pairs: Vec<_> = (0..20).map(|pair| (2 * pair, 2 * pair + 1, 5)).collect();
        for (what, count, edges, best) in
            [("two cliques", 16, cliques, 1), ("a line", 32, line, 1), ("pairs", 40, pairs, 0)]
        {
            let graph = graph(count, &edges);
            let before = graph.cut(&alternating(count));
            let after = refined(&graph, alternating(count), halves(count));
            assert_eq!(after, (0, best), "{what}, cut at {before} before");
        }
    }

    #[test]
    fn the_balance_comes_before_the_cut() {
        let graph = graph(6, &[(0, 1, 9), (1, 2, 9), (3, 4, 9), (4, 5, 9), (2, 3, 1)]);
        for side in [Half::Left, Half::Right] {
            assert_eq!(refined(&graph, vec![side; 6], halves(6)), (0, 1));
        }
    }

    proptest! {
        #[test]
        fn no_cut_gets_worse_and_what_is_fixed_stays(
            count in 2_u32..40,
            seed in any::<u64>(),
            density in 1_u32..8,
        ) {
            let mut rng = Rng::with_seed(seed);
            let mut edge = |_| {
                let one = rng.u32(..count - 1);
                (one, rng.u32(one + 1..count), rng.i64(1..20))
            };
            let edges: Vec<_> = (0..count * density).map(&mut edge).collect();
            let mut graph = graph(count, &edges);
            let side = |rng: &mut Rng| if rng.bool() { Half::Left } else { Half::Right };
            let mut sides: Vec<Half> = (0..count).map(|_| side(&mut rng)).collect();
            for (fixed, side) in graph.fixed.iter_mut().zip(&sides) {
                *fixed = Some(*side).filter(|_| rng.u32(..5) == 0);
            }
            let bounds = halves(count);
            let judge = |sides: &[Half]| (bounds.violation(graph.load(sides)), graph.cut(sides));
            let before = judge(&sides);
            refine(&graph, &mut sides, bounds);
            prop_assert!(judge(&sides) <= before, "{:?} after {before:?}", judge(&sides));
            for (side, fixed) in sides.iter().zip(&graph.fixed) {
                prop_assert!(fixed.is_none_or(|fixed| fixed == *side));
            }
        }
    }
}
