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

    /// Returns the members that had come until `ended` to the operation that a rank entered at a
    /// time, in the order of their times; none if that was no operation that is numbered.
    pub(super) fn members_until(
        &self,
        (rank, entered): (u32, u64),
        ended: u64,
    ) -> Option<&[(u64, u32)]> {
        let operation = self.entered.get(&(rank, entered))?;
        let entries = self.entries.get(operation)?;
        Some(&entries[..entries.partition_point(|(time, _)| *time <= ended)])
    }
}
