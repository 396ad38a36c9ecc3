//! Operations on the board: memory that the members of a communicator share, in which each of them
//! has a slot to write to and all others read.
//!
//! Whoever contributes writes into its slot once and raises; whoever needs it waits for that flag
//! and reads. No process waits for more than one turn on a core of each of the others, and no
//! message is sent (the *flat* algorithms). Where each has a core, what is long goes in pieces: one
//! is written while those before are read. Of larger reductions each process combines one share and
//! shows the result in its turn, or one process combines all for the others. Where members lie in
//! several parts of the machine, short operations may go by parts, through a leader of each. What
//! does not fit in a slot takes several turns, one after the other.
//!
//! The operations that move data name bytes ([`counts_bytes`](crate::Schedule::counts_bytes)),
//! those that combine name elements, and those whose blocks have sizes of their own name whole
//! blocks, each at the beginning of its slot.

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
