//! The handshake by which the roots of two jobs prove to each other that they have the key of the
//! port, and the frames that follow it. Nothing of a peer is parsed before it has proved that.
//!
//! ```text
//! connecting root                          accepting root
//!   greeting: magic, versions, nonce A;
//!   a proof of nonce A                 ──▶
//!                                      ◀──  greeting: magic, versions, nonce B;
//!                                           proof of both nonces
//!   proof of both nonces               ──▶
//!                                      ◀──  welcome, a proof of both nonces
//!   frames                            ◀──▶  frames
//! ```
//!
//! The first proof, the opening, distinguishes roots that have the key from all others before they
//! are answered. As it could be recorded and replayed, it only gives room for the rest of the
//! handshake, and each nonce only once. Until the welcome the accepting side may close the
//! connection for want of room; a connecting root that has not got it tries again.
//!
//! A proof is an HMAC-SHA-256 keyed with the key of the port. Each frame ends with one that
//! includes both nonces, the direction and the number of the frame. This module has no sockets.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::port_name::PortKey;

pub(crate) type Nonce = [u8; 16];

const GREETING_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;
/// The length of a frame's head, which is the length of its body.
const HEAD_BYTES: usize = 4;
/// The largest body of a frame.
const BODY_BYTES_MAX: usize = 256 << 20;

const MAGIC: [u8; 8] = *b"CombrayP";
/// The version of the handshake and of the contents of frames.
const VERSION: u32 = 3;

/// Which side of a connection a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortSide {
    /// It has opened the port, and accepts.
    Accepts,
    /// It connects to the port.
    Connects,
}

/// Why a peer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortRefusal {
    /// It does not speak this protocol.
    Stranger,
    /// It runs another version of Combray.
    OtherVersion,
    /// It does not have the key of the port.
    WrongKey,
    /// It has sent a frame that is too long or was changed on the way.
    BadFrame,
}

/// One side of a connection: bytes in, bytes and frames out.
#[derive(Debug)]
pub(crate) struct Handshake {
    side: PortSide,
    key: PortKey,
    /// The version of the packets of Combray, in which both sides must agree.
    records: u32,
    own: Nonce,
    other: Option<Nonce>,
    stage: HandshakeStage,
    received: Vec<u8>,
    /// Bytes that must be sent.
    pub to_send: Vec<u8>,
    frames_sent: u64,
    frames_received: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeStage {
    AwaitsGreeting,
    /// The accepting side.
    AwaitsOpening,
    AwaitsProof,
    /// The connecting side: the other side may not have read the own proof.
    AwaitsWelcome,
    Proved,
}

impl Handshake {
    /// Begins a handshake. `own` is a random number that is used once.
    pub fn new(side: PortSide, key: PortKey, records: u32, own: Nonce) -> Self {
        let mut handshake = Self {
            side,
            key,
            records,
            own,
            other: None,
            stage: HandshakeStage::AwaitsGreeting,
            received: Vec::new(),
            to_send: Vec::new(),
            frames_sent: 0,
            frames_received: 0,
        };
        if side == PortSide::Connects {
            handshake.greet();
            let opening = handshake.opening(&own).finalize().into_bytes();
            handshake.to_send.extend_from_slice(&opening);
        }
        handshake
    }

    /// Returns the nonce with which the connecting side has proved that it has the key, or that it
    /// replays such a proof; none before that.
    pub fn opening_nonce(&self) -> Option<Nonce> {
        let is_opened = matches!(self.stage, HandshakeStage::AwaitsProof | HandshakeStage::Proved);
        self.other.filter(|_| self.side == PortSide::Accepts && is_opened)
    }

    /// Whether both sides have proved to each other that they have the key of the port.
    pub fn is_proved(&self) -> bool {
        self.stage == HandshakeStage::Proved
    }

    /// Adds bytes that have arrived, and advances the handshake.
    ///
    /// # Errors
    /// The peer is refused; what is in `to_send` should still be sent.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), PortRefusal> {
        self.received.extend_from_slice(bytes);
        loop {
            let before = (self.stage, self.other.is_some());
            self.step()?;
            if (self.stage, self.other.is_some()) == before {
                return Ok(());
            }
        }
    }

    fn step(&mut self) -> Result<(), PortRefusal> {
        match self.stage {
            HandshakeStage::AwaitsGreeting => {
                let Some(greeting) = self.received.first_chunk::<GREETING_BYTES>().copied() else {
                    return Ok(());
                };
                self.received.drain(..GREETING_BYTES);
                self.take_greeting(&greeting)
            }
            HandshakeStage::AwaitsOpening => {
                let Some(proof) = self.received.first_chunk::<PROOF_BYTES>().copied() else {
                    return Ok(());
                };
                self.received.drain(..PROOF_BYTES);
                let nonce = self.other.unwrap_or_default();
                let is_right = self.opening(&nonce).verify_slice(&proof).is_ok();
                // The other side learns from the proof that it has another key.
                self.greet();
                self.prove(ACCEPTING);
                if !is_right {
                    return Err(PortRefusal::WrongKey);
                }
                self.stage = HandshakeStage::AwaitsProof;
                Ok(())
            }
            HandshakeStage::AwaitsProof | HandshakeStage::AwaitsWelcome => {
                let Some(proof) = self.received.first_chunk::<PROOF_BYTES>().copied() else {
                    return Ok(());
                };
                self.received.drain(..PROOF_BYTES);
                let word = match (self.side, self.stage) {
                    (PortSide::Accepts, _) => CONNECTING,
                    (PortSide::Connects, HandshakeStage::AwaitsWelcome) => WELCOME,
                    (PortSide::Connects, _) => ACCEPTING,
                };
                if self.mac(word, &[]).verify_slice(&proof).is_err() {
                    return Err(PortRefusal::WrongKey);
                }
                self.stage = HandshakeStage::Proved;
                if self.side == PortSide::Accepts {
                    self.prove(WELCOME);
                } else if word == ACCEPTING {
                    self.prove(CONNECTING);
                    self.stage = HandshakeStage::AwaitsWelcome;
                }
                Ok(())
            }
            HandshakeStage::Proved => Ok(()),
        }
    }

    fn take_greeting(&mut self, greeting: &[u8; GREETING_BYTES]) -> Result<(), PortRefusal> {
        let (head, nonce) = greeting.split_at(GREETING_BYTES - size_of::<Nonce>());
        if head[..8] != MAGIC {
            return Err(PortRefusal::Stranger);
        }
        let mut other = Nonce::default();
        other.copy_from_slice(nonce);
        self.other = Some(other);
        let is_equal =
            head[8..12] == VERSION.to_le_bytes() && head[12..] == self.records.to_le_bytes();
        if !is_equal {
            if self.side == PortSide::Accepts {
                self.greet();
            }
            return Err(PortRefusal::OtherVersion);
        }
        self.stage = match self.side {
            PortSide::Accepts => HandshakeStage::AwaitsOpening,
            PortSide::Connects => HandshakeStage::AwaitsProof,
        };
        Ok(())
    }

    fn greet(&mut self) {
        self.to_send.extend_from_slice(&MAGIC);
        self.to_send.extend_from_slice(&VERSION.to_le_bytes());
        self.to_send.extend_from_slice(&self.records.to_le_bytes());
        self.to_send.extend_from_slice(&self.own);
    }

    fn prove(&mut self, word: &[u8]) {
        let proof = self.mac(word, &[]).finalize().into_bytes();
        self.to_send.extend_from_slice(&proof);
    }

    /// Begins a proof of the key and of the nonce of the connecting side.
    fn opening(&self, nonce: &Nonce) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.key).expect("keys of any length are taken");
        mac.update(OPENING);
        mac.update(nonce);
        mac
    }

    /// Begins a proof of the key, of both nonces, and of `pieces`.
    fn mac(&self, word: &[u8], pieces: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.key).expect("keys of any length are taken");
        let other = self.other.unwrap_or_default();
        let (first, second) = match self.side {
            PortSide::Connects => (&self.own, &other),
            PortSide::Accepts => (&other, &self.own),
        };
        [word, first, second].into_iter().chain(pieces.iter().copied()).for_each(|piece| {
            mac.update(piece);
        });
        mac
    }

    fn proof_of_frame(&self, sender: PortSide, number: u64, body: &[u8]) -> Hmac<Sha256> {
        let word = match sender {
            PortSide::Connects => b"frame of the connecting side",
            PortSide::Accepts => b"frame of the accepting side ",
        };
        self.mac(word, &[&number.to_le_bytes(), body])
    }

    /// Adds a frame to the bytes to send.
    pub fn send_frame(&mut self, body: &[u8]) {
        let proof = self.proof_of_frame(self.side, self.frames_sent, body).finalize();
        self.frames_sent += 1;
        self.to_send.extend_from_slice(&(body.len() as u32).to_le_bytes());
        self.to_send.extend_from_slice(body);
        self.to_send.extend_from_slice(&proof.into_bytes());
    }

    /// Returns the next frame that has arrived completely; `None` if there is none.
    ///
    /// # Errors
    /// The frame is too long, or was changed on the way.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, PortRefusal> {
        let head = self.received.first_chunk::<HEAD_BYTES>().filter(|_| self.is_proved());
        let Some(head) = head else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > BODY_BYTES_MAX {
            return Err(PortRefusal::BadFrame);
        }
        let end = HEAD_BYTES + length + PROOF_BYTES;
        if self.received.len() < end {
            return Ok(None);
        }
        let rest = self.received.split_off(end);
        let frame = std::mem::replace(&mut self.received, rest);
        let (body, proof) = frame[HEAD_BYTES..].split_at(length);
        let sender = match self.side {
            PortSide::Connects => PortSide::Accepts,
            PortSide::Accepts => PortSide::Connects,
        };
        let expected = self.proof_of_frame(sender, self.frames_received, body);
        expected.verify_slice(proof).map_err(|_| PortRefusal::BadFrame)?;
        self.frames_received += 1;
        Ok(Some(body.to_vec()))
    }

    /// Returns a secret that only both sides of this connection can compute.
    pub fn secret(&self) -> [u8; 32] {
        self.mac(b"secret of two jobs", &[]).finalize().into_bytes().into()
    }
}

const OPENING: &[u8] = b"opening";
const CONNECTING: &[u8] = b"connecting";
const ACCEPTING: &[u8] = b"accepting";
const WELCOME: &[u8] = b"welcome";

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(keys: [u8; 2], records: [u32; 2]) -> (Handshake, Handshake) {
        let new = |side, place: usize| {
            let nonce = [place as u8 + 1; 16];
            Handshake::new(side, [keys[place]; 16], records[place], nonce)
        };
        (new(PortSide::Connects, 0), new(PortSide::Accepts, 1))
    }

    /// Passes all bytes between both sides, so many at a time.
    fn talk(
        one: &mut Handshake,
        other: &mut Handshake,
        piece: usize,
    ) -> [Result<(), PortRefusal>; 2] {
        let mut results = [Ok(()), Ok(())];
        while !one.to_send.is_empty() || !other.to_send.is_empty() {
            for (from, to, result) in [(0, 1, 1), (1, 0, 0)] {
                let sides = [&mut *one, &mut *other];
                let count = piece.min(sides[from].to_send.len());
                let bytes: Vec<u8> = sides[from].to_send.drain(..count).collect();
                if results[result].is_ok() {
                    results[result] = sides[to].take(&bytes);
                }
            }
        }
        results
    }

    #[test]
    fn both_sides_with_the_key_exchange_frames() {
        for piece in [1, 7, 1000] {
            let (mut one, mut other) = pair([5, 5], [2, 2]);
            assert_eq!(talk(&mut one, &mut other, piece), [Ok(()), Ok(())]);
            assert!(one.is_proved() && other.is_proved());
            assert_eq!(one.secret(), other.secret());
            for body in [&b"one"[..], b"", b"another"] {
                one.send_frame(body);
                other.send_frame(body);
                assert_eq!(talk(&mut one, &mut other, piece), [Ok(()), Ok(())]);
                assert_eq!(other.next_frame(), Ok(Some(body.to_vec())));
                assert_eq!(one.next_frame(), Ok(Some(body.to_vec())));
                assert_eq!(one.next_frame(), Ok(None));
            }
        }
    }

    #[test]
    fn the_connecting_side_is_done_only_when_its_proof_was_read() {
        let (mut one, mut other) = pair([5, 5], [2, 2]);
        let pass = |from: &mut Handshake, to: &mut Handshake| {
            assert_eq!(to.take(&std::mem::take(&mut from.to_send)), Ok(()));
        };
        pass(&mut one, &mut other);
        pass(&mut other, &mut one);
        assert!(!one.to_send.is_empty() && !one.is_proved());
        pass(&mut one, &mut other);
        assert!(other.is_proved() && !one.is_proved());
        pass(&mut other, &mut one);
        assert!(one.is_proved());
    }

    #[test]
    fn a_wrong_key_is_noticed_by_the_connecting_side() {
        let (mut one, mut other) = pair([5, 6], [2, 2]);
        let refused = Err(PortRefusal::WrongKey);
        assert_eq!(talk(&mut one, &mut other, 100), [refused, refused]);
        assert!(!one.is_proved() && !other.is_proved());
        assert_eq!(other.next_frame(), Ok(None), "nothing of it is parsed");
    }

    #[test]
    fn another_version_is_noticed_by_both_sides() {
        let (mut one, mut other) = pair([5, 5], [2, 3]);
        let refused = Err(PortRefusal::OtherVersion);
        assert_eq!(talk(&mut one, &mut other, 100), [refused, refused]);
    }

    #[test]
    fn garbage_is_refused() {
        let (mut one, mut other) = pair([5, 5], [2, 2]);
        let garbage = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".repeat(4);
        assert_eq!(one.take(&garbage), Err(PortRefusal::Stranger));
        assert_eq!(other.take(&garbage), Err(PortRefusal::Stranger));
        // A peer that greets properly and then sends garbage.
        let (one, mut other) = pair([5, 5], [2, 2]);
        assert_eq!(other.take(&[&one.to_send[..], &garbage].concat()), Err(PortRefusal::WrongKey));
    }

    #[test]
    fn changed_repeated_and_oversized_frames_are_refused() {
        let (mut one, mut other) = pair([5, 5], [2, 2]);
        assert_eq!(talk(&mut one, &mut other, 100), [Ok(()), Ok(())]);
        one.send_frame(b"body");
        let sent = std::mem::take(&mut one.to_send);
        let mut changed = sent.clone();
        changed[HEAD_BYTES] ^= 1;
        assert_eq!(other.take(&sent), Ok(()));
        assert_eq!(other.next_frame(), Ok(Some(b"body".to_vec())));
        assert_eq!(other.take(&sent), Ok(()));
        assert_eq!(other.next_frame(), Err(PortRefusal::BadFrame), "it is a repetition");
        assert_eq!(other.take(&changed), Ok(()));
        assert_eq!(other.next_frame(), Err(PortRefusal::BadFrame));
        assert_eq!(other.take(&u32::MAX.to_le_bytes()), Ok(()));
        assert_eq!(other.next_frame(), Err(PortRefusal::BadFrame));
    }
}
