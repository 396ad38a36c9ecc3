//! The handshake by which two processes prove to each other that they are of one job, or of two
//! connected jobs, before anything else is parsed.
//!
//! ```text
//! initiator                                responder
//!   greeting: magic, version, nonce A; ──▶
//!   proof of nonce A and the responder
//!                                      ◀──  greeting: magic, version, nonce B;
//!                                           proof of both nonces
//!   proof of both nonces and of the    ──▶
//!   introduction; introduction
//!                                      ◀──  reply
//! ```
//!
//! A proof is an HMAC-SHA-256 (RFC 2104) keyed with the secret of the job. Each proof includes a
//! word of its own, so that none can be answered with itself. The first proof distinguishes
//! processes of the job from all others before any state is kept. As it could be recorded and
//! replayed, it only gives room for the rest of the handshake.

use driver::Secret;
use hmac::{Hmac, Mac};
use sha2::Sha256;

pub(crate) type Nonce = [u8; 16];
pub(crate) type Greeting = [u8; GREETING_BYTES];

pub(crate) const GREETING_BYTES: usize = 32;
pub(crate) const PROOF_BYTES: usize = 32;
pub(crate) const INTRODUCTION_BYTES: usize = 16;
/// The length of the initiator's first message.
pub(crate) const OPENING_BYTES: usize = GREETING_BYTES + PROOF_BYTES;
/// The length of the responder's answer to it.
pub(crate) const ANSWER_BYTES: usize = GREETING_BYTES + PROOF_BYTES;
/// The length of the initiator's second message.
pub(crate) const CLAIM_BYTES: usize = PROOF_BYTES + INTRODUCTION_BYTES;
pub(crate) const REPLY_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"Combray\x02";
/// The version of frames; records have a version of their own.
const VERSION: u32 = 3;

/// Which process connects to which, and for which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionClaim {
    pub from: u32,
    pub to: u32,
    pub link: u32,
}

/// The responder's decision about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeReply {
    /// The connection is accepted.
    Welcome,
    /// The other side is about to establish this connection itself; that one is used.
    Crossing,
}

pub(crate) fn greeting(records: u32, nonce: &Nonce) -> Greeting {
    let mut out = [0; GREETING_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&records.to_le_bytes());
    out[16..].copy_from_slice(nonce);
    out
}

/// Returns the nonce of a greeting.
///
/// # Errors
/// It is no greeting of this version.
pub(crate) fn nonce_of(greeting: &[u8], records: u32) -> Result<Nonce, &'static str> {
    let (head, nonce) = greeting.split_at(16);
    if head[..8] != MAGIC {
        return Err("it does not speak Combray's protocol");
    }
    if head[8..12] != VERSION.to_le_bytes() || head[12..] != records.to_le_bytes() {
        return Err("it runs another version of Combray");
    }
    Ok(nonce.try_into().expect("a greeting has 32 bytes"))
}

/// Whether a greeting is one of Combray, of any version.
pub(crate) fn is_greeting(greeting: &[u8]) -> bool {
    greeting[..8] == MAGIC
}

fn mac(secret: &Secret, direction: &[u8], pieces: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::new_from_slice(secret).expect("keys of any length are taken");
    mac.update(direction);
    pieces.iter().for_each(|piece| mac.update(piece));
    mac
}

/// Returns the initiator's first message, to the process `to`.
pub(crate) fn opening(
    secret: &Secret,
    to: u32,
    records: u32,
    nonce: &Nonce,
) -> [u8; OPENING_BYTES] {
    let mut out = [0; OPENING_BYTES];
    out[..GREETING_BYTES].copy_from_slice(&greeting(records, nonce));
    let mac = mac(secret, b"opening", &[nonce, &to.to_le_bytes()]).finalize().into_bytes();
    out[GREETING_BYTES..].copy_from_slice(&mac);
    out
}

/// Whether the proof of an opening was made with this secret, for the process `own`.
pub(crate) fn is_opening(secret: &Secret, own: u32, nonce: &Nonce, proof: &[u8]) -> bool {
    mac(secret, b"opening", &[nonce, &own.to_le_bytes()]).verify_slice(proof).is_ok()
}

/// Returns the responder's proof.
pub(crate) fn answer(secret: &Secret, first: &Nonce, second: &Nonce) -> [u8; PROOF_BYTES] {
    mac(secret, b"responder", &[first, second]).finalize().into_bytes().into()
}

/// Whether an answer proves that the responder has the secret.
pub(crate) fn is_answer(secret: &Secret, first: &Nonce, second: &Nonce, proof: &[u8]) -> bool {
    mac(secret, b"responder", &[first, second]).verify_slice(proof).is_ok()
}

/// Returns the initiator's proof and introduction.
pub(crate) fn claim(
    secret: &Secret,
    first: &Nonce,
    second: &Nonce,
    introduction: ConnectionClaim,
) -> [u8; CLAIM_BYTES] {
    let ConnectionClaim { from, to, link } = introduction;
    let mut out = [0; CLAIM_BYTES];
    let (proof, words) = out.split_at_mut(PROOF_BYTES);
    for (place, word) in words.chunks_exact_mut(4).zip([from, to, link]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let mac = mac(secret, b"initiator", &[first, second, words]).finalize().into_bytes();
    proof.copy_from_slice(&mac);
    out
}

/// Returns the claim to connect, if it is proven.
pub(crate) fn introduction_of(
    secret: &Secret,
    first: &Nonce,
    second: &Nonce,
    claim: &[u8],
) -> Option<ConnectionClaim> {
    let (proof, words) = claim.split_at(PROOF_BYTES);
    mac(secret, b"initiator", &[first, second, words]).verify_slice(proof).ok()?;
    let word = |at: usize| u32::from_le_bytes(words[at..at + 4].try_into().expect("four bytes"));
    Some(ConnectionClaim { from: word(0), to: word(4), link: word(8) })
}

impl HandshakeReply {
    pub(crate) fn emit(self) -> [u8; REPLY_BYTES] {
        match self {
            HandshakeReply::Welcome => *b"welcome\0",
            HandshakeReply::Crossing => *b"crossing",
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        [HandshakeReply::Welcome, HandshakeReply::Crossing]
            .into_iter()
            .find(|reply| reply.emit() == bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_knows_the_secret_is_believed() {
        let (secret, other) = ([7; 32], [8; 32]);
        let (first, second) = ([1; 16], [2; 16]);
        let proof = answer(&secret, &first, &second);
        assert!(is_answer(&secret, &first, &second, &proof));
        assert!(!is_answer(&other, &first, &second, &proof));
        assert!(!is_answer(&secret, &second, &first, &proof));
        let opened = opening(&secret, 4, 1, &first);
        let (greeted, opening_proof) = opened.split_at(GREETING_BYTES);
        assert_eq!(nonce_of(greeted, 1), Ok(first));
        assert!(is_opening(&secret, 4, &first, opening_proof));
        assert!(!is_opening(&secret, 5, &first, opening_proof), "meant for another process");
        assert!(!is_opening(&secret, 4, &second, opening_proof));
        assert!(!is_opening(&other, 4, &first, opening_proof));
        let introduction = ConnectionClaim { from: 3, to: 4, link: 1 };
        let mut claimed = claim(&secret, &first, &second, introduction);
        assert_eq!(introduction_of(&secret, &first, &second, &claimed), Some(introduction));
        assert_eq!(introduction_of(&other, &first, &second, &claimed), None);
        claimed[PROOF_BYTES] ^= 1;
        assert_eq!(introduction_of(&secret, &first, &second, &claimed), None, "another rank");
        let reflected = [&proof[..], &[0; 16]].concat();
        assert_eq!(introduction_of(&secret, &first, &second, &reflected), None);
    }

    #[test]
    fn greetings_of_others_are_refused() {
        let nonce = [9; 16];
        assert_eq!(nonce_of(&greeting(2, &nonce), 2), Ok(nonce));
        assert!(nonce_of(&greeting(1, &nonce), 2).unwrap_err().contains("version"));
        assert!(nonce_of(b"GET / HTTP/1.1\r\nHost: example\r\n", 2).is_err());
    }
}
