//! Collective operations (chapter 6 of the standard), each in three forms: blocking, nonblocking
//! and persistent. What differs between operations is how their arguments become something that is
//! ready to run; the modules below do that.

mod blocks;
mod movement;
mod neighborhoods;
mod reductions;

use std::ffi::c_void;
use std::rc::Rc;

use base::ErrorClass;
use mpi::collective::{self, Collective, Root};
use mpi::info::Info;

use super::requests::{Pending, PendingRequest};
use crate::arguments::{Blocks, Elements, KnownCommunicator, KnownOperation, Out, is_in_place};
use crate::c::Request;
use crate::entry::Call;
use crate::failure::{Failure, Outcome};
use crate::report::Blamed;

use blocks::BlockList;
use reductions::{CountedOperands, ReduceOperands, ReductionBuffers};

pub use neighborhoods::{incoming, outgoing};
pub use reductions::reduce_local;

/// For each operation its three functions. The arguments before the communicator are those of the
/// function that prepares it; what stands in brackets tells whether it reduces.
macro_rules! forms {
    ($($prepare:path [$reduces:literal] => $blocking:ident, $nonblocking:ident, $persistent:ident
        ($($argument:ident: $type:ty),*);)*) => {$(
        #[allow(clippy::clone_on_copy, reason = "most arguments can be copied, but not all")]
        pub fn $blocking(
            call: &Call,
            $($argument: $type,)*
            comm: KnownCommunicator,
        ) -> Outcome<()> {
            let process = &call.library.process;
            if collective::lacks_board(&comm) {
                // The others are asked only when the arguments are known to be right.
                $prepare(call, $($argument.clone(),)* &comm)?;
                process.consider_board(&comm, $reduces)?;
            }
            let prepared = $prepare(call, $($argument,)* &comm)?;
            Ok(process.complete(prepared)?)
        }

        pub fn $nonblocking(
            call: &Call,
            $($argument: $type,)*
            comm: KnownCommunicator,
            request: Out<Request>,
        ) -> Outcome<()> {
            let prepared =
                collective::to_be_begun(&comm, || $prepare(call, $($argument,)* &comm))?;
            begin(call, &comm, prepared, request);
            Ok(())
        }

        pub fn $persistent(
            call: &Call,
            $($argument: $type,)*
            comm: KnownCommunicator,
            _info: Option<Rc<Info>>,
            request: Out<Request>,
        ) -> Outcome<()> {
            let prepared =
                collective::beside_the_board(&comm, || $prepare(call, $($argument,)* &comm))?;
            keep(call, &comm, prepared, request);
            Ok(())
        }
    )*};
}

forms! {
    movement::barrier [false] => barrier, ibarrier, barrier_init();
    movement::bcast [false] => bcast, ibcast, bcast_init(buffer: Option<Elements>, root: Root);
    movement::gather [false] => gather, igather, gather_init(
        send: Option<Elements>, receive: Option<Blocks>, root: Root
    );
    movement::gatherv [false] => gatherv, igatherv, gatherv_init(
        send: Option<Elements>, receive: Option<BlockList>, root: Root
    );
    movement::scatter [false] => scatter, iscatter, scatter_init(
        send: Option<Blocks>, receive: Option<Elements>, root: Root
    );
    movement::scatterv [false] => scatterv, iscatterv, scatterv_init(
        send: Option<BlockList>, receive: Option<Elements>, root: Root
    );
    movement::allgather [false] => allgather, iallgather, allgather_init(
        send: Elements, receive: Blocks
    );
    movement::allgatherv [false] => allgatherv, iallgatherv, allgatherv_init(
        send: Elements, receive: BlockList
    );
    movement::alltoall [false] => alltoall, ialltoall, alltoall_init(send: Blocks, receive: Blocks);
    movement::alltoallv [false] => alltoallv, ialltoallv, alltoallv_init(
        send: BlockList, receive: BlockList
    );
    movement::alltoallv [false] => alltoallw, ialltoallw, alltoallw_init(
        send: BlockList, receive: BlockList
    );
    neighborhoods::neighbor_allgather [false] =>
        neighbor_allgather, ineighbor_allgather, neighbor_allgather_init(
        send: Elements, receive: Blocks
    );
    neighborhoods::neighbor_allgatherv [false] =>
        neighbor_allgatherv, ineighbor_allgatherv, neighbor_allgatherv_init(
        send: Elements, receive: BlockList
    );
    neighborhoods::neighbor_alltoall [false] =>
        neighbor_alltoall, ineighbor_alltoall, neighbor_alltoall_init(
        send: Blocks, receive: Blocks
    );
    neighborhoods::neighbor_alltoallv [false] =>
        neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init(
        send: BlockList, receive: BlockList
    );
    neighborhoods::neighbor_alltoallv [false] =>
        neighbor_alltoallw, ineighbor_alltoallw, neighbor_alltoallw_init(
        send: BlockList, receive: BlockList
    );
    reductions::reduce [true] => reduce, ireduce, reduce_init(
        operands: ReduceOperands, op: KnownOperation, root: Root
    );
    reductions::allreduce [true] => allreduce, iallreduce, allreduce_init(
        operands: ReductionBuffers, op: KnownOperation
    );
    reductions::reduce_scatter_block [true] =>
        reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init(
        operands: ReductionBuffers, op: KnownOperation
    );
    reductions::reduce_scatter [true] => reduce_scatter, ireduce_scatter, reduce_scatter_init(
        operands: CountedOperands, op: KnownOperation
    );
    reductions::scan [true] => scan, iscan, scan_init(operands: ReductionBuffers, op: KnownOperation);
    reductions::exscan [true] => exscan, iexscan, exscan_init(operands: ReductionBuffers, op: KnownOperation);
}

/// Begins an operation, and makes a request of it.
fn begin(call: &Call, comm: &KnownCommunicator, prepared: Collective, place: Out<Request>) {
    let work = Pending::One(call.library.process.begin(prepared));
    let blamed = Blamed::Communicator(comm.handle);
    place.set(call.library.requests.insert(PendingRequest { blamed, work }));
}

/// Makes a persistent request of an operation.
fn keep(call: &Call, comm: &KnownCommunicator, prepared: Collective, place: Out<Request>) {
    let work = Pending::One(call.library.process.collective_init(prepared));
    let blamed = Blamed::Communicator(comm.handle);
    place.set(call.library.requests.insert(PendingRequest { blamed, work }));
}

/// Fails for an address that is in place where that is not allowed.
fn refuse_in_place(position: usize, address: *const c_void) -> Outcome<()> {
    if !is_in_place(address) {
        return Ok(());
    }
    let detail = "is MPI_IN_PLACE, which is not allowed here";
    Err(Failure::argument(position, ErrorClass::Buffer, detail))
}
