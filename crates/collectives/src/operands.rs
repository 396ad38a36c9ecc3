//! The operands of reductions.

use crate::hierarchy;
use crate::member::{Member, PEERS_AT_ONCE_MAX};

/// The operands of a reduction. A block is one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operands {
    /// The number of elements that each process contributes; for `reduce_scatter_block`, the number
    /// that each process gets.
    pub count: usize,
    /// The size of one element's data, in bytes.
    pub element_bytes: usize,
    /// Whether the operation commutes. If it does not, all algorithms combine in the order of
    /// ranks; the association depends only on the size, the root, and the sizes of the data.
    pub commutative: bool,
}

impl Operands {
    /// Makes operands for so many bytes that are not combined.
    pub(crate) const fn bytes_only(count: usize) -> Self {
        Self { count, element_bytes: 1, commutative: true }
    }

    /// Returns the total size of the elements' data, in bytes.
    pub fn bytes(self) -> usize {
        self.count.saturating_mul(self.element_bytes)
    }

    /// Whether the operands of each machine may be combined before the operands of others.
    pub(crate) fn keep_order_in_machines(self, member: Member) -> bool {
        hierarchy::is_ordered(member) || self.commutative && hierarchy::is_applicable(member)
    }

    /// Whether there is at least one element for each process.
    pub(crate) fn are_enough_for(self, member: Member) -> bool {
        self.count >= member.size as usize
    }

    /// Returns the size of one process's share of the elements, in bytes. `None` if there are fewer
    /// elements than processes, or too many processes to exchange shares with each other.
    pub(crate) fn share(self, member: Member) -> Option<usize> {
        let is_shared = self.are_enough_for(member) && member.size <= PEERS_AT_ONCE_MAX;
        let count = self.count.div_ceil(member.size as usize);
        is_shared.then(|| count.saturating_mul(self.element_bytes))
    }
}
