//! Collective transfers (section 14.4): where the runs of processes alternate, their bytes go by
//! messages to a few of them, the aggregators, each of which reads and writes a part of the file,
//! its domain, window by window.

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

/// Messages between the processes of a file.
pub(crate) trait MemberLink {
    /// A message underway.
    type Pending: Copy;

    /// Begins to send; none: it is sent.
    fn send(&self, peer: u32, tag: i32, buffer: Buffer) -> Option<Self::Pending>;

    /// Begins to receive.
    fn receive(&self, peer: u32, tag: i32, buffer: Buffer) -> Self::Pending;

    /// What became of a message, once; none: it is underway.
    fn take(&self, pending: Self::Pending) -> Option<base::Result<()>>;
}

/// What kinds of messages there are; each has a tag of its own in each transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TransferMessage {
    /// The beginning of what a process wants of a domain.
    Head,
    /// The rest of it.
    Rest,
    /// Bytes of the file.
    Data,
    /// How it went.
    Verdict,
}

/// Transfers have tags of their own until so many others have begun.
const TRANSFERS_APART: u32 = 1 << 20;

/// Who makes the calls of the system.
#[derive(Clone)]
pub(crate) enum SystemCaller {
    /// The thread that makes progress.
    Here,
    /// Threads of the library, which ring when they are done.
    Threads(ThreadPool, Arc<dyn Fn() + Send + Sync>),
}

/// What all parts of a collective transfer know.
pub(crate) struct TransferContext {
    pub domains: Domains,
    pub wishes: Vec<Wish>,
    pub direction: Direction,
    pub rank: u32,
    /// Which transfer of the file it is.
    pub number: u32,
    pub storage: Arc<dyn Storage>,
    /// Whether what is written is locked meanwhile.
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

/// What went wrong in a domain, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DomainFault {
    pub class: ErrorClass,
    /// Where in the file.
    pub offset: u64,
    pub reason: String,
}

impl<P: Copy> TransferExchange<P> {
    /// The transfer of `length` bytes of the stream from `position` on, which `memory` has.
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

    /// Goes as far as it can; whether it is over.
    pub fn advance(&mut self, link: &impl MemberLink<Pending = P>) -> bool {
        let Self { shared, member, aggregator } = self;
        // One waits for the other: who calls this may sleep until a message comes.
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

    /// The memory, how many bytes of the stream were moved, and what went wrong.
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

    /// The message that tells it; none: nothing went wrong.
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

    /// What a message told.
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

    /// The error that the program hears.
    pub fn error(&self, verb: &str, name: &str, bytes: u64) -> Error {
        let Self { class, offset, reason } = self;
        let detail = format!(
            "could not {verb} \"{name}\" at byte {offset}: {reason}; {bytes} bytes came before that"
        );
        Error::new(*class, detail)
    }
}
