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
//! The connecting side decides whether everything that follows is encrypted, by a bit of its
//! greeting that all proofs include. Then its second proof is followed by an offer to agree on
//! keys, and the welcome by the answer, and frames are sealed as records.
//!
//! A proof is an HMAC-SHA-256 keyed with the key of the port. Each frame ends with one that
//! includes both nonces, the direction and the number of the frame. This module has no sockets.

use hmac::{Hmac, Mac};
use sealing::{AGREEMENT_BYTES, KeyAgreement, Sealing, SealingSide};
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
const VERSION: u32 = 4;
/// The bit beside the version in the greeting of a side that encrypts.
const ENCRYPTS: u32 = 1 << 31;

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
    /// The accepting side insists on encryption, and the connecting one does not encrypt.
    Unencrypted,
}

/// One side of a connection: bytes in, bytes and frames out.
#[derive(Debug)]
pub(crate) struct Handshake {
    side: PortSide,
    /// Whether frames are encrypted; on the accepting side, until the other one has greeted,
    /// whether it insists on that.
    is_encrypted: bool,
    /// The offer of the connecting side to agree on keys.
    agreement: Option<KeyAgreement>,
    /// What seals and opens frames.
    sealing: Option<Sealing>,
    /// Records that have arrived incompletely.
    sealed: Vec<u8>,
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
    /// Begins a handshake; the connecting side encrypts, or the accepting one insists on that.
    /// `own` is a random number that is used once.
    pub fn new(
        (side, is_encrypted): (PortSide, bool),
        key: PortKey,
        records: u32,
        own: Nonce,
    ) -> Self {
        let mut handshake = Self {
            side,
            is_encrypted,
            agreement: None,
            sealing: None,
            sealed: Vec::new(),
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

    /// Whether frames are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
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
        if self.sealing.is_some() {
            self.sealed.extend_from_slice(bytes);
            return self.open_records();
        }
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
            HandshakeStage::AwaitsProof | HandshakeStage::AwaitsWelcome => self.take_proof(),
            HandshakeStage::Proved => Ok(()),
        }
    }

    fn take_proof(&mut self) -> Result<(), PortRefusal> {
        let word = match (self.side, self.stage) {
            (PortSide::Accepts, _) => CONNECTING,
            (PortSide::Connects, HandshakeStage::AwaitsWelcome) => WELCOME,
            (PortSide::Connects, _) => ACCEPTING,
        };
        let has_keys = self.is_encrypted && word != ACCEPTING;
        let length = PROOF_BYTES + if has_keys { AGREEMENT_BYTES } else { 0 };
        if self.received.len() < length {
            return Ok(());
        }
        let message: Vec<u8> = self.received.drain(..length).collect();
        let (proof, keys) = message.split_at(PROOF_BYTES);
        if self.mac(word, &[]).verify_slice(proof).is_err() {
            return Err(PortRefusal::WrongKey);
        }
        match self.side {
            PortSide::Accepts => {
                let answer = self.answer_offer(keys)?;
                self.prove(WELCOME);
                self.to_send.extend_from_slice(&answer);
            }
            PortSide::Connects if word == ACCEPTING => {
                self.prove(CONNECTING);
                self.offer_keys()?;
                self.stage = HandshakeStage::AwaitsWelcome;
                return Ok(());
            }
            PortSide::Connects => self.finish_agreement(keys)?,
        }
        self.stage = HandshakeStage::Proved;
        if self.sealing.is_some() {
            self.sealed = std::mem::take(&mut self.received);
            self.open_records()?;
        }
        Ok(())
    }

    /// Adds the offer to agree on keys to what must be sent, if frames are encrypted.
    fn offer_keys(&mut self) -> Result<(), PortRefusal> {
        if self.is_encrypted {
            let mut agreement = self.key_agreement(SealingSide::Initiator);
            let offer = agreement.offer().map_err(|_| PortRefusal::BadFrame)?;
            self.to_send.extend_from_slice(&offer);
            self.agreement = Some(agreement);
        }
        Ok(())
    }

    /// Returns the answer to an offer to agree on keys; nothing if there is none.
    fn answer_offer(&mut self, offer: &[u8]) -> Result<Vec<u8>, PortRefusal> {
        let Ok(offer) = offer.try_into() else { return Ok(Vec::new()) };
        let agreement = self.key_agreement(SealingSide::Responder);
        let (answer, sealing) = agreement.answer(offer).map_err(|_| PortRefusal::BadFrame)?;
        self.sealing = Some(sealing);
        Ok(answer.to_vec())
    }

    fn finish_agreement(&mut self, answer: &[u8]) -> Result<(), PortRefusal> {
        if let (Some(agreement), Ok(answer)) = (self.agreement.take(), answer.try_into()) {
            self.sealing = Some(agreement.finish(answer).map_err(|_| PortRefusal::BadFrame)?);
        }
        Ok(())
    }

    /// Begins to agree on keys with a secret that depends on the key of the port and both nonces.
    fn key_agreement(&self, side: SealingSide) -> KeyAgreement {
        let secret = self.mac(b"secret of frames", &[]).finalize().into_bytes();
        KeyAgreement::new(side, &secret.into(), b"frames of a port")
    }

    /// Opens the records that have arrived completely.
    fn open_records(&mut self) -> Result<(), PortRefusal> {
        let Some(sealing) = &mut self.sealing else { return Ok(()) };
        let mut opened = 0;
        loop {
            let rest = &self.sealed[opened..];
            let Some(length) = sealing::record_bytes(rest).map_err(|_| PortRefusal::BadFrame)?
            else {
                break;
            };
            let start = self.received.len();
            self.received.resize(start + sealing::content_bytes(length), 0);
            let content = &mut self.received[start..];
            sealing.open(&rest[..length], content).map_err(|_| PortRefusal::BadFrame)?;
            opened += length;
        }
        self.sealed.drain(..opened);
        Ok(())
    }

    fn take_greeting(&mut self, greeting: &[u8; GREETING_BYTES]) -> Result<(), PortRefusal> {
        let (head, nonce) = greeting.split_at(GREETING_BYTES - size_of::<Nonce>());
        if head[..8] != MAGIC {
            return Err(PortRefusal::Stranger);
        }
        let mut other = Nonce::default();
        other.copy_from_slice(nonce);
        self.other = Some(other);
        let word = head[8..12].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let (version, encrypts) = (word & !ENCRYPTS, word & ENCRYPTS != 0);
        if version != VERSION || head[12..] != self.records.to_le_bytes() {
            if self.side == PortSide::Accepts {
                self.greet();
            }
            return Err(PortRefusal::OtherVersion);
        }
        match self.side {
            PortSide::Accepts if self.is_encrypted && !encrypts => {
                // The other side learns from the greeting that it must encrypt.
                self.greet();
                return Err(PortRefusal::Unencrypted);
            }
            PortSide::Connects if encrypts && !self.is_encrypted => {
                return Err(PortRefusal::Unencrypted);
            }
            PortSide::Accepts => self.is_encrypted = encrypts,
            PortSide::Connects => {}
        }
        self.stage = match self.side {
            PortSide::Accepts => HandshakeStage::AwaitsOpening,
            PortSide::Connects => HandshakeStage::AwaitsProof,
        };
        Ok(())
    }

    fn greet(&mut self) {
        self.to_send.extend_from_slice(&MAGIC);
        let encrypts = if self.is_encrypted { ENCRYPTS } else { 0 };
        self.to_send.extend_from_slice(&(VERSION | encrypts).to_le_bytes());
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
        mac.update(&[u8::from(self.is_encrypted)]);
        mac.update(nonce);
        mac
    }

    /// Begins a proof of the key, of the encryption, of both nonces, and of `pieces`.
    fn mac(&self, word: &[u8], pieces: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.key).expect("keys of any length are taken");
        let other = self.other.unwrap_or_default();
        let (first, second) = match self.side {
            PortSide::Connects => (&self.own, &other),
            PortSide::Accepts => (&other, &self.own),
        };
        let encryption = [u8::from(self.is_encrypted)];
        [word, &encryption, first, second].into_iter().chain(pieces.iter().copied()).for_each(
            |piece| {
                mac.update(piece);
            },
        );
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
        let head = (body.len() as u32).to_le_bytes();
        let frame = [&head[..], body, &proof.into_bytes()].concat();
        match &mut self.sealing {
            Some(sealing) => frame
                .chunks(sealing::CONTENT_BYTES_MAX)
                .for_each(|piece| sealing.seal(piece, &mut self.to_send)),
            None => self.to_send.extend_from_slice(&frame),
        }
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
        pair_with([false, false], keys, records)
    }

    /// Returns a connecting side that encrypts, and an accepting one that insists on that, or not.
    fn pair_with(encrypts: [bool; 2], keys: [u8; 2], records: [u32; 2]) -> (Handshake, Handshake) {
        let new = |side, place: usize| {
            let nonce = [place as u8 + 1; 16];
            Handshake::new((side, encrypts[place]), [keys[place]; 16], records[place], nonce)
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
        let ways = [[false, false], [true, false], [true, true]];
        for (piece, encrypts) in [1, 7, 1000].into_iter().flat_map(|one| ways.map(|way| (one, way)))
        {
            let (mut one, mut other) = pair_with(encrypts, [5, 5], [2, 2]);
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

    /// Something between both sides makes an encrypted connection look like one that is not.
    #[test]
    fn encryption_cannot_be_switched_off_on_the_way() {
        let (mut one, mut other) = pair_with([false, true], [5, 5], [2, 2]);
        assert_eq!(talk(&mut one, &mut other, 1000), [Err(PortRefusal::Unencrypted); 2]);
        for insists in [false, true] {
            let (one, mut other) = pair_with([!insists, insists], [5, 5], [2, 2]);
            let mut changed = one.to_send.clone();
            changed[11] ^= 0x80;
            assert_eq!(other.take(&changed), Err(PortRefusal::WrongKey));
        }
    }

    #[test]
    fn encrypted_frames_show_nothing_and_cannot_be_changed() {
        let (mut one, mut other) = pair_with([true, true], [5, 5], [2, 2]);
        assert_eq!(talk(&mut one, &mut other, 100), [Ok(()), Ok(())]);
        let body = b"a body that nothing between both sides may see".repeat(1000);
        one.send_frame(&body);
        let sent = std::mem::take(&mut one.to_send);
        assert!(!sent.windows(8).any(|some| some == &body[..8]));
        let mut changed = sent.clone();
        changed[sent.len() / 2] ^= 1;
        assert_eq!(other.take(&changed), Err(PortRefusal::BadFrame));
        let (mut one, mut other) = pair_with([true, true], [5, 5], [2, 2]);
        assert_eq!(talk(&mut one, &mut other, 100), [Ok(()), Ok(())]);
        assert_eq!(other.take(&sent), Err(PortRefusal::BadFrame), "of an earlier connection");
        one.send_frame(b"once");
        let sent = std::mem::take(&mut one.to_send);
        let (mut one, mut other) = pair_with([true, true], [5, 5], [2, 2]);
        assert_eq!(talk(&mut one, &mut other, 100), [Ok(()), Ok(())]);
        one.send_frame(b"once");
        let now = std::mem::take(&mut one.to_send);
        assert_ne!(now, sent, "keys are used for one connection");
        assert_eq!(other.take(&now), Ok(()));
        assert_eq!(other.next_frame(), Ok(Some(b"once".to_vec())));
        assert_eq!(other.take(&now), Err(PortRefusal::BadFrame), "it is a repetition");
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
