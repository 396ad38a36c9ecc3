//! Multilevel bisection: cutting a graph in two so that little weight is cut. Coarse images of the
//! graph are cut first, then the cut is refined on larger and larger images.
//!
//! Why: docs/internals/decisions/0022-placement-divides-from-the-root-down.md

use std::collections::BinaryHeap;

use fastrand::Rng;

use crate::graph::{AffinityGraph, Half};
use crate::refinement::{Bounds, refine};

/// A graph of at most this size is cut without coarsening.
const SMALL: usize = 40;

/// The number of initial cuts of the coarsest image.
const FIRST_CUTS: u32 = 8;

/// The work of one bisection, in edges and vertices; the minimum and maximum number of attempts.
const WORK: usize = 120_000;
const ATTEMPTS_MIN: usize = 3;
const ATTEMPTS_MAX: usize = 12;

/// Returns the best cut found whose left load is within the bounds, as far as fixed vertices allow.
/// Each vertex stands for one rank.
pub(crate) fn bisect(graph: &AffinityGraph, bounds: Bounds, rng: &mut Rng) -> Vec<Half> {
    let judge = |sides: &[Half]| (bounds.violation(graph.load(sides)), graph.cut(sides));
    let mut best = in_order(graph, bounds);
    refine(graph, &mut best, bounds);
    let mut judged = judge(&best);
    let attempts = WORK / (graph.len() + graph.edges.len() + 1);
    for _ in 0..attempts.clamp(ATTEMPTS_MIN, ATTEMPTS_MAX) {
        if judged == (0, 0) {
            break;
        }
        let sides = by_images(graph, bounds, rng);
        let other = judge(&sides);
        if other < judged {
            (best, judged) = (sides, other);
        }
    }
    best
}

/// Puts the first vertices to the left and the others to the right, as many as the bounds require.
fn in_order(graph: &AffinityGraph, bounds: Bounds) -> Vec<Half> {
    let vertices = graph.fixed.iter().zip(&graph.sizes);
    let on_left = vertices.filter(|(fixed, _)| **fixed == Some(Half::Left));
    let on_left: u64 = on_left.map(|(_, size)| u64::from(*size)).sum();
    let mut room = bounds.most.saturating_sub(on_left);
    let side = |fixed: &Option<Half>| match fixed {
        Some(side) => *side,
        None if room > 0 => {
            room -= 1;
            Half::Left
        }
        None => Half::Right,
    };
    graph.fixed.iter().map(side).collect()
}

/// Cuts a coarser image first, then refines the cut.
fn by_images(graph: &AffinityGraph, bounds: Bounds, rng: &mut Rng) -> Vec<Half> {
    if graph.len() <= SMALL {
        return first_cut(graph, bounds, rng);
    }
    let all: u64 = graph.sizes.iter().map(|size| u64::from(*size)).sum();
    let size_max = (all / (SMALL as u64 / 2)).max(2);
    let (smaller, images) = graph.coarsened(size_max, rng);
    // A graph that hardly shrinks, because few vertices are connected, is cut without coarsening.
    if smaller.len() * 20 > graph.len() * 19 {
        return first_cut(graph, bounds, rng);
    }
    // Large vertices cannot be distributed exactly; refinement on the finer images corrects that.
    let wide = bounds.widened(if smaller.size_max() > 1 { smaller.size_max() / 2 } else { 0 });
    let coarse = by_images(&smaller, wide, rng);
    let mut sides: Vec<Half> = images.iter().map(|image| coarse[*image as usize]).collect();
    refine(graph, &mut sides, bounds);
    sides
}

/// The best of several cuts that grow from random vertices.
fn first_cut(graph: &AffinityGraph, bounds: Bounds, rng: &mut Rng) -> Vec<Half> {
    let cut = |round: u32, rng: &mut Rng| {
        let target = match round % 3 {
            0 => bounds.most,
            1 => bounds.least,
            _ => bounds.least.midpoint(bounds.most),
        };
        let mut sides = grown(graph, target, rng);
        refine(graph, &mut sides, bounds);
        ((bounds.violation(graph.load(&sides)), graph.cut(&sides)), sides)
    };
    let mut best = cut(0, rng);
    for round in 1..FIRST_CUTS {
        let other = cut(round, rng);
        if other.0 < best.0 {
            best = other;
        }
    }
    best.1
}

/// A left side that grows from one vertex, always by the vertex that is most strongly connected to
/// it.
fn grown(graph: &AffinityGraph, target: u64, rng: &mut Rng) -> Vec<Half> {
    let mut sides: Vec<Half> =
        graph.fixed.iter().map(|fixed| fixed.unwrap_or(Half::Right)).collect();
    let mut load = graph.load(&sides);
    let mut order: Vec<u32> = (0..graph.len() as u32).collect();
    rng.shuffle(&mut order);
    // The gain of moving a vertex to the left: its edge weight to the left minus that to the right.
    let mut gains: Vec<i64> = (0..graph.len() as u32)
        .map(|vertex| -graph.neighbors(vertex).iter().map(|edge| edge.1).sum::<i64>())
        .collect();
    let mut next: BinaryHeap<(i64, u32)> = BinaryHeap::new();
    let mut attract = |vertex: u32, next: &mut BinaryHeap<(i64, u32)>| {
        for &(neighbor, weight) in graph.neighbors(vertex) {
            gains[neighbor as usize] += 2 * weight;
            next.push((gains[neighbor as usize], neighbor));
        }
    };
    for vertex in 0..graph.len() as u32 {
        if sides[vertex as usize] == Half::Left {
            attract(vertex, &mut next);
        }
    }
    while load < target {
        let vertex = match next.pop() {
            Some((_, vertex)) => vertex,
            None => match order.pop() {
                Some(vertex) => vertex,
                None => break,
            },
        };
        let is_free =
            sides[vertex as usize] == Half::Right && graph.fixed[vertex as usize].is_none();
        let size = u64::from(graph.sizes[vertex as usize]);
        if !is_free || load + size / 2 > target {
            continue;
        }
        sides[vertex as usize] = Half::Left;
        load += size;
        attract(vertex, &mut next);
    }
    sides
}
