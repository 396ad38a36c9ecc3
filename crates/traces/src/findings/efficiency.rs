//! The efficiencies of the POP methodology.

use serde::Serialize;

use super::RankSummary;
use crate::alignment::AlignedTrace;
use crate::skeleton::{Skeleton, Work};

/// How efficiently the ranks were used: factors between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Efficiency {
    /// The share of the time in which ranks computed: load balance times communication.
    pub parallel: f64,
    /// The mean of the ranks' computing time, divided by the longest.
    pub load_balance: f64,
    /// The longest computing time of a rank, divided by the whole time: serialisation times
    /// transfer.
    pub communication: f64,
    /// The longest computing time of a rank, divided by the time that the job would take if
    /// messages took no time.
    pub serialisation: f64,
    /// The time that the job would take if messages took no time, divided by the whole time.
    pub transfer: f64,
}

impl Efficiency {
    /// Computes the efficiencies of a job that lasted so many nanoseconds.
    pub(super) fn of(traces: &[AlignedTrace], summaries: &[RankSummary], lasted: u64) -> Self {
        let computing = summaries.iter().map(|summary| summary.computing);
        let sum: f64 = computing.clone().map(|ns| ns as f64).sum();
        let mean = sum / summaries.len().max(1) as f64;
        let longest = computing.max().unwrap_or(0);
        // Clocks of hosts have errors, and messages that are matched while a rank computes are
        // awaited there: the time is limited to what is possible.
        let ideal = Skeleton::of(traces, Work::Useful).ideal_ns().min(lasted).max(longest);
        let share = |part: f64, whole: u64| if whole > 0 { part / whole as f64 } else { 1.0 };
        Self {
            parallel: share(mean, lasted),
            load_balance: share(mean, longest),
            communication: share(longest as f64, lasted),
            serialisation: share(longest as f64, ideal),
            transfer: share(ideal as f64, lasted),
        }
    }
}
