//! Collective transfers (section 14.4). Where the runs of processes alternate, their bytes are sent
//! to a few processes, the aggregators. Each aggregator reads and writes a part of the file, its
//! domain, window by window.

pub(crate) mod aggregator;
pub(crate) mod domains;
pub(crate) mod member;
pub(crate) mod operation;
pub(crate) mod pieces;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base::{Error, ErrorClass};
use memory::{Buffer, LentBuffer};

use crate::agreement::{class_of, number_of};
use crate::fault::{Fault, class_of as class_of_system};
use crate::pool::ThreadPool;
use crate::storage::Storage;
use crate::transfer::Direction;
use crate::view::View;

use aggregator::Aggregator;
use domains::{Domains, Wish};
use member::MemberPart;

/// The messages between the processes of a file.
pub(crate) trait MemberLink {
    /// A message that is underway.
    type Pending: Copy;

    /// Begins to send; none if the message is sent already.
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<Self::Pending>;

    /// Begins to receive.
    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> Self::Pending;

    /// Returns the outcome of a message once; none while it is underway.
    fn take(&self, pending: Self::Pending) -> Option<base::Result<()>>;
}

/// The kinds of messages; each has a tag of its own in each transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TransferMessage {
    /// The beginning of the list of a process's runs in a domain.
    Head,
    /// The rest of that list.
    Rest,
    /// Bytes of the file.
    Data,
    /// The outcome.
    Verdict,
}

/// The number of transfers after which their tags are used again.
const TRANSFERS_APART: u32 = 1 << 20;

/// The thread that makes the system calls.
#[derive(Clone)]
pub(crate) enum SystemCaller {
    /// The thread that makes progress.
    Here,
    /// Threads of the library, which ring when they are done.
    Threads(ThreadPool, Arc<dyn Fn() + Send + Sync>),
}

/// The properties that all parts of a collective transfer share.
pub(crate) struct TransferContext {
    pub domains: Domains,
    pub wishes: Vec<Wish>,
    pub direction: Direction,
    pub rank: u32,
    /// The number of this transfer of the file.
    pub number: u32,
    pub storage: Arc<dyn Storage>,
    /// Whether ranges are locked while they are written.
    pub locks_writes: bool,
    pub caller: SystemCaller,
}

impl TransferContext {
    pub fn tag(&self, kind: TransferMessage) -> i32 {
        (self.number % TRANSFERS_APART * 4 + kind as u32) as i32
    }
}

/// The part of this process in a collective transfer.
pub(crate) struct TransferExchange<P> {
    shared: TransferContext,
    member: MemberPart<P>,
    aggregator: Option<Aggregator<P>>,
}

/// An error in a domain, as it is sent to the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DomainFault {
    pub class: ErrorClass,
    /// The offset in the file.
    pub offset: u64,
    pub reason: String,
}

impl<P: Copy> TransferExchange<P> {
    /// Creates the transfer of `length` bytes of the stream from `position` on, with the bytes in
    /// `memory`.
    pub fn new(
        shared: TransferContext,
        view: Arc<View>,
        position: u64,
        length: u64,
        memory: LentBuffer,
    ) -> Self {
        let mine =
            shared.domains.aggregators.iter().position(|aggregator| *aggregator == shared.rank);
        let member = MemberPart::new(&shared, view, position..position + length, memory);
        let aggregator = mine.map(|index| Aggregator::new(&shared, index));
        Self { shared, member, aggregator }
    }

    /// Makes progress as far as possible; returns whether the transfer is complete.
    pub fn advance(&mut self, link: &impl MemberLink<Pending = P>) -> bool {
        let Self { shared, member, aggregator } = self;
        // Either part may wait for the other, and the caller may sleep until a message arrives.
        loop {
            let mut has_moved = member.advance(shared, link, aggregator.as_mut());
            if let Some(aggregator) = aggregator {
                has_moved |= aggregator.advance(shared, link, member);
            }
            let is_over = aggregator.as_ref().is_none_or(Aggregator::is_over) && member.is_over();
            if is_over || !has_moved {
                return is_over;
            }
        }
    }

    /// Returns the memory, how many bytes of the stream were transferred, and the error.
    pub fn into_outcome(self) -> (LentBuffer, u64, Option<DomainFault>) {
        self.member.into_outcome()
    }
}

impl DomainFault {
    const BYTES: usize = 512;

    pub fn of(fault: &Fault) -> Self {
        let Fault { offset, error } = fault;
        Self { class: class_of_system(error), offset: *offset, reason: error.to_string() }
    }

    /// Returns the message that reports the outcome; none means no error.
    pub fn message(verdict: Option<&Self>) -> Buffer {
        let message = Buffer::zeroed(Self::BYTES);
        if let Some(Self { class, offset, reason }) = verdict {
            let mut reason = reason.as_bytes();
            reason = &reason[..reason.len().min(Self::BYTES - 24)];
            let class = 1 + number_of(*class);
            for (place, number) in [class, *offset, reason.len() as u64].iter().enumerate() {
                message.write(8 * place, &number.to_le_bytes());
            }
            message.write(24, reason);
        }
        message
    }

    pub fn room() -> Buffer {
        Buffer::zeroed(Self::BYTES)
    }

    /// Decodes that message.
    pub fn told(message: &Buffer) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        message.read(0, &mut bytes);
        let number = |place: usize| {
            let bytes = bytes[8 * place..8 * place + 8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes were cut out"))
        };
        let class = number(0).checked_sub(1)?;
        let length = (number(2) as usize).min(Self::BYTES - 24);
        let reason = String::from_utf8_lossy(&bytes[24..24 + length]).into_owned();
        Some(Self { class: class_of(class), offset: number(1), reason })
    }

    /// Returns the error for the program.
    pub fn error(&self, verb: &str, name: &str, bytes: u64) -> Error {
        let Self { class, offset, reason } = self;
        let detail = format!(
            "could not {verb} \"{name}\" at byte {offset}: {reason}; {bytes} bytes came before that"
        );
        Error::new(*class, detail)
    }
}
