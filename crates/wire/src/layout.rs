//! The layout of records: offsets, and reading and writing of fields.

use memory::{SharedBytes, SharedBytesMut};

use crate::MESSAGE_HEADER_BYTES;

pub(crate) const KIND_MESSAGE: u8 = 1;
pub(crate) const KIND_ANNOUNCE: u8 = 2;
pub(crate) const KIND_GRANT: u8 = 3;
pub(crate) const KIND_DATA: u8 = 4;
pub(crate) const KIND_FINISHED: u8 = 5;
pub(crate) const KIND_CREDIT: u8 = 6;
pub(crate) const KIND_FLOW: u8 = 7;
pub(crate) const KIND_CANCEL: u8 = 8;
pub(crate) const KIND_CANCEL_REPLY: u8 = 9;
pub(crate) const KIND_NUMBER: u8 = 10;
pub(crate) const KIND_RECEIVED: u8 = 11;
pub(crate) const KIND_FRAGMENT: u8 = 12;
pub(crate) const KIND_CLOSE: u8 = 13;

/// The flow is not agreed yet: context and source follow the header.
pub(crate) const FLAG_NEW_FLOW: u8 = 1;
/// The sender waits for the match: its request follows.
pub(crate) const FLAG_SYNCHRONOUS: u8 = 2;
/// The announced memory can be fetched by the receiver.
pub(crate) const FLAG_FETCHABLE: u8 = 4;
/// The message was withdrawn.
pub(crate) const FLAG_WITHDRAWN: u8 = 8;

/// The payload is the first fragment of the message, whose whole length follows.
pub(crate) const FLAG_FRAGMENTED: u8 = 16;
/// Padding precedes the payload, which is then aligned to a cache line.
pub(crate) const FLAG_ALIGNED: u8 = 32;

pub(crate) const NEW_FLOW_BYTES: usize = 16;
pub(crate) const SYNCHRONOUS_BYTES: usize = 8;
pub(crate) const ANNOUNCE_BYTES: usize = 32;

/// The sixteen bytes with which every record begins, read once.
#[derive(Clone, Copy)]
pub(crate) struct RecordHeader([u64; 2]);

impl RecordHeader {
    /// Reads the header at the beginning of `bytes`, if they are long enough.
    #[inline(always)]
    pub(crate) fn read(bytes: SharedBytes<'_>) -> Option<Self> {
        let header = bytes.get(0, MESSAGE_HEADER_BYTES)?;
        Some(Self([header.u64_at(0), header.u64_at(8)]))
    }

    /// Returns kind and flags.
    #[inline(always)]
    pub(crate) fn kind_and_flags(self) -> (u8, u8) {
        (self.0[0] as u8, (self.0[0] >> 8) as u8)
    }

    /// Returns the length of the payload in bytes.
    #[inline(always)]
    pub(crate) fn payload_len(self) -> usize {
        usize::from((self.0[0] >> 16) as u16)
    }

    /// Returns the three words.
    #[inline(always)]
    pub(crate) fn words(self) -> [u32; 3] {
        [(self.0[0] >> 32) as u32, self.0[1] as u32, (self.0[1] >> 32) as u32]
    }

    /// Returns the first two words, as one number.
    #[inline]
    pub(crate) fn long_word(self) -> u64 {
        let [low, high, _] = self.words();
        u64::from(low) | u64::from(high) << 32
    }
}

/// Writes the sixteen bytes with which every record begins.
#[inline]
pub(crate) fn put_header(
    out: SharedBytesMut<'_>,
    kind: u8,
    flags: u8,
    payload: usize,
    words: [u32; 3],
) {
    let first = u64::from(kind)
        | u64::from(flags) << 8
        | (payload as u64 & 0xffff) << 16
        | u64::from(words[0]) << 32;
    out.put_u64(0, first);
    out.put_u64(8, u64::from(words[1]) | u64::from(words[2]) << 32);
}
