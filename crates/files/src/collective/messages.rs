//! The messages of a collective transfer. A process that is a member and an aggregator sends
//! messages to itself, too: each of them is one copy.

use std::collections::VecDeque;

use base::Result;
use engine::RequestId;
use memory::Buffer;
use mpi::MemberMessages;

/// The kinds of messages; each has a tag of its own in each transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferMessage {
    /// The beginning of the list of a process's runs in a domain.
    Head,
    /// The rest of that list.
    Rest,
    /// Bytes of the file.
    Data,
    /// The outcome.
    FaultReport,
}

/// The size of the first message about a domain: the length of the list of runs, and its beginning.
pub(crate) const HEAD_BYTES: usize = 1024;

/// The number of transfers after which their tags are used again.
const TRANSFERS_APART: u32 = 1 << 20;

/// Names a message until its outcome was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PostedMessage {
    /// It was complete at once.
    Complete,
    /// To or from another process.
    Peer(RequestId),
    /// To or from this process: the number of the message.
    Own(u64),
}

/// The messages of one process in one transfer.
pub(crate) struct ExchangeMessages<'a> {
    link: &'a dyn MemberMessages,
    own: &'a mut OwnMessages,
}

/// The messages of a process to itself.
#[derive(Debug)]
pub(crate) struct OwnMessages {
    rank: u32,
    /// The number of the transfer.
    transfer: u32,
    /// Sends without a receive, and receives without a send, in their order.
    waiting: VecDeque<OwnMessage>,
    /// The number of messages that had to wait.
    waited: u64,
}

#[derive(Debug)]
struct OwnMessage {
    number: u64,
    end: PostedEnd,
    kind: TransferMessage,
    buffer: Buffer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PostedEnd {
    Send,
    Receive,
}

impl<'a> ExchangeMessages<'a> {
    pub fn new(link: &'a dyn MemberMessages, own: &'a mut OwnMessages) -> Self {
        Self { link, own }
    }

    /// Begins to send.
    pub fn send(&mut self, peer: u32, kind: TransferMessage, buffer: Buffer) -> PostedMessage {
        if peer == self.own.rank {
            return self.own.post(PostedEnd::Send, kind, buffer);
        }
        let sent = self.link.send(peer, self.own.tag(kind), buffer);
        sent.map_or(PostedMessage::Complete, PostedMessage::Peer)
    }

    /// Begins to receive.
    pub fn receive(&mut self, peer: u32, kind: TransferMessage, buffer: Buffer) -> PostedMessage {
        if peer == self.own.rank {
            return self.own.post(PostedEnd::Receive, kind, buffer);
        }
        PostedMessage::Peer(self.link.receive(peer, self.own.tag(kind), buffer))
    }

    /// Returns the outcome of a message once; none while it is underway.
    pub fn take(&self, id: PostedMessage) -> Option<Result<()>> {
        match id {
            PostedMessage::Complete => Some(Ok(())),
            PostedMessage::Peer(id) => self.link.take(id),
            PostedMessage::Own(number) => {
                let waits = self.own.waiting.iter().any(|one| one.number == number);
                (!waits).then_some(Ok(()))
            }
        }
    }
}

impl OwnMessages {
    /// Creates an empty list for the process with this rank.
    pub fn new(rank: u32, transfer: u32) -> Self {
        Self { rank, transfer, waiting: VecDeque::new(), waited: 0 }
    }

    fn tag(&self, kind: TransferMessage) -> i32 {
        (self.transfer % TRANSFERS_APART * 4 + kind as u32) as i32
    }

    /// Completes the oldest message of this kind that waits for this end, or lets this one wait.
    fn post(&mut self, end: PostedEnd, kind: TransferMessage, buffer: Buffer) -> PostedMessage {
        let waits = |one: &OwnMessage| one.end != end && one.kind == kind;
        if let Some(index) = self.waiting.iter().position(waits)
            && let Some(other) = self.waiting.remove(index)
        {
            match end {
                PostedEnd::Send => buffer.copy_to(&other.buffer),
                PostedEnd::Receive => other.buffer.copy_to(&buffer),
            };
            return PostedMessage::Complete;
        }
        self.waited += 1;
        self.waiting.push_back(OwnMessage { number: self.waited, end, kind, buffer });
        PostedMessage::Own(self.waited)
    }
}
