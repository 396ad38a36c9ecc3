//! Partitioned point-to-point communication (chapter 4 of the MPI standard).
//!
//! Two persistent requests meet once: the sender's tells the receiver's, with the program's tag and
//! in a message space for that, how it divides its data (an *introduction*). After that each
//! partition that the program marks as ready goes out at once as a message of its own, and
//! arrives where it belongs in the receiver's memory: the receiver posts a receive for each
//! partition of the sender, however it divides its own buffer. These messages have a space of their
//! own too, in which the sender reserves tags; from round to round they are the same, since
//! messages between two processes with one tag keep their order.
//!
//! Where all data are short they go as one message, if all partitions are ready when the sender
//! decides: at the end of the call that marks the first one, or, where those of the round before
//! were ready soon after each other, when the last one is ready or progress is made. The receiver
//! posts a receive for that message. If it has no data, the partitions come each by itself; the
//! receiver posts receives for them when it looks next, so the sender sends copies, for which its
//! own round does not wait. The next rounds then begin with a receive for each partition.

mod division;
mod introduction;
mod receiving;
mod sending;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use engine::{ContextSlot, RequestId};
use runtime::Runtime;

use crate::collective::EqualBlocks;
use crate::communicator::{Communicator, SpacePurpose};
use crate::process::{BackgroundOperation, Process};
use crate::request::{PersistentOperation, Request};
use crate::status::MessageStatus;
use receiving::Receiving;
use sending::{Held, Sending};

/// A buffer in partitions of equal size.
#[derive(Clone, Debug)]
pub struct Partitions {
    /// The data; a block is a partition.
    pub blocks: EqualBlocks,
    /// How many there are.
    pub count: u32,
}

/// One side of a partitioned operation.
#[derive(Debug)]
pub struct Partitioned {
    /// Its message spaces stay open as long as it is there.
    _communicator: Rc<Communicator>,
    side: PartitionedSide,
    active: Cell<bool>,
}

#[derive(Debug)]
enum PartitionedSide {
    Sending(Sending),
    Receiving(Receiving),
}

/// The message spaces of a communicator for partitioned communication, opened when it is first
/// used.
#[derive(Debug)]
pub(crate) struct PartitionedSpaces {
    /// For introductions, with the tags of the program.
    introductions: ContextSlot,
    /// For data, with tags that the sender reserved.
    data: ContextSlot,
    next_tag: Cell<i32>,
}

impl PartitionedSpaces {
    /// The spaces, to be closed.
    pub(crate) fn slots(&self) -> [ContextSlot; 2] {
        [self.introductions, self.data]
    }

    /// The first of the consecutive tags for the messages of so many partitions, and for that of
    /// all of them. They are used again after 2^31, long after the
    /// requests of the old ones are gone.
    fn reserve_tags(&self, count: u32) -> i32 {
        let count = i32::try_from(count).unwrap_or(i32::MAX).saturating_add(1);
        let (first, next) = match self.next_tag.get().checked_add(count) {
            Some(next) => (self.next_tag.get(), next),
            None => (0, count),
        };
        self.next_tag.set(next);
        first
    }
}

impl Partitioned {
    /// Whether it was started and its status not yet taken.
    pub fn is_active(&self) -> bool {
        self.active.get()
    }

    /// How many partitions this side has.
    fn partition_count(&self) -> u32 {
        match &self.side {
            PartitionedSide::Sending(sending) => sending.partition_count(),
            PartitionedSide::Receiving(receiving) => receiving.partition_count(),
        }
    }

    /// Begins a round.
    pub(crate) fn start(self: &Rc<Self>, process: &Process) {
        self.active.set(true);
        match &self.side {
            PartitionedSide::Sending(sending) => sending.start(),
            PartitionedSide::Receiving(receiving) => {
                receiving.start();
                if !receiving.post_when_introduced(&mut process.runtime()) {
                    process.keep_advancing(Rc::clone(self) as Rc<dyn BackgroundOperation>);
                }
            }
        }
    }

    /// Whether the round is over, or none was begun; makes no progress.
    pub(crate) fn is_complete(&self, runtime: &mut Runtime) -> bool {
        !self.active.get()
            || match &self.side {
                PartitionedSide::Sending(sending) => sending.is_complete(runtime),
                PartitionedSide::Receiving(receiving) => receiving.is_complete(runtime),
            }
    }

    /// The one receive that its round waits for first, if that is so.
    #[inline]
    pub(crate) fn awaited(&self) -> Option<RequestId> {
        match &self.side {
            PartitionedSide::Sending(_) => None,
            PartitionedSide::Receiving(receiving) => receiving.awaited(),
        }
    }

    /// Whether nothing went wrong in a round that is complete.
    pub(crate) fn is_fine(&self) -> bool {
        match &self.side {
            PartitionedSide::Sending(_) => true,
            PartitionedSide::Receiving(receiving) => receiving.is_fine(),
        }
    }

    /// The status of a complete round.
    pub(crate) fn status(&self) -> MessageStatus {
        match &self.side {
            PartitionedSide::Sending(_) => MessageStatus::EMPTY,
            PartitionedSide::Receiving(receiving) => receiving.status(),
        }
    }

    /// The round is over for the program too.
    pub(crate) fn deactivate(&self) {
        self.active.set(false);
    }

    /// The program has no more use for it.
    pub(crate) fn give_up(&self, process: &Process) {
        let mut runtime = process.runtime();
        match &self.side {
            PartitionedSide::Sending(sending) => sending.give_up(&mut runtime),
            PartitionedSide::Receiving(receiving) => receiving.give_up(&mut runtime),
        }
    }

    /// The number of a partition.
    ///
    /// # Errors
    /// `Arg` if there is no such partition; the text goes on after the name of the argument.
    pub fn checked_partition(&self, partition: i32) -> Result<u32> {
        let count = self.partition_count();
        let number = u32::try_from(partition).ok().filter(|number| *number < count);
        number.ok_or_else(|| no_such_partition(partition, count))
    }
}

impl BackgroundOperation for Partitioned {
    /// A send needs one step, if it holds partitions back. A receive that has heard of the sender's
    /// partitions needs no more: its messages come by themselves.
    fn advance(&self, process: &Process) -> bool {
        let mut runtime = process.runtime();
        match &self.side {
            PartitionedSide::Sending(sending) => {
                sending.hold_no_longer(&mut runtime);
                true
            }
            PartitionedSide::Receiving(receiving) => {
                !self.active.get() || receiving.post_when_introduced(&mut runtime)
            }
        }
    }

    /// A receive that nobody sends to is the program's fault, but not a reason to hang.
    fn must_end(&self) -> bool {
        false
    }
}

impl Process {
    fn partitioned_spaces<'a>(&self, communicator: &'a Communicator) -> &'a PartitionedSpaces {
        communicator.partitioned_spaces(|block, rank| PartitionedSpaces {
            introductions: communicator.open_context(
                self,
                block.id(SpacePurpose::PartitionedIntroduction),
                rank,
            ),
            data: communicator.open_context(self, block.id(SpacePurpose::PartitionedData), rank),
            next_tag: Cell::new(0),
        })
    }
}

impl Communicator {
    /// `MPI_Psend_init` (section 4.2.1): prepares to send partitions to the process with a rank;
    /// without one, to nobody.
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

    /// `MPI_Precv_init` (section 4.2.1): prepares to receive partitions from the process with a
    /// rank; without one, from nobody.
    ///
    /// # Errors
    /// As for [`Communicator::partitioned_send_init`].
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
    /// `MPI_Pready` and its kin (section 4.2.2): the partitions may go, those before one that is
    /// wrong too.
    ///
    /// # Errors
    /// `Request` if the operation is no send or was not started; `Arg` if there is no such
    /// partition, or it was marked in this round already. The latter's texts go on after the name
    /// of the argument.
    pub fn mark_ready(
        self: &Rc<Self>,
        process: &Process,
        partitions: impl Iterator<Item = i32>,
    ) -> Result<()> {
        let PartitionedSide::Sending(sending) = &self.side else {
            let what = "the request receives partitions; only those that are sent can be ready";
            return Err(Error::new(ErrorClass::Request, what));
        };
        if !self.active.get() {
            let what = "the request is not active: start it before its partitions are ready";
            return Err(Error::new(ErrorClass::Request, what));
        }
        let marked = sending.mark_ready(process, partitions);
        match sending.send_marked(process) {
            Held::Begun => process.advance_in_progress(Rc::clone(self) as Rc<_>),
            Held::Ended => process.stop_advancing(self),
            Held::Unchanged => {}
        }
        // A thread that waits for the operation may sleep.
        process.wake_other_threads();
        marked
    }

    /// `MPI_Parrived` (section 4.2.3): whether a partition has come, after one round of progress;
    /// true where nothing is awaited.
    ///
    /// # Errors
    /// `Request` if the operation is no receive; `Arg` if there is no such partition.
    pub fn has_arrived(&self, process: &Process, partition: i32) -> Result<bool> {
        let PartitionedSide::Receiving(receiving) = &self.side else {
            let what = "the request sends partitions; only those that are received can arrive";
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
    Request::persistent(PersistentOperation::Partitioned(Rc::new(operation)), communicator)
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
