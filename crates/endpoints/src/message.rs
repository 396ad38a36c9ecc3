//! The messages that both ends of connections send to each other, beside those of the program.
//!
//! A message of the program has the key of its connection at the receiver as its tag, and the bit
//! [`UNORDERED`] if it need not be delivered in order. Short ones that had to wait come in a
//! message with tag [`BATCH`]. The messages of this module have tag [`CONTROL`]. All have one
//! message space, in which the engine keeps their order.

use base::ErrorClass;
use wire::Codec;

use crate::slots::KEY_BITS;

/// The tag of the messages of this module; keys of connections are never 0.
pub(crate) const CONTROL: i32 = 0;

/// The tag of a [batch](crate::batches).
pub(crate) const BATCH: i32 = UNORDERED;

/// The bit in the tag of a message that is delivered as soon as it is here.
pub(crate) const UNORDERED: i32 = 1 << KEY_BITS;

/// What each process sends of a connection while they meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// The key of the connection at the sender.
    pub key: u32,
    /// What the receiver may send before the sender has returned any of it, in bytes.
    pub window: u64,
    /// The data of the connecting program.
    pub data: Vec<u8>,
}

wire::codec!(Introduction { key, window, data });

/// A message about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// The key of the connection at the receiver.
    pub to: u32,
    kind: u8,
    amount: u64,
    data: Vec<u8>,
}

wire::codec!(Control { to, kind, amount, data });

/// An access to registered memory of the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryAccess {
    /// The number of the operation at the sender.
    pub operation: u32,
    /// The key of the memory, and its secret.
    pub memory: u32,
    pub secret: u64,
    /// The range in bytes.
    pub offset: u64,
    pub bytes: u64,
    /// Whether the operation is complete with this part.
    pub is_last: bool,
}

wire::codec!(MemoryAccess { operation, memory, secret, offset, bytes, is_last });

/// What a message says of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The connecting process has met the receiver, and its rails work.
    Met,
    /// The program has accepted it.
    Accepted,
    /// The program has rejected it, with this data.
    Rejected(Vec<u8>),
    /// So many bytes of what the receiver has sent were returned.
    Returned(u64),
    /// The sender sends nothing more.
    Closed,
    /// The next message to the connection has the bytes to be written.
    Write(MemoryAccess),
    /// The sender requests bytes.
    Read(MemoryAccess),
    /// The next message to the connection has bytes that the receiver has requested with this
    /// operation, from this place of its range.
    Piece(u32, u64),
    /// The next message to the connection is delivered if the write with this number was not
    /// refused.
    Following(u32),
    /// An operation of the receiver is complete, or was refused.
    Done(u32, Option<ErrorClass>),
    /// The receiver must answer, because the sender has received nothing for a while.
    Ask,
    /// The answer.
    Here,
}

/// The length of a message about a connection, at most.
pub(crate) const CONTROL_BYTES_MAX: u64 = 2048;

impl Control {
    pub fn encode(to: u32, word: &Word) -> Vec<u8> {
        let (kind, amount, data) = match word {
            Word::Accepted => (0, 0, Vec::new()),
            Word::Rejected(data) => (1, 0, data.clone()),
            Word::Returned(bytes) => (2, *bytes, Vec::new()),
            Word::Closed => (3, 0, Vec::new()),
            Word::Met => (4, 0, Vec::new()),
            Word::Write(access) => (5, 0, access.to_bytes()),
            Word::Read(access) => (6, 0, access.to_bytes()),
            Word::Piece(operation, offset) => (7, *offset, operation.to_bytes()),
            Word::Following(operation) => (8, 0, operation.to_bytes()),
            Word::Done(operation, refusal) => (9, 0, (*operation, *refusal).to_bytes()),
            Word::Ask => (10, 0, Vec::new()),
            Word::Here => (11, 0, Vec::new()),
        };
        Self { to, kind, amount, data }.to_bytes()
    }

    pub fn decode(bytes: &[u8]) -> Option<(u32, Word)> {
        let Self { to, kind, amount, data } = Self::from_bytes(bytes)?;
        let word = match kind {
            0 => Word::Accepted,
            1 => Word::Rejected(data),
            2 => Word::Returned(amount),
            3 => Word::Closed,
            4 => Word::Met,
            5 => Word::Write(Codec::from_bytes(&data)?),
            6 => Word::Read(Codec::from_bytes(&data)?),
            7 => Word::Piece(Codec::from_bytes(&data)?, amount),
            8 => Word::Following(Codec::from_bytes(&data)?),
            9 => {
                let (operation, refusal) = Codec::from_bytes(&data)?;
                Word::Done(operation, refusal)
            }
            10 => Word::Ask,
            11 => Word::Here,
            _ => return None,
        };
        Some((to, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_their_messages() {
        let rejected = Word::Rejected(vec![1; 1024]);
        let access = MemoryAccess { operation: 1, offset: u64::MAX, ..MemoryAccess::default() };
        let words = [
            Word::Met,
            Word::Accepted,
            rejected,
            Word::Returned(7),
            Word::Closed,
            Word::Write(access),
            Word::Read(MemoryAccess { is_last: true, ..access }),
            Word::Piece(5, u64::MAX),
            Word::Following(6),
            Word::Done(7, None),
            Word::Done(8, Some(ErrorClass::Access)),
            Word::Ask,
            Word::Here,
        ];
        for word in words {
            let bytes = Control::encode(9, &word);
            assert!(bytes.len() as u64 <= CONTROL_BYTES_MAX);
            assert_eq!(Control::decode(&bytes), Some((9, word)));
            assert_eq!(Control::decode(&bytes[1..]), None);
        }
        assert_eq!(Control::decode(&[5; 17]), None);
    }
}
