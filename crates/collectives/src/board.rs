//! Operations on the board: memory that the members of a communicator share. Each member has a
//! slot, which it writes and all others read.
//!
//! A member that contributes data writes it into its slot once and raises its flag. A member that
//! needs the data waits for that flag and reads. No process waits for more than one turn on a core
//! of each of the others, and no message is sent (the *flat* algorithms). If each member has a
//! core, long data goes in pieces: one is written while the earlier ones are read. In larger
//! reductions each process combines one share and shows the result in its turn, or one process
//! combines everything for the others. If members are in several parts of the machine, short
//! operations may go by parts, through a leader of each; among many members also by groups of
//! neighbouring ranks. Data that does not fit in a slot takes
//! several turns, one after the other.
//!
//! The operations that move data count blocks in bytes
//! ([`counts_bytes`](crate::Schedule::counts_bytes)). The operations that combine count elements.
//! The operations whose blocks have individual sizes name whole blocks, each at the beginning of
//! its slot.

mod capacity;
mod combining;
mod costs;
mod flow;
mod moving;
mod parts;

pub(crate) use capacity::fits;
pub use capacity::{RegionSupport, SIZE_MAX, SlotCapacities, SlotCapacity};
pub use combining::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};
pub use costs::{Prediction, predict};
pub use moving::{
    allgather, allgatherv, alltoall, alltoallv, barrier, bcast, gather, gatherv, scatter, scatterv,
};
pub use parts::BoardParts;
