//! Improving a cut by moving vertices over it, after Fiduccia and Mattheyses: always the best move
//! that is possible, also if it is none for the better, and in the end back to the best cut that
//! was met.

use std::collections::BinaryHeap;

use crate::graph::{Graph, Side};

/// How many ranks may be on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub least: u64,
    pub most: u64,
}

impl Bounds {
    /// By how many ranks a load is out of bounds.
    pub fn violation(self, load: u64) -> u64 {
        self.least.saturating_sub(load).max(load.saturating_sub(self.most))
    }

    pub fn widened(self, by: u64) -> Self {
        Self { least: self.least.saturating_sub(by), most: self.most + by }
    }
}

/// How often all vertices are gone through at most.
const PASSES_MAX: u32 = 12;

/// Improves the cut, first of all the balance, until nothing gets better.
pub(crate) fn refine(graph: &Graph, sides: &mut [Side], bounds: Bounds) {
    for _ in 0..PASSES_MAX {
        if !Pass::new(graph, sides, bounds).run() {
            return;
        }
    }
}

/// One time through the vertices, each of which moves at most once.
struct Pass<'a> {
    graph: &'a Graph,
    sides: &'a mut [Side],
    bounds: Bounds,
    load: u64,
    /// What the cut loses when a vertex moves.
    gains: Vec<i64>,
    /// Whether it has moved, or cannot.
    locked: Vec<bool>,
    /// For each side the moves away from it, the best on top; outdated ones among them.
    moves: [BinaryHeap<(i64, u32, u32)>; 2],
    /// Numbers entries, so that of equal moves the latest is taken: it is near the others.
    stamp: u32,
}

impl<'a> Pass<'a> {
    fn new(graph: &'a Graph, sides: &'a mut [Side], bounds: Bounds) -> Self {
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

    /// Returns whether the cut is better than before.
    fn run(mut self) -> bool {
        // Moves that lead nowhere end some time.
        let patience = 50 + self.graph.len() / 8;
        let slack = self.graph.size_max();
        let mut moved: Vec<u32> = Vec::new();
        let mut loss = 0_i64;
        let mut best = (self.bounds.violation(self.load), 0);
        let mut best_length = 0;
        while moved.len() - best_length < patience {
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

    /// The next vertex to move.
    fn next(&mut self, slack: u64) -> Option<u32> {
        loop {
            let left = self.top(Side::Left);
            let right = self.top(Side::Right);
            let side = match (left, right) {
                (None, None) => return None,
                (Some(_), None) => Side::Left,
                (None, Some(_)) => Side::Right,
                (Some(_), Some(_)) if self.load > self.bounds.most => Side::Left,
                (Some(_), Some(_)) if self.load < self.bounds.least => Side::Right,
                (Some(left), Some(right)) if left.0 >= right.0 => Side::Left,
                _ => Side::Right,
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

    /// The best move from a side; outdated ones before it are dropped.
    fn top(&mut self, side: Side) -> Option<(i64, u32, u32)> {
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
            Side::Left => self.load - size,
            Side::Right => self.load + size,
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
