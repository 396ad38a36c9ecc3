#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod codec;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod label;
mod layout;
mod number;
mod record;

pub use codec::Codec;
pub use label::{PartLabel, PushLabel};
pub use number::{push_number, take_number};
pub use record::{
    Envelope, FlowLabel, LoneMessage, Malformed, NO_REQUEST, Record, Records, message_header,
};

/// The version of this format, and of all messages of the library itself; peers must agree on it
/// before the first packet.
pub const VERSION: u32 = 9;

/// The length of a record that carries a short message of an agreed flow, without its payload, in
/// bytes. The receiver has assigned a number to such a flow ([`FlowLabel::Agreed`]).
pub const MESSAGE_HEADER_BYTES: usize = 16;

/// The length of a record whose payload is aligned to a cache line in shared memory, without its
/// payload, in bytes. The shared memory is a ring, or a lane, which is a ring with one sender. Such
/// records carry a message of an agreed flow, or a fragment of one; aligned copies are faster.
pub const ALIGNED_HEADER_BYTES: usize = 56;

/// The length of the record that opens a numbered packet, in bytes.
pub const NUMBER_BYTES: usize = 16;

/// The longest payload of one record, in bytes: the largest multiple of 8 that fits in the header's
/// 16 bits.
pub const PAYLOAD_BYTES_MAX: usize = u16::MAX as usize - 7;

/// The longest header of any record, in bytes: the room that a packet must have beside the payload.
pub const HEADER_BYTES_MAX: usize = 80;

/// Returns the length in a packet of a record of `header` and `payload` bytes.
#[inline]
pub fn padded(header: usize, payload: usize) -> usize {
    (header + payload).next_multiple_of(8)
}
