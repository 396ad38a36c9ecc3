//! The interface through which drivers report events.

use base::GateId;
use memory::transfer::{FetchEnd, Label, PartPlace};

use crate::{Copying, DriverError, SharedBytes};

/// Receives what a driver reports.
pub trait Sink {
    /// A packet arrived from `gate`. Its bytes are valid during the call only.
    fn packet(&mut self, gate: GateId, rail: usize, bytes: SharedBytes<'_>);

    /// A part of `length` bytes begins to arrive; returns the place for its bytes.
    fn part(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) -> PartPlace;

    /// All bytes of a part are where [`part`](Self::part) placed them.
    fn part_arrived(&mut self, gate: GateId, rail: usize, label: &Label, length: usize);

    /// The memory of a part that was posted, or of a message that was sent ahead, is not read any
    /// more.
    fn sent(&mut self, gate: GateId, rail: usize, token: u64);

    /// A rail carried `bytes` bytes in `nanoseconds`, during which it was never idle.
    fn carried(&mut self, rail: usize, bytes: u64, nanoseconds: u64);

    /// The data of a message that was to be fetched is in place, and its sender has been notified.
    fn written(&mut self, token: u64);

    /// A fetch has ended.
    fn fetched(&mut self, token: u64, end: FetchEnd);

    /// A rail to `gate` has failed; what was posted there may not have arrived.
    fn lost(&mut self, gate: GateId, rail: usize, why: DriverError);

    /// A rail to `gate` that was being [restored](crate::Driver::restore) works again.
    fn restored(&mut self, _gate: GateId, _rail: usize) {}

    /// Whether `gate` is [reached](crate::Driver::reaches) over another driver. Called by
    /// `links::is_reached_otherwise`.
    fn is_reached_elsewhere(&self, _gate: GateId) -> bool {
        false
    }

    /// A warning for the user, as a sentence without its full stop.
    fn trouble(&mut self, _what: &str) {}

    /// The `_bytes` bytes of a message from `_gate` are going to be copied in this way; the end of
    /// the fetch with this token is the end of the copy.
    fn copying_chosen(&mut self, _gate: GateId, _token: u64, _bytes: usize, _copying: Copying) {}

    /// For messages of about `_bytes` bytes this way of copying is the fastest now.
    fn copying_changed(&mut self, _bytes: u64, _copying: Copying) {}

    /// Returns the state of the receive `_token`. Called by drivers with a
    /// [`Rendezvous`](crate::Rendezvous).
    fn receive_state(&self, _token: u64) -> ReceiveState {
        ReceiveState::Over
    }
}

/// The state of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveState {
    /// It has not been matched.
    Posted,
    /// It has been matched, and its message is arriving.
    Underway,
    /// It is complete, or unknown.
    Over,
}
