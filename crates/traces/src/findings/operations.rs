//! The blocking collective operations of a job, and the member that entered each one last.

use std::collections::HashMap;

use crate::alignment::AlignedTrace;
use crate::{TraceEvent, TracedOperation};

/// The collective operations, by rank and time.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// The operation that a rank entered at a time.
    entered: HashMap<(u32, u64), TracedOperation>,
    /// The times at which members entered an operation, in their order.
    entries: HashMap<TracedOperation, Vec<(u64, u32)>>,
}

impl Operations {
    pub(super) fn of(traces: &[AlignedTrace]) -> Self {
        let mut all = Self::default();
        for trace in traces {
            for (time, event) in &trace.events {
                if let TraceEvent::CallBegan { operation: Some(operation), .. } = event {
                    all.entered.insert((trace.rank, *time), *operation);
                    all.entries.entry(*operation).or_default().push((*time, trace.rank));
                }
            }
        }
        all.entries.values_mut().for_each(|entries| entries.sort_unstable());
        all
    }

    /// Returns the member that a rank awaited in the operation that it entered at a time, and when
    /// that member entered: `peer`, or else the last one of those that came before `ended`; none if
    /// that is the rank itself.
    pub(super) fn awaited(
        &self,
        (rank, entered): (u32, u64),
        ended: u64,
        peer: Option<u32>,
    ) -> Option<(u64, u32)> {
        let operation = self.entered.get(&(rank, entered))?;
        let entries = self.entries.get(operation)?;
        let came = &entries[..entries.partition_point(|(time, _)| *time <= ended)];
        let is_awaited = |member: u32| peer.is_none_or(|peer| peer == member);
        let last = came.iter().rev().find(|(_, member)| is_awaited(*member));
        last.copied().filter(|(_, member)| *member != rank)
    }
}
