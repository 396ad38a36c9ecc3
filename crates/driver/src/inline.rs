//! Drivers that are part of the code that uses them.

use base::GateId;

use crate::{Driver, SharedBytesMut, Sink};

/// A driver for the shortest ways: whoever knows its type has the posting of a packet, and the look
/// at what has arrived, compiled into its own code.
pub trait InlineDriver: Driver {
    /// As [`Driver::post_packet`], on the only rail.
    fn push(&mut self, gate: GateId, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool;

    /// As [`Driver::poll`].
    fn poll_into(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool;
}
