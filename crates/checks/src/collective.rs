//! Checks whether the processes of a communicator call equal collective operations in equal order.
//!
//! The first process of a communicator is the reference: it reports its calls to all other
//! processes, and those compare them with their own calls.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{CallSite, Mistake, MistakeKind};

/// What a process reports about a collective operation that it calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveEntry {
    /// The root, if all processes must name an equal root.
    pub root: Option<i64>,
    /// The operation of a reduction.
    pub operation: Option<String>,
    /// The number of bytes for each process, if this number must be equal on all processes.
    pub bytes: Option<u64>,
    /// The type of the elements, if it must be equal on all processes.
    pub element: Option<String>,
    /// The call.
    pub site: CallSite,
}

/// The collective operations of a communicator, in one of its processes, that have been called or
/// reported on one side only.
#[derive(Debug, Default)]
pub struct CollectiveOrder {
    /// The calls of this process. `reference` contains the calls of the reference process; both
    /// begin with the operation number `compared + 1`.
    own: VecDeque<CollectiveEntry>,
    reference: VecDeque<CollectiveEntry>,
    compared: u64,
    is_lost: bool,
}

impl CollectiveOrder {
    /// Records that this process calls an operation, and returns its number, from 1 on.
    pub fn enter(&mut self, entry: CollectiveEntry) -> u64 {
        self.own.push_back(entry);
        self.compared + self.own.len() as u64
    }

    /// Records that the reference process has called its next operation.
    pub fn add_received(&mut self, entry: CollectiveEntry) {
        self.reference.push_back(entry);
    }

    /// Whether nothing more can be found out about the operation with this number.
    pub fn is_compared(&self, number: u64) -> bool {
        self.is_lost || self.compared >= number
    }

    /// Whether nothing is recorded that must be kept after the communicator is freed.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.reference.is_empty()
    }

    /// Compares the operations that are known on both sides, and returns the first difference.
    /// After different operations nothing more is compared, because all later operations would
    /// differ, too.
    pub fn compare(&mut self, ranks: (u32, u32), communicator: &str) -> Option<Mistake> {
        while !self.own.is_empty() && !self.reference.is_empty() {
            let (own, reference) = (self.own.pop_front()?, self.reference.pop_front()?);
            self.compared += 1;
            if self.is_lost {
                continue;
            }
            if let Some((kind, what)) = difference(&own, &reference, ranks.1) {
                self.is_lost = kind == MistakeKind::Order;
                let what = format!(
                    "rank {} {what} (collective operation {} of {communicator})",
                    ranks.0, self.compared
                );
                let sites = vec![(ranks.0, own.site), (ranks.1, reference.site)];
                return Some(Mistake { kind, what, sites });
            }
        }
        None
    }
}

/// Returns in what the operations of two processes differ, or `None` if they agree.
fn difference(
    own: &CollectiveEntry,
    reference: &CollectiveEntry,
    rank: u32,
) -> Option<(MistakeKind, String)> {
    let function = &own.site.function;
    // A function and its form with large counts (`_c`) are one operation.
    let short = |name: &str| name.strip_suffix("_c").unwrap_or(name).to_owned();
    if short(function) != short(&reference.site.function) {
        let what = format!("calls {function}, but rank {rank} calls {}", reference.site.function);
        return Some((MistakeKind::Order, what));
    }
    if let (Some(own), Some(other)) = (own.root, reference.root)
        && own != other
    {
        let what = format!("calls {function} with root {own}, but rank {rank} with root {other}");
        return Some((MistakeKind::Root, what));
    }
    if let (Some(own), Some(other)) = (&own.operation, &reference.operation)
        && own != other
    {
        let what = format!("calls {function} with {own}, but rank {rank} with {other}");
        return Some((MistakeKind::Reduction, what));
    }
    if let (Some(own), Some(other)) = (own.bytes, reference.bytes)
        && own != other
    {
        let what = format!(
            "calls {function} with {own} bytes for each process, but rank {rank} with {other}"
        );
        return Some((MistakeKind::Amount, what));
    }
    if let (Some(own), Some(other)) = (&own.element, &reference.element)
        && own != other
    {
        let what = format!("calls {function} with {own}, but rank {rank} with {other}");
        return Some((MistakeKind::Amount, what));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(function: &str, root: i64, bytes: u64) -> CollectiveEntry {
        CollectiveEntry {
            root: Some(root),
            operation: None,
            bytes: Some(bytes),
            element: None,
            site: CallSite { function: function.into(), stack: Vec::new() },
        }
    }

    #[test]
    fn calls_that_agree_are_fine_in_whatever_order_they_are_heard_of() {
        let mut order = CollectiveOrder::default();
        assert_eq!(order.enter(entry("MPI_Bcast", 0, 4)), 1);
        assert_eq!(order.compare((1, 0), "w"), None);
        assert!(!order.is_compared(1));
        for _ in 0..2 {
            order.add_received(entry("MPI_Bcast_c", 0, 4));
            assert_eq!(order.compare((1, 0), "w"), None);
        }
        assert!(order.is_compared(1) && !order.is_compared(2));
        assert_eq!(order.enter(entry("MPI_Bcast", 0, 4)), 2);
        assert_eq!(order.compare((1, 0), "w"), None);
        assert!(order.is_compared(2));
    }

    #[test]
    fn different_operations_are_reported_once() {
        let mut order = CollectiveOrder::default();
        for (own, other) in [("MPI_Bcast", "MPI_Barrier"), ("MPI_Barrier", "MPI_Bcast")] {
            order.enter(entry(own, 0, 4));
            order.add_received(entry(other, 0, 4));
        }
        let mistake = order.compare((3, 2), "MPI_COMM_WORLD").expect("they differ");
        assert_eq!(
            mistake.what,
            "rank 3 calls MPI_Bcast, but rank 2 calls MPI_Barrier (collective operation 1 of \
             MPI_COMM_WORLD)"
        );
        assert_eq!(mistake.kind, MistakeKind::Order);
        assert_eq!(order.compare((3, 2), "MPI_COMM_WORLD"), None);
        assert!(order.is_compared(7), "nothing is waited for any more");
    }

    #[test]
    fn roots_operations_amounts_and_types_are_compared() {
        let kind_of = |own: CollectiveEntry, reference: CollectiveEntry| {
            let mut order = CollectiveOrder::default();
            order.enter(own);
            order.add_received(reference);
            order.compare((1, 0), "w").map(|mistake| mistake.kind)
        };
        let base = entry("MPI_Reduce", 1, 8);
        let other = |change: fn(&mut CollectiveEntry)| {
            let mut changed = entry("MPI_Reduce", 1, 8);
            changed.operation = Some("MPI_SUM".into());
            change(&mut changed);
            changed
        };
        assert_eq!(kind_of(base.clone(), other(|_| ())), None);
        assert_eq!(kind_of(base.clone(), other(|e| e.root = Some(2))), Some(MistakeKind::Root));
        assert_eq!(kind_of(base, other(|e| e.bytes = Some(9))), Some(MistakeKind::Amount));
        let max = other(|e| e.operation = Some("MPI_MAX".into()));
        assert_eq!(kind_of(other(|_| ()), max), Some(MistakeKind::Reduction));
        let (integers, reals) = (
            other(|e| e.element = Some("integers".into())),
            other(|e| e.element = Some("reals".into())),
        );
        assert_eq!(kind_of(integers, reals), Some(MistakeKind::Amount));
    }
}
