//! Numbers of packets and parts between two processes that several rails connect: what makes the
//! loss of a rail harmless.
//!
//! The sender counts what it posts to a gate, whatever the rail, and keeps it until the receiver
//! has said that it is there. What was posted on a rail that is lost is posted again, under the
//! same numbers, on the others. The receiver drops what it has already. Neither has to know what
//! exactly was lost, nor that the other noticed it too.

use std::collections::VecDeque;

use base::RailId;

/// Both directions between this process and one gate.
#[derive(Debug, Default)]
pub(crate) struct NumberedTraffic {
    sent: SentPackets,
    received: ReceivedPackets,
}

#[derive(Debug, Default)]
struct SentPackets {
    /// The next number.
    next: u32,
    /// What was posted and is not known to be there, by rising number; the last is `next - 1`.
    retained: VecDeque<Retained>,
    /// Numbers of what is to be posted again.
    again: VecDeque<u32>,
}

/// Something that was posted, and on which rail.
#[derive(Debug)]
struct Retained {
    rail: RailId,
    content: Posted,
}

/// What was posted.
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
    /// The number of the own request.
    pub request: u32,
    /// The receiver's request.
    pub receiver: u64,
    /// Where the part begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: usize,
}

/// Memory of packets that have arrived, for those that are kept next: of all gates of an engine.
#[derive(Debug, Default)]
pub(crate) struct SparePackets(Vec<Vec<u8>>);

/// More memory than that of so many packets is given back to the system.
const SPARES_MAX: usize = 64;

impl SparePackets {
    /// Empty memory, allocated only if none is left.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Takes back memory that [`take`](Self::take) gave.
    pub(crate) fn give_back(&mut self, mut memory: Vec<u8>) {
        if self.0.len() < SPARES_MAX {
            memory.clear();
            self.0.push(memory);
        }
    }
}

#[derive(Debug, Default)]
struct ReceivedPackets {
    /// Everything with a lower number is here.
    below: u32,
    /// What is here with higher numbers.
    beyond: Vec<u32>,
    /// Parts that are arriving, and on which rail.
    arriving: Vec<(u32, RailId)>,
    /// Requests that the peer wants back, by the number of the packet that said so, while
    /// something with a lower number is missing: the message itself may be.
    deferred: Vec<(u32, u64)>,
    /// The sender waits for the word that everything below is here.
    awaited: Option<u32>,
    /// How much has come since the sender was last told, as a cost.
    untold: usize,
}

/// The sender is told at the latest after this many bytes.
const UNTOLD_BYTES_MAX: usize = 512 << 10;

/// What any packet counts in addition to its bytes, so that small ones are acknowledged too.
const PACKET_COST: usize = 32 << 10;

impl NumberedTraffic {
    /// The next number, and up to which number everything is here, which the packet shall tell.
    pub(crate) fn next(&self) -> (u32, u32) {
        (self.sent.next, self.received.below)
    }

    /// Keeps what was posted under the next number.
    pub(crate) fn retain(&mut self, rail: RailId, content: Posted) {
        if let Posted::Packet(_) = content {
            // Packets tell what is here.
            self.received.untold = 0;
        }
        self.sent.retained.push_back(Retained { rail, content });
        self.sent.next = self.sent.next.wrapping_add(1);
    }

    /// The peer has everything below `below`; the parts among what is let go. `None`: it cannot
    /// have that, as it was never sent.
    pub(crate) fn acknowledge(
        &mut self,
        below: u32,
        spares: &mut SparePackets,
    ) -> Option<Vec<SentPart>> {
        let SentPackets { next, retained, again } = &mut self.sent;
        let first = next.wrapping_sub(retained.len() as u32);
        let count = below.wrapping_sub(first) as usize;
        if count > retained.len() {
            // Older news, which another rail has overtaken.
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

    /// What was posted on this rail is to be posted again.
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

    /// The number of what is to be posted again next, and what it is.
    pub(crate) fn next_again(&self) -> Option<(u32, &Posted)> {
        let number = *self.sent.again.front()?;
        let place = self.place(number)?;
        Some((number, &self.sent.retained[place].content))
    }

    /// What [`next_again`](Self::next_again) told of is posted on `rail` now.
    pub(crate) fn post_again(&mut self, rail: RailId) -> Option<(u32, &Posted)> {
        let number = self.sent.again.pop_front()?;
        let place = self.place(number)?;
        let retained = &mut self.sent.retained[place];
        retained.rail = rail;
        Some((number, &retained.content))
    }

    /// Whether something is to be posted again.
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

    /// Whether something with this number is here.
    pub(crate) fn is_here(&self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.received.below);
        ahead > u32::MAX / 2 || self.received.beyond.contains(&number)
    }

    /// Takes something with this number; false if it was here already.
    pub(crate) fn take(&mut self, number: u32, bytes: usize) -> bool {
        if self.is_here(number) {
            return false;
        }
        let ReceivedPackets { below, beyond, arriving, untold, .. } = &mut self.received;
        beyond.push(number);
        while let Some(found) = beyond.iter().position(|early| early == below) {
            beyond.swap_remove(found);
            *below = below.wrapping_add(1);
        }
        arriving.retain(|arriving| arriving.0 != number);
        *untold += PACKET_COST + bytes;
        true
    }

    /// Whether something with a lower number is not here.
    pub(crate) fn lacks_before(&self, number: u32) -> bool {
        self.received.below.wrapping_sub(number) as i32 <= 0
    }

    /// Puts off the withdrawal of a request until everything before it is here.
    pub(crate) fn defer(&mut self, number: u32, request: u64) {
        self.received.deferred.push((number, request));
    }

    /// A request that the peer wants back, if all is here that was posted before it said so.
    pub(crate) fn next_deferred(&mut self) -> Option<u64> {
        let below = self.received.below;
        let deferred = &mut self.received.deferred;
        let due = |&(number, _): &(u32, u64)| below.wrapping_sub(number) as i32 > 0;
        let place = deferred.iter().position(due)?;
        Some(deferred.remove(place).1)
    }

    /// A part begins to arrive on `rail`; the rail on which the same part was arriving before.
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

    /// The sender waits for the word that everything taken until now is here.
    pub(crate) fn is_awaited(&mut self) {
        let ReceivedPackets { below, beyond, awaited, .. } = &mut self.received;
        let distance = |end: u32| end.wrapping_sub(*below) as i32;
        let ends = beyond.iter().map(|number| number.wrapping_add(1));
        let end = ends.max_by_key(|&end| distance(end)).unwrap_or(*below);
        *awaited = Some(awaited.filter(|&known| distance(known) > distance(end)).unwrap_or(end));
    }

    /// Up to which number everything is here, if it is time to say so.
    pub(crate) fn tell_if_due(&mut self) -> Option<u32> {
        let ReceivedPackets { below, awaited, untold, .. } = &mut self.received;
        let fulfilled = awaited.is_some_and(|end| below.wrapping_sub(end) as i32 >= 0);
        if fulfilled {
            *awaited = None;
        }
        (fulfilled || *untold > UNTOLD_BYTES_MAX).then(|| {
            *untold = 0;
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
        assert_eq!(numbered.tell_if_due(), None, "1 is missing");
        assert!(numbered.take(1, 10));
        assert_eq!(numbered.tell_if_due(), Some(3));
        assert_eq!(numbered.tell_if_due(), None);
        assert_eq!(numbered.begin(3, RailId(0)), None);
        assert_eq!(numbered.begin(3, RailId(1)), Some(RailId(0)));
        assert_eq!(numbered.begin(4, RailId(0)), None);
        assert!(numbered.take(3, 1 << 20));
        assert_eq!(numbered.tell_if_due(), Some(4));
        // Which rails others come on is known as before.
        assert_eq!(numbered.begin(4, RailId(2)), Some(RailId(0)));
        assert_eq!(numbered.begin(3, RailId(0)), None);
    }
}
