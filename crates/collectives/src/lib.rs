#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod agreement;
mod algorithm;
pub mod allgather;
pub mod allreduce;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod board;
mod call;
mod cost;
mod costs;
pub mod direct;
mod estimate;
mod fold;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod gather;
mod halving;
mod hierarchy;
pub mod inter;
mod layout;
mod member;
pub mod neighborhood;
mod operands;
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
mod width;

pub use algorithm::Algorithm;
pub use allgather::{allgather, allgatherv};
pub use allreduce::allreduce;
pub use alltoall::{alltoall, alltoallv, next_part};
pub use barrier::barrier;
pub use bcast::bcast;
pub use call::{CallForm, CollectiveCall, Function};
pub use cost::Cost;
pub use costs::{Costs, Crossing};
pub use gather::{gather, gatherv};
pub use hierarchy::leaders;
pub use layout::ProcessLayout;
pub use member::{InputPlace, Member};
pub use neighborhood::{neighbor_allgather, neighbor_alltoall};
pub use operands::Operands;
pub use operation::{AlgorithmPreferences, CollectiveOperation};
pub use plan::{Candidate, CollectivePlan, candidates, plan};
pub use reduce::reduce;
pub use reduce_scatter::{reduce_scatter, reduce_scatter_block};
pub use scan::{exscan, scan};
pub use scatter::{scatter, scatterv};
pub use schedule::{
    Area, BlockRange, BlockRuns, ExposureRole, Local, Operand, PORTIONS_MAX, Round, Schedule,
    Transfer,
};
pub use situation::{Level, Situation};
pub use width::Width;
