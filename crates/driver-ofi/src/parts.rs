//! Parts of large messages between this process and a peer over one rail: the sender offers the
//! memory of a part, the receiver reads it, and reports when it has.

use std::collections::VecDeque;
use std::time::Instant;

use driver::{Label, Part};
use memory::Buffer;

use crate::endpoint::{RegionNumber, RegionPlace};

/// The maximal number of parts that are offered to a peer at once: while one is read, the memory of
/// others is registered with the provider.
pub(crate) const OFFERED_MAX: usize = 4;

/// The contents of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The number that the sender gave the part.
    pub number: u32,
    pub label: Label,
    pub length: usize,
    pub place: RegionPlace,
}

/// The length of an offer in bytes.
pub(crate) const OFFER_BYTES: usize = 4 + 24 + 8 + 8 + 8;

impl Offer {
    pub(crate) fn bytes(&self) -> [u8; OFFER_BYTES] {
        let mut bytes = [0; OFFER_BYTES];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..28].copy_from_slice(&self.label);
        bytes[28..36].copy_from_slice(&(self.length as u64).to_le_bytes());
        bytes[36..44].copy_from_slice(&self.place.address.to_le_bytes());
        bytes[44..].copy_from_slice(&self.place.key.to_le_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; OFFER_BYTES] = bytes.try_into().ok()?;
        let (number, rest) = bytes.split_first_chunk()?;
        let (label, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (address, key) = rest.split_first_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let place = RegionPlace {
            address: u64::from_le_bytes(*address),
            key: u64::from_le_bytes(key.try_into().ok()?),
        };
        let number = u32::from_le_bytes(*number);
        (length > 0).then_some(Self { number, label: *label, length, place })
    }
}

/// The parts between this process and a peer over one rail.
#[derive(Debug, Default)]
pub(crate) struct LinkParts {
    /// The parts that the peer may read.
    offered: Vec<OfferedPart>,
    next: u32,
    /// When the rail was last idle.
    idle_until: Option<Instant>,
    /// The parts that wait to be read.
    pub wanted: VecDeque<WantedPart>,
    /// The numbers of parts that were read, until they are reported to the peer.
    pub read: Vec<u32>,
}

#[derive(Debug)]
struct OfferedPart {
    number: u32,
    part: Part,
    region: RegionNumber,
    at: Instant,
}

/// A part that the peer offers.
#[derive(Debug)]
pub(crate) struct WantedPart {
    pub offer: Offer,
    /// The buffer into which the part is read.
    pub buffer: Buffer,
    pub offset: usize,
}

/// A part that the peer has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartEnd {
    pub region: RegionNumber,
    pub token: u64,
    pub bytes: u64,
    /// For how long the rail was busy with it, in nanoseconds.
    pub nanoseconds: u64,
}

impl LinkParts {
    /// Whether another part may be offered.
    pub(crate) fn has_room(&self) -> bool {
        self.offered.len() < OFFERED_MAX
    }

    /// Whether the peer has read all offered parts, and was notified of all reads of the parts that
    /// it has offered.
    pub(crate) fn is_flushed(&self) -> bool {
        self.offered.is_empty() && self.read.is_empty()
    }

    /// Returns the number of bytes that the peer has not read.
    pub(crate) fn bytes(&self) -> usize {
        self.offered.iter().map(|one| one.part.length).sum()
    }

    /// Offers a part; returns the offer to send.
    pub(crate) fn offer(
        &mut self,
        part: Part,
        region: RegionNumber,
        place: RegionPlace,
        now: Instant,
    ) -> Offer {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let offer = Offer { number, label: part.label, length: part.length, place };
        self.offered.push(OfferedPart { number, part, region, at: now });
        offer
    }

    /// Handles the end of a part that the peer has read; none if the part was not offered.
    pub(crate) fn end(&mut self, number: u32, now: Instant) -> Option<PartEnd> {
        let place = self.offered.iter().position(|one| one.number == number)?;
        let OfferedPart { part, region, at, .. } = self.offered.remove(place);
        let since = self.idle_until.map_or(at, |idle| idle.max(at));
        self.idle_until = Some(now);
        let nanoseconds = (now.saturating_duration_since(since).as_nanos() as u64).max(1);
        Some(PartEnd { region, token: part.token, bytes: part.length as u64, nanoseconds })
    }

    /// Returns the regions of the offered parts.
    pub(crate) fn regions(&self) -> impl Iterator<Item = RegionNumber> {
        self.offered.iter().map(|one| one.region)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn offer(number: u32) -> Offer {
        let place = RegionPlace { address: 1 << 40, key: 7 };
        Offer { number, label: [number as u8; 24], length: 100_000, place }
    }

    #[test]
    fn an_offer_survives_its_bytes() {
        assert_eq!(Offer::parse(&offer(3).bytes()), Some(offer(3)));
        assert_eq!(Offer::parse(&offer(3).bytes()[1..]), None);
        assert_eq!(Offer::parse(&[0; OFFER_BYTES]), None, "no part is empty");
    }

    #[test]
    fn parts_end_by_their_numbers_in_any_order() {
        let (mut parts, start) = (LinkParts::default(), Instant::now());
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut numbers = Vec::new();
        for token in 0..OFFERED_MAX as u64 {
            assert!(parts.has_room());
            let buffer = Buffer::zeroed(100_000);
            let part = Part { label: [0; 24], buffer, offset: 0, length: 1000, token };
            let region = RegionNumber::for_tests(token as usize);
            numbers.push(parts.offer(part, region, offer(0).place, after(token)).number);
        }
        assert!(!parts.has_room() && !parts.is_flushed());
        assert_eq!((parts.bytes(), parts.regions().count()), (4000, 4));
        let end = parts.end(numbers[2], after(10)).unwrap();
        assert_eq!((end.token, end.bytes, end.nanoseconds), (2, 1000, 8_000_000));
        assert_eq!(parts.end(numbers[2], after(11)), None, "it has ended");
        let end = parts.end(numbers[0], after(12)).unwrap();
        assert_eq!((end.token, end.nanoseconds), (0, 2_000_000), "the rail had nothing else");
        assert!(parts.has_room());
        assert!(parts.end(numbers[1], after(13)).is_some());
        assert!(parts.end(numbers[3], after(13)).is_some() && parts.is_flushed());
    }
}
