#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod annealing;
mod bisection;
mod cost;
mod embedding;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod graph;
mod hierarchy;
mod leaves;
mod mapping;
mod matrix;
pub mod patterns;
mod refinement;
mod search;
mod tree;
mod turning;

pub use cost::{PlacementOrder, cost, place_in_order};
pub use leaves::Placement;
pub use mapping::place;
pub use matrix::{Affinity, Amount, Matrix, Weighing};
pub use tree::{Branch, BranchTree};
pub use turning::{distance_to_interfaces, turn};
