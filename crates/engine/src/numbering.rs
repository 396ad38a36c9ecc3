//! Numbers of packets and parts between two processes that several rails connect, so that the loss
//! of a rail loses no data.
//!
//! The sender numbers all packets and parts that it posts to a gate, across all rails, and keeps
//! each until the receiver has acknowledged it. Packets that were posted on a lost rail are posted
//! again, under their old numbers, on the other rails. The receiver drops duplicates. Neither
//! process has to know which packets were lost, nor whether the other has noticed the loss.

use std::collections::VecDeque;

use base::RailId;

/// The numbering state of both directions between this process and one gate.
#[derive(Debug, Default)]
pub(crate) struct NumberedTraffic {
    sent: SentPackets,
    received: ReceivedPackets,
}

#[derive(Debug, Default)]
struct SentPackets {
    /// The next number.
    next: u32,
    /// The posted items that are not acknowledged yet, by rising number; the last is `next - 1`.
    retained: VecDeque<Retained>,
    /// Numbers of the items that must be posted again.
    again: VecDeque<u32>,
}

/// A posted item, and its rail.
#[derive(Debug)]
struct Retained {
    rail: RailId,
    content: Posted,
}

/// The content of a posted item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// A packet.
    Packet(Vec<u8>),
    /// A part of a large message.
    Part(SentPart),
}

/// A part of a large message that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentPart {
    /// The place of the send request in this process.
    pub request: u32,
    /// The receiver's request.
    pub receiver: u64,
    /// The offset of the part in the message, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: usize,
}

/// Memory of packets that have been acknowledged, reused for the packets of all gates of an engine.
#[derive(Debug, Default)]
pub(crate) struct SparePackets(Vec<Vec<u8>>);

/// The maximum number of spare packets; the memory of others is freed.
const SPARES_MAX: usize = 64;

impl SparePackets {
    /// Returns empty memory, allocated only if no spare is left.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Takes back memory that [`take`](Self::take) returned.
    pub(crate) fn give_back(&mut self, mut memory: Vec<u8>) {
        if self.0.len() < SPARES_MAX {
            memory.clear();
            self.0.push(memory);
        }
    }
}

/// A record that must not be handled before what was sent earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeferredRecord {
    /// The cancellation of this request: a missing item may be the message itself.
    Cancel(u64),
    /// The last record: nothing arrives after it.
    Close,
}

#[derive(Debug, Default)]
struct ReceivedPackets {
    /// All items with a lower number have arrived.
    below: u32,
    /// Items with higher numbers that have arrived.
    beyond: Vec<u32>,
    /// Parts that are arriving, each with its rail.
    arriving: Vec<(u32, RailId)>,
    /// What must wait for all items with lower numbers, each with the number of its packet.
    deferred: Vec<(u32, DeferredRecord)>,
    /// The number that the sender waits for: it needs the acknowledgement of all items below it.
    awaited: Option<u32>,
    /// How much has arrived since the last acknowledgement, as a cost in bytes.
    unreported: usize,
}

/// An acknowledgement is sent at the latest after this many bytes.
const UNREPORTED_BYTES_MAX: usize = 512 << 10;

/// The cost of any packet in addition to its bytes, so that small packets are acknowledged too.
const PACKET_COST: usize = 32 << 10;

impl NumberedTraffic {
    /// Returns the next number, and the number below which everything has arrived, which the packet
    /// must carry as an acknowledgement.
    pub(crate) fn next(&self) -> (u32, u32) {
        (self.sent.next, self.received.below)
    }

    /// Keeps an item that was posted under the next number.
    pub(crate) fn retain(&mut self, rail: RailId, content: Posted) {
        if let Posted::Packet(_) = content {
            // Packets carry the acknowledgement.
            self.received.unreported = 0;
        }
        self.sent.retained.push_back(Retained { rail, content });
        self.sent.next = self.sent.next.wrapping_add(1);
    }

    /// Handles the peer's acknowledgement of all items below `below`. Returns the parts among the
    /// released items, or `None` if the peer acknowledges items that were never sent.
    pub(crate) fn acknowledge(
        &mut self,
        below: u32,
        spares: &mut SparePackets,
    ) -> Option<Vec<SentPart>> {
        let SentPackets { next, retained, again } = &mut self.sent;
        let first = next.wrapping_sub(retained.len() as u32);
        let count = below.wrapping_sub(first) as usize;
        if count > retained.len() {
            // An older acknowledgement, which a newer one has overtaken on another rail.
            let old = first.wrapping_sub(below) < u32::MAX / 2;
            return old.then(Vec::new);
        }
        let parts = retained.drain(..count).filter_map(|retained| match retained.content {
            Posted::Part(part) => Some(part),
            Posted::Packet(memory) => {
                spares.give_back(memory);
                None
            }
        });
        let parts = parts.collect();
        let first = next.wrapping_sub(retained.len() as u32);
        let waits = |number: &u32| (number.wrapping_sub(first) as usize) < retained.len();
        again.retain(waits);
        Some(parts)
    }

    /// Marks all items that were posted on this rail to be posted again.
    pub(crate) fn lose(&mut self, rail: RailId) {
        let first = self.first_retained();
        let SentPackets { retained, again, .. } = &mut self.sent;
        for (number, one) in (0_u32..).zip(retained.iter()) {
            let number = first.wrapping_add(number);
            if one.rail == rail && !again.contains(&number) {
                again.push_back(number);
            }
        }
        self.received.arriving.retain(|arriving| arriving.1 != rail);
    }

    /// Returns the number and content of the next item to post again.
    pub(crate) fn next_again(&self) -> Option<(u32, &Posted)> {
        let number = *self.sent.again.front()?;
        let place = self.place(number)?;
        Some((number, &self.sent.retained[place].content))
    }

    /// Notes that the item of [`next_again`](Self::next_again) is now posted on `rail`, and returns
    /// it.
    pub(crate) fn post_again(&mut self, rail: RailId) -> Option<(u32, &Posted)> {
        let number = self.sent.again.pop_front()?;
        let place = self.place(number)?;
        let retained = &mut self.sent.retained[place];
        retained.rail = rail;
        Some((number, &retained.content))
    }

    /// Whether an item must be posted again.
    pub(crate) fn has_again(&self) -> bool {
        !self.sent.again.is_empty()
    }

    fn first_retained(&self) -> u32 {
        self.sent.next.wrapping_sub(self.sent.retained.len() as u32)
    }

    fn place(&self, number: u32) -> Option<usize> {
        let place = number.wrapping_sub(self.first_retained()) as usize;
        (place < self.sent.retained.len()).then_some(place)
    }

    /// Whether the item with this number has arrived.
    pub(crate) fn is_here(&self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.received.below);
        ahead > u32::MAX / 2 || self.received.beyond.contains(&number)
    }

    /// Notes the arrival of the item with this number. Returns false if it had arrived already.
    pub(crate) fn take(&mut self, number: u32, bytes: usize) -> bool {
        if self.is_here(number) {
            return false;
        }
        let ReceivedPackets { below, beyond, arriving, unreported, .. } = &mut self.received;
        beyond.push(number);
        while let Some(found) = beyond.iter().position(|early| early == below) {
            beyond.swap_remove(found);
            *below = below.wrapping_add(1);
        }
        arriving.retain(|arriving| arriving.0 != number);
        *unreported += PACKET_COST + bytes;
        true
    }

    /// Whether an item with a lower number has not arrived.
    pub(crate) fn lacks_before(&self, number: u32) -> bool {
        self.received.below.wrapping_sub(number) as i32 <= 0
    }

    /// Defers a record until all earlier items have arrived.
    pub(crate) fn defer(&mut self, number: u32, record: DeferredRecord) {
        self.received.deferred.push((number, record));
    }

    /// Returns a deferred record, if all items before it have arrived.
    pub(crate) fn next_deferred(&mut self) -> Option<DeferredRecord> {
        let below = self.received.below;
        let deferred = &mut self.received.deferred;
        let due = |&(number, _): &(u32, DeferredRecord)| below.wrapping_sub(number) as i32 > 0;
        let place = deferred.iter().position(due)?;
        Some(deferred.remove(place).1)
    }

    /// Notes that a part begins to arrive on `rail`. Returns the rail on which that part was
    /// arriving before.
    pub(crate) fn begin(&mut self, number: u32, rail: RailId) -> Option<RailId> {
        let arriving = &mut self.received.arriving;
        match arriving.iter_mut().find(|arriving| arriving.0 == number) {
            Some(arriving) => Some(std::mem::replace(&mut arriving.1, rail)),
            None => {
                arriving.push((number, rail));
                None
            }
        }
    }

    /// Notes that the sender waits for the acknowledgement of all items that have arrived until
    /// now.
    pub(crate) fn is_awaited(&mut self) {
        let ReceivedPackets { below, beyond, awaited, .. } = &mut self.received;
        let distance = |end: u32| end.wrapping_sub(*below) as i32;
        let ends = beyond.iter().map(|number| number.wrapping_add(1));
        let end = ends.max_by_key(|&end| distance(end)).unwrap_or(*below);
        *awaited = Some(awaited.filter(|&known| distance(known) > distance(end)).unwrap_or(end));
    }

    /// Returns the number below which everything has arrived, if an acknowledgement is due.
    pub(crate) fn report_if_due(&mut self) -> Option<u32> {
        let ReceivedPackets { below, awaited, unreported, .. } = &mut self.received;
        let fulfilled = awaited.is_some_and(|end| below.wrapping_sub(end) as i32 >= 0);
        if fulfilled {
            *awaited = None;
        }
        (fulfilled || *unreported > UNREPORTED_BYTES_MAX).then(|| {
            *unreported = 0;
            *below
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(byte: u8) -> Posted {
        Posted::Packet(vec![byte])
    }

    fn part(request: u32) -> SentPart {
        SentPart { request, receiver: 0, offset: 0, length: 1 }
    }

    #[test]
    fn what_was_on_a_lost_rail_goes_again() {
        let (mut numbered, mut spares) = (NumberedTraffic::default(), SparePackets::default());
        for (byte, rail) in [(0, 0), (1, 1), (2, 0)] {
            assert_eq!(numbered.next(), (u32::from(byte), 0));
            numbered.retain(RailId(rail), packet(byte));
        }
        numbered.retain(RailId(1), Posted::Part(part(9)));
        assert_eq!(numbered.acknowledge(1, &mut spares), Some(vec![]));
        numbered.lose(RailId(0));
        assert_eq!(numbered.next_again(), Some((2, &packet(2))));
        assert_eq!(numbered.post_again(RailId(1)), Some((2, &packet(2))));
        assert_eq!(numbered.next_again(), None);
        numbered.lose(RailId(1));
        assert_eq!(numbered.next_again(), Some((1, &packet(1))));
        assert_eq!(numbered.acknowledge(4, &mut spares), Some(vec![part(9)]));
        assert_eq!(numbered.next_again(), None);
        assert_eq!(numbered.acknowledge(2, &mut spares), Some(vec![]), "old news");
        assert_eq!(numbered.acknowledge(5, &mut spares), None, "never sent");
    }

    #[test]
    fn packets_are_kept_in_the_memory_of_those_that_have_arrived() {
        let (mut numbered, mut spares) = (NumberedTraffic::default(), SparePackets::default());
        let mut keep = |number: u32, spares: &mut SparePackets| {
            let mut memory = spares.take();
            memory.extend_from_slice(&[1; 100]);
            let address = memory.as_ptr();
            numbered.retain(RailId(0), Posted::Packet(memory));
            assert_eq!(numbered.acknowledge(number + 1, spares), Some(vec![]));
            address
        };
        let first = keep(0, &mut spares);
        assert!((1..9).all(|number| keep(number, &mut spares) == first));
        (0..2 * SPARES_MAX).for_each(|_| spares.give_back(vec![0; 100]));
        assert_eq!(spares.0.len(), SPARES_MAX, "what is kept for later has a limit");
    }

    #[test]
    fn what_is_here_is_not_taken_twice() {
        let mut numbered = NumberedTraffic::default();
        assert!(numbered.take(0, 10));
        assert!(numbered.take(2, 10));
        assert!(!numbered.take(0, 10) && !numbered.take(2, 10));
        numbered.is_awaited();
        assert_eq!(numbered.report_if_due(), None, "1 is missing");
        assert!(numbered.take(1, 10));
        assert_eq!(numbered.report_if_due(), Some(3));
        assert_eq!(numbered.report_if_due(), None);
        assert_eq!(numbered.begin(3, RailId(0)), None);
        assert_eq!(numbered.begin(3, RailId(1)), Some(RailId(0)));
        assert_eq!(numbered.begin(4, RailId(0)), None);
        assert!(numbered.take(3, 1 << 20));
        assert_eq!(numbered.report_if_due(), Some(4));
        // The rails of the other parts are unchanged.
        assert_eq!(numbered.begin(4, RailId(2)), Some(RailId(0)));
        assert_eq!(numbered.begin(3, RailId(0)), None);
    }
}
