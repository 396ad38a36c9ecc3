//! Collective operations (chapter 6 of the standard), each in three forms: blocking, nonblocking
//! and persistent. The operations differ in how their arguments become an operation that is ready
//! to run, which is the task of the modules below.

mod blocks;
mod movement;
mod neighborhoods;
mod reductions;

use std::ffi::c_void;
use std::rc::Rc;

use base::ErrorClass;
use mpi::collective::{CallForm, Collective, Invocation, Root};
use mpi::info::Info;

use crate::arguments::{
    BlocksArgument, ElementsArgument, KnownCommunicator, KnownOperation, Out, is_in_place,
};
use crate::c::Request;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::handler_owner::HandlerOwner;
use crate::requests::{Pending, PendingRequest};

use blocks::BlockList;
use reductions::{CountedOperands, ReduceOperands};

pub use neighborhoods::{incoming, outgoing};
pub use reductions::{ReductionBuffers, allreduce_arguments, reduce_local};

/// Defines for each operation its three functions. The arguments before the communicator are those
/// of the function that prepares the operation.
macro_rules! forms {
    ($($prepare:path => $blocking:ident, $nonblocking:ident, $persistent:ident
        ($($argument:ident: $type:ty),*);)*) => {$(
        pub fn $blocking(
            call: &Call,
            $($argument: $type,)*
            comm: KnownCommunicator,
        ) -> CallOutcome<()> {
            let process = &call.library.process;
            let invocation = Invocation::new(process, &comm, CallForm::Blocking);
            let prepared = $prepare(call, $($argument,)* &invocation)?;
            Ok(prepared.complete(process)?)
        }

        pub fn $nonblocking(
            call: &Call,
            $($argument: $type,)*
            comm: KnownCommunicator,
            request: Out<Request>,
        ) -> CallOutcome<()> {
            let process = &call.library.process;
            let invocation = Invocation::new(process, &comm, CallForm::Nonblocking);
            let prepared = $prepare(call, $($argument,)* &invocation)?;
            hand_out(call, &comm, prepared, request);
            Ok(())
        }

        pub fn $persistent(
            call: &Call,
            $($argument: $type,)*
            comm: KnownCommunicator,
            _info: Option<Rc<Info>>,
            request: Out<Request>,
        ) -> CallOutcome<()> {
            let process = &call.library.process;
            let invocation = Invocation::new(process, &comm, CallForm::Persistent);
            let prepared = $prepare(call, $($argument,)* &invocation)?;
            hand_out(call, &comm, prepared, request);
            Ok(())
        }
    )*};
}

forms! {
    movement::barrier => barrier, ibarrier, barrier_init();
    movement::bcast => bcast, ibcast, bcast_init(buffer: Option<ElementsArgument>, root: Root);
    movement::gather => gather, igather, gather_init(
        send: Option<ElementsArgument>, receive: Option<BlocksArgument>, root: Root
    );
    movement::gatherv => gatherv, igatherv, gatherv_init(
        send: Option<ElementsArgument>, receive: Option<BlockList>, root: Root
    );
    movement::scatter => scatter, iscatter, scatter_init(
        send: Option<BlocksArgument>, receive: Option<ElementsArgument>, root: Root
    );
    movement::scatterv => scatterv, iscatterv, scatterv_init(
        send: Option<BlockList>, receive: Option<ElementsArgument>, root: Root
    );
    movement::allgather => allgather, iallgather, allgather_init(
        send: ElementsArgument, receive: BlocksArgument
    );
    movement::allgatherv => allgatherv, iallgatherv, allgatherv_init(
        send: ElementsArgument, receive: BlockList
    );
    movement::alltoall => alltoall, ialltoall, alltoall_init(send: BlocksArgument, receive: BlocksArgument);
    movement::alltoallv => alltoallv, ialltoallv, alltoallv_init(
        send: BlockList, receive: BlockList
    );
    movement::alltoallv => alltoallw, ialltoallw, alltoallw_init(
        send: BlockList, receive: BlockList
    );
    neighborhoods::neighbor_allgather =>
        neighbor_allgather, ineighbor_allgather, neighbor_allgather_init(
        send: ElementsArgument, receive: BlocksArgument
    );
    neighborhoods::neighbor_allgatherv =>
        neighbor_allgatherv, ineighbor_allgatherv, neighbor_allgatherv_init(
        send: ElementsArgument, receive: BlockList
    );
    neighborhoods::neighbor_alltoall =>
        neighbor_alltoall, ineighbor_alltoall, neighbor_alltoall_init(
        send: BlocksArgument, receive: BlocksArgument
    );
    neighborhoods::neighbor_alltoallv =>
        neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init(
        send: BlockList, receive: BlockList
    );
    neighborhoods::neighbor_alltoallv =>
        neighbor_alltoallw, ineighbor_alltoallw, neighbor_alltoallw_init(
        send: BlockList, receive: BlockList
    );
    reductions::reduce => reduce, ireduce, reduce_init(
        operands: ReduceOperands, op: KnownOperation, root: Root
    );
    reductions::allreduce => allreduce, iallreduce, allreduce_init(
        operands: ReductionBuffers, op: KnownOperation
    );
    reductions::reduce_scatter_block =>
        reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init(
        operands: ReductionBuffers, op: KnownOperation
    );
    reductions::reduce_scatter => reduce_scatter, ireduce_scatter, reduce_scatter_init(
        operands: CountedOperands, op: KnownOperation
    );
    reductions::scan => scan, iscan, scan_init(operands: ReductionBuffers, op: KnownOperation);
    reductions::exscan => exscan, iexscan, exscan_init(operands: ReductionBuffers, op: KnownOperation);
}

/// Stores a request for a nonblocking or persistent operation.
fn hand_out(call: &Call, comm: &KnownCommunicator, prepared: Collective, place: Out<Request>) {
    let work = Pending::One(prepared.into_request(&call.library.process));
    let handler_owner = HandlerOwner::Communicator(comm.handle);
    place.set(call.library.requests.insert(PendingRequest { handler_owner, work }));
}

/// Fails if the address is `MPI_IN_PLACE`, which is not allowed for this argument.
fn refuse_in_place(position: usize, address: *const c_void) -> CallOutcome<()> {
    if !is_in_place(address) {
        return Ok(());
    }
    let detail = "is MPI_IN_PLACE, which is not allowed here";
    Err(Failure::argument(position, ErrorClass::Buffer, detail))
}
