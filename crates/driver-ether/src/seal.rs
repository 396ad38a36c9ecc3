//! Authenticates frames: with a tag that only processes of the job can make, and with numbers that
//! are used once.

use driver::Secret;
use highway::{HighwayHash, HighwayHasher, Key};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::frame::COVERED_BYTES;

/// The length of a tag in bytes.
pub(crate) const TAG_BYTES: usize = 8;

/// One end of a pair of interfaces, from which keys are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealEnd {
    /// The rank of the process.
    pub rank: u32,
    /// A random number that the process draws when its driver is created, so that no two processes
    /// have equal keys.
    pub nonce: u64,
    /// The index of its rail.
    pub rail: u32,
}

/// How many times a link was lost and begun anew: each turn has keys of its own, so that no frame
/// of an earlier turn is accepted.
pub(crate) type LinkTurn = u32;

/// Makes and checks the tags of frames between two processes over a pair of interfaces.
#[derive(Debug)]
pub(crate) struct Seal {
    sending: [u64; 4],
    receiving: [u64; 4],
    seen: ReplayWindow,
}

impl Seal {
    pub(crate) fn new(secret: &Secret, own: SealEnd, peer: SealEnd, turn: LinkTurn) -> Self {
        let (sending, receiving) = (key(secret, own, peer, turn), key(secret, peer, own, turn));
        Self { sending, receiving, seen: ReplayWindow::default() }
    }

    /// Returns the tag of a frame to the peer.
    pub(crate) fn tag<'a>(
        &self,
        head: &[u8; COVERED_BYTES],
        data: impl Iterator<Item = &'a [u8]>,
    ) -> [u8; TAG_BYTES] {
        tag(self.sending, head, data).to_le_bytes()
    }

    /// Whether a frame with this number and tag is the peer's, and arrives for the first time.
    pub(crate) fn accepts(
        &mut self,
        head: &[u8; COVERED_BYTES],
        data: &[u8],
        tagged: &[u8],
        number: u64,
    ) -> bool {
        let own = tag(self.receiving, head, std::iter::once(data)).to_le_bytes();
        // All bytes are compared, so that the time reveals nothing.
        let differing = own.iter().zip(tagged).fold(0, |bits, (one, other)| bits | (one ^ other));
        differing == 0 && tagged.len() == TAG_BYTES && self.seen.enter(number)
    }
}

/// Returns the proof that a hello to an endpoint comes from the job, checked before its sender is
/// known. An outsider can replay it, which only causes a lookup of a peer that exists.
pub(crate) fn introduction(secret: &Secret, rank: u32, endpoint: u32) -> [u8; TAG_BYTES] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("keys may have any length");
    mac.update(b"combray ethernet hello 1");
    mac.update(&rank.to_le_bytes());
    mac.update(&endpoint.to_le_bytes());
    let bytes = mac.finalize().into_bytes();
    std::array::from_fn(|at| bytes[at])
}

fn key(secret: &Secret, from: SealEnd, to: SealEnd, turn: LinkTurn) -> [u64; 4] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("keys may have any length");
    mac.update(b"combray ethernet frames 2");
    for end in [from, to] {
        mac.update(&end.rank.to_le_bytes());
        mac.update(&end.nonce.to_le_bytes());
        mac.update(&end.rail.to_le_bytes());
    }
    mac.update(&turn.to_le_bytes());
    let bytes = mac.finalize().into_bytes();
    let mut words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("chunks have eight bytes")));
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

fn tag<'a>(key: [u64; 4], head: &[u8; COVERED_BYTES], data: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = HighwayHasher::new(Key(key));
    hasher.append(head);
    data.for_each(|bytes| hasher.append(bytes));
    hasher.finalize64()
}

/// Records which numbers were seen: individually for numbers less than the window behind the
/// highest; all older ones count as seen.
#[derive(Debug)]
struct ReplayWindow {
    /// The highest number seen plus one.
    end: u64,
    bits: [u64; WINDOW_WORDS],
}

const WINDOW_WORDS: usize = 32;

/// The window: how many later frames may overtake a frame, plus 64. There are never more in flight.
const WINDOW: u64 = 64 * WINDOW_WORDS as u64;

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { end: 0, bits: [0; WINDOW_WORDS] }
    }
}

impl ReplayWindow {
    /// Records a number; false: it was seen before, or may have been.
    fn enter(&mut self, number: u64) -> bool {
        // The word of the oldest numbers would be shared with the newest numbers.
        if number == u64::MAX || number.saturating_add(WINDOW - 64) < self.end {
            return false;
        }
        // The bits between the highest number so far and this one are cleared word by word.
        while self.end <= number {
            if self.end.is_multiple_of(64) {
                self.bits[(self.end / 64) as usize % WINDOW_WORDS] = 0;
                if number - self.end >= WINDOW {
                    self.bits = [0; WINDOW_WORDS];
                    self.end = number / 64 * 64;
                }
            }
            self.end = (self.end / 64 * 64 + 64).min(number + 1);
        }
        let (word, bit) = ((number / 64) as usize % WINDOW_WORDS, 1 << (number % 64));
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn end(rank: u32) -> SealEnd {
        SealEnd { rank, nonce: 7, rail: 0 }
    }

    #[test]
    fn a_frame_is_accepted_once_and_only_as_it_was_sent() {
        let mut one = Seal::new(&[1; 32], end(0), end(1), 3);
        let mut two = Seal::new(&[1; 32], end(1), end(0), 3);
        let stranger = Seal::new(&[2; 32], end(0), end(1), 3);
        let earlier = Seal::new(&[1; 32], end(0), end(1), 2);
        let (head, data) = ([3; COVERED_BYTES], b"some data".as_slice());
        let tag = one.tag(&head, data.chunks(4));
        assert!(!two.accepts(&head, b"some Data", &tag, 5));
        assert!(!two.accepts(&[4; COVERED_BYTES], data, &tag, 5));
        assert!(!two.accepts(&head, data, &tag[..7], 5));
        assert!(!two.accepts(&head, data, &stranger.tag(&head, data.chunks(9)), 5));
        assert!(!two.accepts(&head, data, &earlier.tag(&head, data.chunks(9)), 5));
        assert!(!one.accepts(&head, data, &tag, 5), "it is not reflected");
        assert!(two.accepts(&head, data, &tag, 5));
        assert!(!two.accepts(&head, data, &tag, 5), "it is not taken twice");
    }

    #[test]
    fn each_number_is_entered_once_whatever_the_order() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut window, mut seen, mut at) = (ReplayWindow::default(), HashSet::new(), 0);
            for _ in 0..3000 {
                at += random.u64(0..3);
                if random.u32(0..200) == 0 {
                    at += random.u64(0..5000);
                }
                let number = at.saturating_sub(random.u64(0..100));
                let entered = window.enter(number);
                assert_eq!(entered, seen.insert(number), "seed {seed}: {number}");
            }
        }
    }
}
