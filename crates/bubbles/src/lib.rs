#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod machine;
mod plan;
mod pool;
pub mod schedulers;
mod tactic;

pub use machine::{MachineTree, Vertex, VertexId};
pub use plan::{Event, Move, Place, Plan, Scheduler};
pub use pool::{Entity, EntityId, Pool, Relation, State};
