//! Predicts what messages cost by each way of copying, before one has been timed, from measurements
//! of this machine's memory.
//!
//! Why: docs/internals/decisions/0070-the-first-choice-of-a-way-is-predicted.md

use driver::{Copying, MiddleWay};
use memory_costs::{CostTable, SentBytes};

use crate::methods::LocalWay;
use crate::sizes::LANE_MESSAGE_BYTES_MAX;

/// Returns the cost of messages of middle length, in picoseconds per byte, in the order of
/// [`MiddleWay::ALL`].
pub(crate) fn middle_costs(table: &CostTable, bytes: usize) -> Option<[u64; MiddleWay::ALL.len()]> {
    if bytes <= LANE_MESSAGE_BYTES_MAX {
        return costs(table, bytes, MiddleWay::ALL.map(LocalWay::Middle));
    }
    // It goes in a cell, or it is announced and copied in the fastest way for long messages.
    let [in_cell] = costs(table, bytes, [LocalWay::Middle(MiddleWay::InCell)])?;
    let announced = long_costs(table, bytes)?.into_iter().min()?;
    Some([u64::MAX, announced, in_cell])
}

/// Whether a message of `bytes` bytes that is announced, and copied when its sender waits, takes no
/// longer if the receiver copies it than through the pool; none if the table lacks a figure.
pub(crate) fn receiver_beats_pool(table: &CostTable, bytes: usize) -> Option<bool> {
    let ways = [LocalWay::Middle(MiddleWay::ByReceiver), LocalWay::Long(Copying::Piped)];
    costs(table, bytes, ways).map(|[receiver, pool]| receiver <= pool)
}

/// Returns the cost of longer messages, in picoseconds per byte, in the order of [`Copying::ALL`].
pub(crate) fn long_costs(table: &CostTable, bytes: usize) -> Option<[u64; Copying::ALL.len()]> {
    costs(table, bytes, Copying::ALL.map(LocalWay::Long))
}

/// Returns the costs for data that the sender has just written, as programs do.
fn costs<const WAYS: usize>(
    table: &CostTable,
    bytes: usize,
    ways: [LocalWay; WAYS],
) -> Option<[u64; WAYS]> {
    let mut costs = [0; WAYS];
    for (cost, way) in costs.iter_mut().zip(ways) {
        let time = way.message(bytes as u64, SentBytes::Fresh).expect(table)?;
        *cost = (time * 1000.0 / bytes as f64) as u64;
    }
    Some(costs)
}
