//! What drivers report.

use base::GateId;
use memory::transfer::{FetchEnd, Label, PartPlace};

use crate::{Copying, DriverError, SharedBytes};

/// Who takes what a driver reports.
pub trait Sink {
    /// A packet arrived from `gate`. Its bytes are there during the call only.
    fn packet(&mut self, gate: GateId, rail: usize, bytes: SharedBytes<'_>);

    /// A part of `length` bytes begins to arrive: where do they belong?
    fn part(&mut self, gate: GateId, rail: usize, label: &Label, length: usize) -> PartPlace;

    /// All bytes of a part are where [`part`](Self::part) said.
    fn part_arrived(&mut self, gate: GateId, rail: usize, label: &Label, length: usize);

    /// The memory of a part that was posted, or of a message that was sent ahead, is not read any
    /// more.
    fn sent(&mut self, gate: GateId, rail: usize, token: u64);

    /// A rail carried so many bytes in so many nanoseconds, in which it never had nothing to do.
    fn carried(&mut self, rail: usize, bytes: u64, nanoseconds: u64);

    /// The data that was to be fetched is where it belongs, and its sender knows it.
    fn written(&mut self, token: u64);

    /// A fetch ended.
    fn fetched(&mut self, token: u64, end: FetchEnd);

    /// A rail to `gate` does not work any more, and what was posted there may not have arrived.
    fn lost(&mut self, gate: GateId, rail: usize, why: DriverError);

    /// A rail to `gate` that was to be [restored](crate::Driver::restore) works again.
    fn restored(&mut self, _gate: GateId, _rail: usize) {}

    /// Whether `gate` is [reached](crate::Driver::reaches) over another driver. Asked by
    /// [`is_reached_otherwise`](crate::is_reached_otherwise).
    fn is_reached_elsewhere(&self, _gate: GateId) -> bool {
        false
    }

    /// Something that a person should know, as a sentence without its full stop.
    fn trouble(&mut self, _what: &str) {}

    /// A message is going to be copied so.
    fn copying_chosen(&mut self, _copying: Copying) {}

    /// For messages of about so many bytes another way of copying is the fastest now.
    fn copying_changed(&mut self, _bytes: u64, _copying: Copying) {}

    /// How far the receive is that a token names. Asked by drivers with a
    /// [`Rendezvous`](crate::Rendezvous).
    fn receive_state(&self, _token: u64) -> ReceiveState {
        ReceiveState::Over
    }
}

/// How far a receive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveState {
    /// No message has come for it.
    Posted,
    /// Its message is coming.
    Underway,
    /// It is complete, or not known any more.
    Over,
}
