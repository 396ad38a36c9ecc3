//! Partitioned point-to-point communication (chapter 4 of the MPI standard).
//!
//! The sender's and the receiver's persistent request meet once: the sender sends an
//! *introduction* that describes how it divides its data. The introduction has the program's tag
//! and uses a message space for introductions. After that each partition that the program marks
//! as ready is sent immediately as a message of its own, and is received at its place in the
//! receiver's memory. The receiver posts a receive for each partition of the sender, however it
//! divides its own buffer. The messages of partitions have a message space of their own, in which
//! the sender reserves tags. The tags do not change from round to round, because messages between
//! two processes with one tag keep their order.
//!
//! Short data is sent as one message if all partitions are ready when the sender decides. The
//! sender decides at the end of the call that marks the first partition. It decides later if the
//! partitions of the previous round were ready soon after each other: when the last partition is
//! ready, or when a round of progress is made. The receiver posts a receive for the one message.
//! If that message is empty, each partition is sent as a message of its own. The receiver posts
//! receives for them when it next makes progress. Therefore the sender sends copies, and its
//! round does not wait for them. The next rounds then begin with a receive for each partition.
//!
//! Why: docs/internals/decisions/0008-a-partition-is-a-message.md

mod division;
mod introduction;
mod receiving;
mod sending;
pub(crate) mod spaces;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use engine::RequestId;
use runtime::Runtime;

use crate::Process;
use crate::active_operation::{ActiveOperation, Step};
use crate::collective::EqualBlocks;
use crate::communicator::Communicator;
use crate::contexts::SpacePurpose;
use crate::request::{PersistentOperation, Request};
use crate::status::MessageStatus;
use receiving::Receiving;
use sending::{Held, Sending};
use spaces::PartitionedSpaces;

/// A buffer in partitions of equal size.
#[derive(Clone, Debug)]
pub struct Partitions {
    /// The data; a block is a partition.
    pub blocks: EqualBlocks,
    /// The number of partitions.
    pub count: u32,
}

/// One side of a partitioned operation.
#[derive(Debug)]
pub struct Partitioned {
    /// Keeps the message spaces open as long as the operation exists.
    _communicator: Rc<Communicator>,
    side: PartitionedSide,
    active: Cell<bool>,
}

#[derive(Debug)]
enum PartitionedSide {
    Sending(Sending),
    Receiving(Receiving),
}

impl Partitioned {
    /// Returns the partitioned operation of a request, started or not, if it is one.
    pub fn of(request: &Request) -> Option<Rc<Self>> {
        let operation: Rc<dyn Any> = Rc::clone(request.operation()?) as _;
        operation.downcast().ok()
    }

    /// Whether the operation was started and its status was not taken yet.
    pub fn is_active(&self) -> bool {
        self.active.get()
    }

    /// The number of partitions of this side.
    fn partition_count(&self) -> u32 {
        match &self.side {
            PartitionedSide::Sending(sending) => sending.partition_count(),
            PartitionedSide::Receiving(receiving) => receiving.partition_count(),
        }
    }

    /// Whether the round is complete, or none was begun.
    fn is_over(&self, runtime: &mut Runtime) -> bool {
        !self.active.get()
            || match &self.side {
                PartitionedSide::Sending(sending) => sending.is_complete(runtime),
                PartitionedSide::Receiving(receiving) => receiving.is_complete(runtime),
            }
    }

    /// Returns the number of a partition.
    ///
    /// # Errors
    /// `Arg` if there is no such partition; the message text continues after the name of the
    /// argument.
    pub fn checked_partition(&self, partition: i32) -> Result<u32> {
        let count = self.partition_count();
        let number = u32::try_from(partition).ok().filter(|number| *number < count);
        number.ok_or_else(|| no_such_partition(partition, count))
    }
}

impl ActiveOperation for Partitioned {
    fn noun(&self) -> &'static str {
        "a partitioned operation"
    }

    /// A send needs one step if it holds partitions back. A receive needs no more steps when it has
    /// the introduction, because its receives are then posted. The process may end before that: a
    /// receive without a sender is the program's error, and must not make this process hang.
    fn advance(&self, process: &Process) -> Step {
        let mut runtime = process.runtime();
        match &self.side {
            PartitionedSide::Sending(sending) => sending.hold_no_longer(&mut runtime),
            PartitionedSide::Receiving(receiving) => {
                if self.active.get() && !receiving.post_when_introduced(&mut runtime) {
                    return Step::Idle;
                }
            }
        }
        Step::Over
    }

    fn is_complete(&self, process: &Process) -> bool {
        self.is_over(&mut process.runtime())
    }

    fn status(&self) -> MessageStatus {
        match &self.side {
            PartitionedSide::Sending(_) => MessageStatus::EMPTY,
            PartitionedSide::Receiving(receiving) => receiving.status(),
        }
    }

    fn take_if_complete(&self, process: &Process) -> Option<MessageStatus> {
        let is_complete = self.is_complete(process);
        is_complete.then(|| {
            self.active.set(false);
            self.status()
        })
    }

    fn end_if_fine(&self, runtime: &mut Runtime) -> bool {
        let has_no_error = || match &self.side {
            PartitionedSide::Sending(_) => true,
            PartitionedSide::Receiving(receiving) => receiving.is_fine(),
        };
        let is_fine = self.is_over(runtime) && has_no_error();
        if is_fine {
            self.active.set(false);
        }
        is_fine
    }

    fn awaited(&self) -> Option<RequestId> {
        match &self.side {
            PartitionedSide::Sending(_) => None,
            PartitionedSide::Receiving(receiving) => receiving.awaited(),
        }
    }

    fn start(self: Rc<Self>, process: &Process) {
        self.active.set(true);
        match &self.side {
            PartitionedSide::Sending(sending) => sending.start(),
            PartitionedSide::Receiving(receiving) => {
                receiving.start();
                if !receiving.post_when_introduced(&mut process.runtime()) {
                    process.keep_advancing(self);
                }
            }
        }
    }

    /// Not before the round is complete (section 4.2.1).
    fn may_be_freed(&self, process: &Process) -> bool {
        self.is_complete(process)
    }

    fn free(&self, process: &Process) {
        self.active.set(false);
        let mut runtime = process.runtime();
        match &self.side {
            PartitionedSide::Sending(sending) => sending.give_up(&mut runtime),
            PartitionedSide::Receiving(receiving) => receiving.give_up(&mut runtime),
        }
    }
}

impl Process {
    fn partitioned_spaces<'a>(&self, communicator: &'a Communicator) -> &'a PartitionedSpaces {
        communicator.partitioned_spaces(|block, rank| {
            let open = |purpose| communicator.open_context(self, block.id(purpose), rank);
            PartitionedSpaces::new(
                open(SpacePurpose::PartitionedIntroduction),
                open(SpacePurpose::PartitionedData),
            )
        })
    }
}

impl Communicator {
    /// Makes a request to send partitions to the process with rank `destination`; `None` is
    /// `MPI_PROC_NULL` (`MPI_Psend_init`, section 4.2.1).
    ///
    /// # Errors
    /// `Rank` if the communicator has no such process.
    pub fn partitioned_send_init(
        self: &Rc<Self>,
        process: &Process,
        destination: Option<u32>,
        tag: i32,
        partitions: Partitions,
    ) -> Result<Request> {
        let target = match destination {
            None => None,
            Some(rank) => Some((self.checked_gate(rank)?, rank)),
        };
        let spaces = process.partitioned_spaces(self);
        let sending = Sending::new(process, spaces, target, tag, partitions);
        Ok(request(self, PartitionedSide::Sending(sending)))
    }

    /// Makes a request to receive partitions from the process with rank `source`; `None` is
    /// `MPI_PROC_NULL` (`MPI_Precv_init`, section 4.2.1).
    ///
    /// # Errors
    /// Those of [`Communicator::partitioned_send_init`].
    pub fn partitioned_receive_init(
        self: &Rc<Self>,
        process: &Process,
        source: Option<u32>,
        tag: i32,
        partitions: Partitions,
    ) -> Result<Request> {
        if let Some(rank) = source {
            self.checked_gate(rank)?;
        }
        let spaces = process.partitioned_spaces(self);
        let receiving = Receiving::new(process, spaces, source, tag, partitions);
        Ok(request(self, PartitionedSide::Receiving(receiving)))
    }
}

impl Partitioned {
    /// Marks partitions as ready to be sent (`MPI_Pready` and its variants, section 4.2.2). If
    /// one of them is invalid, those before it are marked.
    ///
    /// # Errors
    /// `Request` if the operation is not a send or was not started; `Arg` if there is no such
    /// partition, or it was marked in this round already. The message texts of `Arg` continue
    /// after the name of the argument.
    pub fn mark_ready(
        self: &Rc<Self>,
        process: &Process,
        partitions: impl Iterator<Item = i32>,
    ) -> Result<()> {
        let PartitionedSide::Sending(sending) = &self.side else {
            let what =
                "the request receives partitions; only partitions to send can be marked as ready";
            return Err(Error::new(ErrorClass::Request, what));
        };
        if !self.active.get() {
            let what = "the request is not active: start it before its partitions are ready";
            return Err(Error::new(ErrorClass::Request, what));
        }
        let marked = sending.mark_ready(process, partitions);
        match sending.send_marked(process) {
            Held::Begun => process.advance_in_progress(Rc::clone(self) as Rc<_>),
            Held::Ended => process.stop_advancing(&**self),
            Held::Unchanged => {}
        }
        // A thread that waits for the operation may be asleep.
        process.wake_other_threads();
        marked
    }

    /// Returns whether a partition has arrived, after one round of progress (`MPI_Parrived`,
    /// section 4.2.3). Returns true if no round is active.
    ///
    /// # Errors
    /// `Request` if the operation is no receive; `Arg` if there is no such partition.
    pub fn has_arrived(&self, process: &Process, partition: i32) -> Result<bool> {
        let PartitionedSide::Receiving(receiving) = &self.side else {
            let what = "the request sends partitions; only partitions to receive can arrive";
            return Err(Error::new(ErrorClass::Request, what));
        };
        let partition = self.checked_partition(partition)?;
        if !self.active.get() || receiving.has_arrived(&mut process.runtime(), partition) {
            return Ok(true);
        }
        process.progress();
        Ok(!self.active.get() || receiving.has_arrived(&mut process.runtime(), partition))
    }
}

#[cold]
fn no_such_partition(partition: i32, count: u32) -> Error {
    let what = match count {
        0 => format!("is {partition}, but the operation has no partitions"),
        _ => format!("is {partition}, but the partitions are 0 to {}", count - 1),
    };
    Error::new(ErrorClass::Arg, what)
}

fn request(communicator: &Rc<Communicator>, side: PartitionedSide) -> Request {
    let operation =
        Partitioned { _communicator: Rc::clone(communicator), side, active: Cell::new(false) };
    Request::persistent(PersistentOperation::Operation(Rc::new(operation)), communicator)
}

impl fmt::Display for Partitioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.side {
            PartitionedSide::Sending(_) => "send",
            PartitionedSide::Receiving(_) => "receive",
        };
        write!(f, "partitioned {what}")
    }
}
