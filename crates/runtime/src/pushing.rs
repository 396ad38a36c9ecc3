//! Hands packets that bypass the outboxes to the rails.

use base::{FragmentLengths, GateId, RailId};
use driver::When;
use drivers::Rails;
use engine::{FragmentPacket, PostFragments, PostShort, ShortPacket};
use memory::Buffer;

/// Pushes a short packet. A type instead of a closure, so that the code is inlined into its caller.
pub(crate) struct ShortPush<'a> {
    pub rails: &'a mut Rails,
    pub gate: GateId,
}

impl PostShort for ShortPush<'_> {
    #[inline(always)]
    fn post(self, rail: RailId, packet: &impl ShortPacket) -> bool {
        self.rails.push(self.gate, rail, packet.packet_len(), |out| packet.write(out))
    }
}

/// Pushes the fragments of a message.
pub(crate) struct FragmentPush<'a> {
    pub rails: &'a mut Rails,
    pub gate: GateId,
    pub when: When,
}

impl PostFragments for FragmentPush<'_> {
    fn begin(
        &mut self,
        rail: RailId,
        data: &Buffer,
        usual: FragmentLengths,
    ) -> Option<FragmentLengths> {
        self.rails.begin_fragments(self.gate, rail, data, self.when, usual)
    }

    #[inline]
    fn post(&mut self, rail: RailId, packet: &FragmentPacket<'_>) {
        let length = packet.packet_len();
        let is_taken = self.rails.push_long(self.gate, rail, length, |out, stores| {
            packet.write(out, stores);
        });
        assert!(is_taken, "the rail said that it has room");
    }
}
