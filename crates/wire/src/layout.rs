//! Where fields lie, and reading and writing them.

use std::ops::Range;

pub(crate) const KIND: usize = 0;
pub(crate) const FLAGS: usize = 1;
pub(crate) const PAYLOAD_LENGTH: Range<usize> = 2..4;
pub(crate) const WORD_A: Range<usize> = 4..8;
pub(crate) const WORD_B: Range<usize> = 8..12;
pub(crate) const WORD_C: Range<usize> = 12..16;

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

/// The flow is not agreed yet: context and source follow the header.
pub(crate) const FLAG_NEW_FLOW: u8 = 1;
/// The sender waits until the message is matched: its request follows.
pub(crate) const FLAG_SYNCHRONOUS: u8 = 2;
/// The announced memory can be fetched by the receiver.
pub(crate) const FLAG_FETCHABLE: u8 = 4;
/// The message could be withdrawn.
pub(crate) const FLAG_WITHDRAWN: u8 = 8;

pub(crate) const NEW_FLOW_BYTES: usize = 16;
pub(crate) const SYNCHRONOUS_BYTES: usize = 8;
pub(crate) const ANNOUNCE_BYTES: usize = 32;

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: Range<usize>) -> u16 {
    u16::from_le_bytes(bytes[at].try_into().expect("the range has two bytes"))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: Range<usize>) -> u32 {
    u32::from_le_bytes(bytes[at].try_into().expect("the range has four bytes"))
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the range has eight bytes"))
}

#[inline]
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Writes the sixteen bytes with which every record begins.
#[inline]
pub(crate) fn put_header(bytes: &mut [u8], kind: u8, flags: u8, payload: usize, words: [u32; 3]) {
    let first = u64::from(kind)
        | u64::from(flags) << 8
        | (payload as u64 & 0xffff) << 16
        | u64::from(words[0]) << 32;
    put_u64(bytes, 0, first);
    put_u64(bytes, 8, u64::from(words[1]) | u64::from(words[2]) << 32);
}
