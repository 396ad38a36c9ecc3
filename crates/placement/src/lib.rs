//! Which rank runs where: a matrix of communication mapped on a tree of places.
//!
//! [`place`] divides the ranks among the branches of a [`Tree`], groups within groups from the root
//! down, so that those are near each other that have much to say to each other ([`Matrix`],
//! [`Affinity`]). Each division is a sequence of cuts in two (`bisection`: on small images of the
//! graph first, improved by moves in the manner of Fiduccia and Mattheyses), after which pairs of
//! groups exchange ranks, and in the end single ranks wherever that makes the whole cheaper
//! (`search`). [`turn`] then brings those nearest to the network interfaces that talk most to
//! other machines, without changing the grouping.
//!
//! All of it is pure and deterministic: no I/O, no threads, no clock; the same input gives the same
//! placement in every process. `docs/placement.md` tells how good it is.

#![forbid(unsafe_code)]

mod bisection;
mod cost;
mod graph;
mod mapping;
mod matrix;
pub mod patterns;
mod refinement;
mod search;
mod tree;
mod turning;

pub use cost::{Placement, PlacementOrder, cost, place_in_order};
pub use mapping::place;
pub use matrix::{Affinity, Amount, Matrix, Weighing};
pub use tree::{Branch, BranchTree};
pub use turning::{distance_to_interfaces, turn};
