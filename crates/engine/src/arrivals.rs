//! Tracks which bytes of granted messages have arrived or are arriving, so that no byte arrives
//! twice.
//!
//! A receive completes when as many bytes have arrived as it expects. If bytes could arrive twice,
//! it would complete while others are missing, or while a rail still writes a part into a buffer
//! that the program has got back.

use std::collections::HashMap;
use std::ops::Range;

use base::{GateId, RailId};

use crate::request::{Refused, RequestId};

/// The messages that were granted and are not complete, by their receives.
#[derive(Debug, Default)]
pub(crate) struct GrantedMessages(HashMap<u64, GrantedMessage>);

#[derive(Debug)]
struct GrantedMessage {
    gate: GateId,
    /// The ranges that have arrived: in order, with gaps between.
    here: Vec<Range<u64>>,
    /// The ranges that are being written into the buffer, each with its rail: at most one part per
    /// rail.
    arriving: Vec<(RailId, Range<u64>)>,
}

/// Error: some of the bytes have arrived or are arriving already, or no receive has granted the
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap;

impl GrantedMessages {
    /// Permits that data arrives for a receive, from `gate`.
    pub(crate) fn grant(&mut self, receive: RequestId, gate: GateId) {
        let arrival = GrantedMessage { gate, here: Vec::new(), arriving: Vec::new() };
        self.0.insert(receive.to_u64(), arrival);
    }

    /// Ends the tracking of a receive: no more data may arrive for it.
    pub(crate) fn end(&mut self, receive: RequestId) {
        self.0.remove(&receive.to_u64());
    }

    /// Notes that a part begins to arrive on `rail`.
    pub(crate) fn begin(
        &mut self,
        receive: u64,
        rail: RailId,
        bytes: Range<u64>,
    ) -> Result<(), Overlap> {
        let arrival = self.0.get_mut(&receive).ok_or(Overlap)?;
        if !arrival.is_free(&bytes) {
            return Err(Overlap);
        }
        arrival.arriving.push((rail, bytes));
        Ok(())
    }

    /// Notes that a part that has begun has arrived completely.
    ///
    /// # Errors
    /// If the part has not begun.
    pub(crate) fn complete(&mut self, receive: u64, bytes: Range<u64>) -> Result<(), Refused> {
        let arrival = self.0.get_mut(&receive).ok_or(Refused)?;
        let place = arrival.arriving.iter().position(|part| part.1 == bytes).ok_or(Refused)?;
        arrival.arriving.swap_remove(place);
        arrival.insert(bytes);
        Ok(())
    }

    /// Notes the arrival of bytes that were not announced as a part.
    pub(crate) fn take(&mut self, receive: u64, bytes: Range<u64>) -> Result<(), Overlap> {
        let arrival = self.0.get_mut(&receive).ok_or(Overlap)?;
        if !arrival.is_free(&bytes) {
            return Err(Overlap);
        }
        arrival.insert(bytes);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Drops the parts that were arriving on a rail, which is lost.
    #[cold]
    pub(crate) fn lose(&mut self, gate: GateId, rail: RailId) {
        for arrival in self.0.values_mut().filter(|arrival| arrival.gate == gate) {
            arrival.arriving.retain(|part| part.0 != rail);
        }
    }
}

impl GrantedMessage {
    fn is_free(&self, bytes: &Range<u64>) -> bool {
        if bytes.is_empty() {
            return true;
        }
        let place = self.here.partition_point(|range| range.end <= bytes.start);
        let is_free = |taken: &Range<u64>| taken.end <= bytes.start || bytes.end <= taken.start;
        self.here.get(place).is_none_or(is_free)
            && self.arriving.iter().all(|part| is_free(&part.1))
    }

    /// Notes bytes that had not arrived, and joins them with their neighbours.
    fn insert(&mut self, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        let place = self.here.partition_point(|range| range.end < bytes.start);
        let joins_before = self.here.get(place).is_some_and(|range| range.end == bytes.start);
        let after = place + usize::from(joins_before);
        let joins_after = self.here.get(after).is_some_and(|range| range.start == bytes.end);
        match (joins_before, joins_after) {
            (true, true) => self.here[place].end = self.here.remove(after).end,
            (true, false) => self.here[place].end = bytes.end,
            (false, true) => self.here[after].start = bytes.start,
            (false, false) => self.here.insert(place, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::SlabKey;
    use fastrand::Rng;

    const PEER: GateId = GateId(1);
    const BYTES: u64 = 60;

    /// The oracle: a list with the state of each byte.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Byte {
        Missing,
        Arriving(RailId),
        Here,
    }

    #[test]
    fn no_byte_is_accepted_twice() {
        let receive = RequestId(SlabKey { index: 3, generation: 1 });
        for seed in 0..if cfg!(miri) { 1 } else { 2000 } {
            let mut rng = Rng::with_seed(seed);
            let mut arrivals = GrantedMessages::default();
            arrivals.grant(receive, PEER);
            let word = receive.to_u64();
            let mut bytes = [Byte::Missing; BYTES as usize];
            let mut begun: Vec<(RailId, Range<u64>)> = Vec::new();
            for _ in 0..80 {
                let start = rng.u64(..BYTES);
                let range = start..rng.u64(start..=BYTES.min(start + 12));
                let place = range.start as usize..range.end as usize;
                let is_free = bytes[place.clone()].iter().all(|byte| *byte == Byte::Missing);
                let rail = RailId(rng.u8(..3));
                match rng.u8(..4) {
                    0 => {
                        assert_eq!(arrivals.take(word, range).is_ok(), is_free, "seed {seed}");
                        if is_free {
                            bytes[place].fill(Byte::Here);
                        }
                    }
                    1 if !range.is_empty() && begun.iter().all(|part| part.0 != rail) => {
                        let taken = arrivals.begin(word, rail, range.clone());
                        assert_eq!(taken.is_ok(), is_free, "seed {seed}");
                        if is_free {
                            bytes[place].fill(Byte::Arriving(rail));
                            begun.push((rail, range));
                        }
                    }
                    2 if !begun.is_empty() => {
                        let (_, range) = begun.swap_remove(rng.usize(..begun.len()));
                        arrivals.complete(word, range.clone()).unwrap();
                        bytes[range.start as usize..range.end as usize].fill(Byte::Here);
                    }
                    3 if rng.u8(..4) == 0 => {
                        arrivals.lose(PEER, rail);
                        begun.retain(|part| part.0 != rail);
                        let lost = bytes.iter_mut().filter(|byte| **byte == Byte::Arriving(rail));
                        lost.for_each(|byte| *byte = Byte::Missing);
                    }
                    _ => {}
                }
                let here = &arrivals.0[&word].here;
                assert!(here.windows(2).all(|pair| pair[0].end < pair[1].start), "seed {seed}");
                let counted: u64 = here.iter().map(|range| range.end - range.start).sum();
                let expected = bytes.iter().filter(|byte| **byte == Byte::Here).count();
                assert_eq!(counted, expected as u64, "seed {seed}");
            }
        }
    }

    #[test]
    fn nothing_comes_for_what_was_not_granted() {
        let mut arrivals = GrantedMessages::default();
        assert_eq!(arrivals.take(7, 0..1), Err(Overlap));
        assert_eq!(arrivals.begin(7, RailId(0), 0..1), Err(Overlap));
        assert_eq!(arrivals.complete(7, 0..1), Err(Refused));
    }
}
