//! The trait of drivers that are compiled into the code that uses them.

use base::{FragmentLengths, Fragmentation, GateId};

use memory::Buffer;

use crate::{Driver, SharedBytesMut, Sink, Stores, When};

/// A driver with the shortest paths: code that knows its type has the posting of packets and the
/// poll compiled inline.
pub trait InlineDriver: Driver {
    /// Like [`Driver::post_packet`], on the only rail.
    fn push(&mut self, gate: GateId, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool;

    /// How the only rail cuts eager messages of middle length into fragments, if it does.
    fn fragmentation(&self) -> Option<Fragmentation>;

    /// Decides whether an eager message of middle length is pushed to a gate now, and in packets of
    /// which lengths: the `usual` ones, or others. There is room for all of them then, and the
    /// first has no room for the whole message. `when` says whether the sender waits for the
    /// message.
    fn begin_fragments(
        &mut self,
        gate: GateId,
        data: &Buffer,
        when: When,
        usual: FragmentLengths,
    ) -> Option<FragmentLengths>;

    /// Ends a message begun with [`begin_fragments`](Self::begin_fragments): all its packets were
    /// pushed, and if it waits ([`When::Now`]), the sender has nothing else to do. Also called
    /// after the announcement of a message for which the sender does not wait ([`When::Later`]).
    fn end_fragments(&mut self, gate: GateId, when: When);

    /// Pushes a packet for which there is room, with the kind of stores that is fastest to this
    /// gate.
    fn push_long(
        &mut self,
        gate: GateId,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>, Stores),
    ) -> bool;

    /// Like [`Driver::poll`].
    fn poll_into(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool;
}
