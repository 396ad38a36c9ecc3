//! Collective transfers (section 14.4). Where the runs of processes alternate, their bytes are sent
//! to a few processes, the aggregators. Each aggregator reads and writes a part of the file, its
//! domain, window by window.

pub(crate) mod aggregator;
pub(crate) mod domains;
pub(crate) mod member;
pub(crate) mod messages;
pub(crate) mod operation;
pub(crate) mod pieces;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;

use memory::LentBuffer;
use mpi::MemberMessages;

use crate::pool::SystemCaller;
use crate::storage::Direction;
use crate::transfer::{FileAccess, Progress};
use crate::view::View;

use aggregator::Aggregator;
use domains::{AccessExtent, FileDomain};
use member::MemberPart;
use messages::{ExchangeMessages, OwnMessages};

/// The properties of the file and of one collective transfer of it.
pub(crate) struct TransferContext {
    pub direction: Direction,
    /// The rank of this process.
    pub rank: u32,
    /// The number of this transfer of the file.
    pub number: u32,
    pub access: FileAccess,
    pub caller: SystemCaller,
}

/// The bytes of this process in a collective transfer: a range of its stream, and memory.
pub(crate) struct MemberBytes {
    pub view: Arc<View>,
    /// The position in the stream.
    pub position: u64,
    /// The number of bytes to transfer; the memory may have more.
    pub length: u64,
    pub memory: LentBuffer,
}

/// A collective transfer through aggregators: the states of this process as a member, and as the
/// aggregator of a domain, if it is one. Both know each other by messages only.
pub(crate) struct TransferExchange {
    own: OwnMessages,
    member: MemberPart,
    aggregator: Option<Aggregator>,
}

impl TransferExchange {
    /// Creates the transfer of these bytes through the aggregators of domains.
    pub fn new(
        context: &Rc<TransferContext>,
        domains: &[FileDomain],
        extents: &[AccessExtent],
        bytes: MemberBytes,
    ) -> Self {
        let rank = context.rank;
        let extent = &extents[rank as usize];
        let involved = domains.iter().filter(|domain| domain.involves(extent)).cloned();
        let aggregator = domains.iter().find(|domain| domain.aggregator == rank);
        Self {
            own: OwnMessages::new(rank, context.number),
            member: MemberPart::new(context.direction, involved, bytes),
            aggregator: aggregator
                .map(|domain| Aggregator::new(Rc::clone(context), domain.clone(), extents)),
        }
    }

    /// Makes progress as far as possible; returns whether the transfer is complete.
    pub fn advance(&mut self, link: &dyn MemberMessages) -> bool {
        let Self { own, member, aggregator } = self;
        let messages = &mut ExchangeMessages::new(link, own);
        // Either state may wait for the other, and the caller may sleep until a message arrives.
        loop {
            let mut has_moved = member.advance(messages);
            if let Some(aggregator) = aggregator {
                has_moved |= aggregator.advance(messages);
            }
            let is_over = aggregator.as_ref().is_none_or(Aggregator::is_over) && member.is_over();
            if is_over || !has_moved {
                return is_over;
            }
        }
    }

    /// Returns the memory, and what was transferred.
    pub fn into_outcome(self) -> (LentBuffer, Progress) {
        self.member.into_outcome()
    }
}
