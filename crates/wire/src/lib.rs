#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod label;
mod layout;
mod number;
mod record;

pub use label::PartLabel;
pub use number::{push_number, take_number};
pub use record::{
    Envelope, FlowLabel, LoneMessage, Malformed, NO_REQUEST, Record, Records, message_header,
};

/// The version of this format; peers must agree on it before the first packet.
pub const VERSION: u32 = 4;

/// Bytes of a record that carries a short message with an agreed flow, without its payload.
pub const MESSAGE_HEADER_BYTES: usize = 16;

/// Bytes of a record whose payload begins with a cache line, in a ring or lane, as copies are
/// faster then, without its payload: of a message of an agreed flow, or a fragment of one.
pub const ALIGNED_HEADER_BYTES: usize = 56;

/// Bytes of the record that opens a numbered packet.
pub const NUMBER_BYTES: usize = 16;

/// The longest payload that one record carries, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = u16::MAX as usize - 7;

/// The longest header of any record: what must be left in a packet beside the payload.
pub const HEADER_BYTES_MAX: usize = 80;

/// The bytes that a record of `header` and `payload` bytes takes in a packet.
#[inline]
pub fn padded(header: usize, payload: usize) -> usize {
    (header + payload).next_multiple_of(8)
}
