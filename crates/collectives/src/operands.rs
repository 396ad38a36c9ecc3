//! What reductions combine.

use crate::hierarchy;
use crate::member::{Member, PEERS_AT_ONCE_MAX};

/// What a reduction combines. A block is one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operands {
    /// Elements that each process contributes; for `reduce_scatter_block`, those that each
    /// process gets.
    pub count: usize,
    /// Size of the data of one element, in bytes.
    pub element_bytes: usize,
    /// Whether the operation commutes. Where it does not, all algorithms combine in the order of
    /// ranks; how they associate depends on the size, the root, and the sizes of the data only.
    pub commutative: bool,
}

impl Operands {
    /// So many bytes, which nothing combines.
    pub(crate) const fn bytes_only(count: usize) -> Self {
        Self { count, element_bytes: 1, commutative: true }
    }

    /// The size of the data that they make together, or of what each process gets.
    pub fn bytes(self) -> usize {
        self.count.saturating_mul(self.element_bytes)
    }

    /// Whether the operands of each machine may be combined before those of others.
    pub(crate) fn keep_order_in_machines(self, member: Member) -> bool {
        hierarchy::is_ordered(member) || self.commutative && hierarchy::is_applicable(member)
    }

    /// Whether there is an element for each process at least.
    pub(crate) fn are_enough_for(self, member: Member) -> bool {
        self.count >= member.size as usize
    }

    /// The bytes of one process's share of the elements; none where there are fewer elements than
    /// processes, or more processes than shall exchange shares with each other.
    pub(crate) fn share(self, member: Member) -> Option<usize> {
        let is_shared = self.are_enough_for(member) && member.size <= PEERS_AT_ONCE_MAX;
        let count = self.count.div_ceil(member.size as usize);
        is_shared.then(|| count.saturating_mul(self.element_bytes))
    }
}
