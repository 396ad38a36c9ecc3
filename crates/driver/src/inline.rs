//! Drivers that are part of the code that uses them.

use base::{Fragmentation, GateId};

use memory::Buffer;

use crate::{Driver, SharedBytesMut, Sink, Stores, When};

/// A driver for the shortest ways: whoever knows its type has the posting of a packet, and the look
/// at what has arrived, compiled into its own code.
pub trait InlineDriver: Driver {
    /// As [`Driver::post_packet`], on the only rail.
    fn push(&mut self, gate: GateId, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool;

    /// How eager messages of middle length are cut on the only rail, if they are.
    fn fragmentation(&self) -> Option<Fragmentation>;

    /// Whether an eager message of middle length shall go to a gate now, in so many packets of
    /// `packet_bytes` at most, for all of which there is room; `when` tells whether its sender
    /// waits for it.
    fn begin_fragments(
        &mut self,
        gate: GateId,
        data: &Buffer,
        when: When,
        packets: usize,
        packet_bytes: usize,
    ) -> bool;

    /// All packets of that message were pushed, and its sender has nothing else to do.
    fn end_fragments(&mut self, gate: GateId);

    /// Pushes a packet for which there is room, with the stores that suit the way to the gate.
    fn push_long(
        &mut self,
        gate: GateId,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>, Stores),
    ) -> bool;

    /// As [`Driver::poll`].
    fn poll_into(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool;
}
