//! Collective algorithms as pure functions to schedules.
//!
//! Each operation is a function of who asks ([`Member`]), of the root, and of the sizes that all
//! processes know, to a [`Schedule`]: rounds of transfers and local steps over numbered blocks.
//! Behind it stand several algorithms, each with the time that it is predicted to take ([`Cost`]),
//! and a `choose` which takes the cheapest. The prediction depends on sizes and on what all members
//! were told of their situation ([`Situation`]), so that all processes of a communicator come to
//! the same answer without asking each other. `docs/collectives.md` tells which one is taken when,
//! and why.
//!
//! This crate executes nothing: no I/O, no memory, no datatypes, no clock. It knows no
//! communicator, only ranks from zero to the size.

#![forbid(unsafe_code)]

mod algorithm;
pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod board;
mod call;
mod costs;
pub mod direct;
mod estimate;
mod fold;
pub mod gather;
mod halving;
mod hierarchy;
pub mod inter;
mod member;
pub mod neighborhood;
mod operation;
mod plan;
pub mod portions;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
pub mod scatter;
mod schedule;
mod share;
mod situation;
mod tree;

pub use algorithm::Algorithm;
pub use allgather::{allgather, allgatherv};
pub use allreduce::allreduce;
pub use alltoall::{alltoall, alltoallv};
pub use barrier::barrier;
pub use bcast::bcast;
pub use call::{CallForm, CollectiveCall, Function};
pub use costs::{Costs, Crossing};
pub use estimate::Cost;
pub use fold::Operands;
pub use gather::{gather, gatherv};
pub use hierarchy::leaders;
pub use member::{InputPlace, Member};
pub use neighborhood::{neighbor_allgather, neighbor_alltoall};
pub use operation::{AlgorithmPreferences, CollectiveOperation};
pub use plan::{Candidate, CollectivePlan, candidates, plan};
pub use reduce::reduce;
pub use reduce_scatter::{reduce_scatter, reduce_scatter_block};
pub use scan::{exscan, scan};
pub use scatter::{scatter, scatterv};
pub use schedule::{
    Area, BlockRange, ExposureRole, Local, Operand, PORTIONS_MAX, Round, Schedule, Transfer,
};
pub use situation::{Level, ProcessLayout, Situation, Width};
