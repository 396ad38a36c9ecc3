//! The head of each message: its sender, and the proof that it is of the job.

use base::GateId;
use driver::Secret;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The number of bytes before the contents of a message.
pub(crate) const HEAD_BYTES: usize = 16;

/// Proves that a message comes from a process of the job and is for this process.
pub(crate) type Token = [u8; 7];

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Packet = 1,
    /// Empty: the sender tests whether this process still exists.
    Ping = 2,
    /// The sender sends nothing more.
    Goodbye = 3,
    /// The address of a part of a large message, which this process may read.
    Offer = 4,
    /// The numbers of parts that the sender has read.
    Read = 5,
    /// The sender does not use this rail any more.
    Lost = 6,
    /// The sender begins again a rail that was lost, and expects an answer.
    Hello = 7,
    /// The answer to a hello.
    Answer = 8,
}

impl MessageKind {
    /// Whether it carries data whose loss the layers above would notice.
    pub(crate) fn carries(self) -> bool {
        matches!(self, Self::Packet | Self::Offer | Self::Read)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageHead {
    pub kind: MessageKind,
    pub token: Token,
    /// The sender's rank.
    pub sender: u32,
    /// Its sequence number on this rail: large messages may complete after later ones.
    pub sequence: u32,
}

impl MessageKind {
    /// Whether a message of this kind begins to carry data of its sender, which cancels the goodbye
    /// that the sender has said before.
    pub(crate) fn is_data(self) -> bool {
        matches!(self, Self::Packet | Self::Offer)
    }
}

impl MessageHead {
    pub(crate) fn bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1..8].copy_from_slice(&self.token);
        bytes[8..12].copy_from_slice(&self.sender.to_le_bytes());
        bytes[12..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }

    /// Returns the head of a message, if it may be one.
    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let (kind, rest) = message.split_first()?;
        let (token, rest) = rest.split_first_chunk()?;
        let (sender, rest) = rest.split_first_chunk()?;
        let (sequence, _) = rest.split_first_chunk()?;
        let kind = match kind {
            1 => MessageKind::Packet,
            2 => MessageKind::Ping,
            3 => MessageKind::Goodbye,
            4 => MessageKind::Offer,
            5 => MessageKind::Read,
            6 => MessageKind::Lost,
            7 => MessageKind::Hello,
            8 => MessageKind::Answer,
            _ => return None,
        };
        let (sender, sequence) = (u32::from_le_bytes(*sender), u32::from_le_bytes(*sequence));
        Some(Self { kind, token: *token, sender, sequence })
    }
}

/// Returns the token of messages from one process to another, which has drawn `nonce`, after a rail
/// was lost and begun anew `turn` times.
pub(crate) fn token(secret: &Secret, from: u32, (to, nonce): (GateId, u64), turn: u32) -> Token {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("keys may have any length");
    mac.update(b"combray libfabric 2");
    mac.update(&from.to_le_bytes());
    mac.update(&to.0.to_le_bytes());
    mac.update(&nonce.to_le_bytes());
    mac.update(&turn.to_le_bytes());
    let bytes = mac.finalize().into_bytes();
    std::array::from_fn(|at| bytes[at])
}

/// Whether two tokens are equal, compared in constant time.
pub(crate) fn agree(one: &Token, other: &Token) -> bool {
    one.iter().zip(other).fold(0, |bits, (one, other)| bits | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_its_bytes() {
        use MessageKind::{Answer, Goodbye, Hello, Lost, Offer, Packet, Ping, Read};
        for kind in [Packet, Ping, Goodbye, Offer, Read, Lost, Hello, Answer] {
            let head = MessageHead { kind, token: [1, 2, 3, 4, 5, 6, 7], sender: 258, sequence: 9 };
            assert_eq!(MessageHead::parse(&head.bytes()), Some(head));
        }
        assert_eq!(MessageHead::parse(&[1; HEAD_BYTES - 1]), None);
        assert_eq!(MessageHead::parse(&[0; HEAD_BYTES]), None);
    }

    #[test]
    fn tokens_differ_by_all_that_they_are_for() {
        let of =
            |secret, from, to, nonce, turn| token(&[secret; 32], from, (GateId(to), nonce), turn);
        let one = of(1, 2, 3, 4, 5);
        assert!(agree(&one, &of(1, 2, 3, 4, 5)));
        let others = [of(2, 2, 3, 4, 5), of(1, 3, 2, 4, 5), of(1, 2, 3, 5, 5), of(1, 2, 3, 4, 6)];
        assert!(others.iter().all(|other| !agree(&one, other)));
    }
}
