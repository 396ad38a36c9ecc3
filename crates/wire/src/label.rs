//! The label of a part of a large message on a bulk track, over which a rail transfers parts
//! directly from the sender's memory to the receiver's.

use memory::{SharedBytes, SharedBytesMut};

use crate::record::Malformed;

/// Identifies the part of a message that follows on a bulk track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLabel {
    /// The receiver's request.
    pub receiver: u64,
    /// The offset of the part in the message, in bytes.
    pub offset: u64,
    /// The number of the part, if packets and parts are numbered (in one sequence).
    pub number: Option<u32>,
}

/// Flag: the part has a number.
const NUMBERED: u64 = 1 << 32;

impl PartLabel {
    /// The length of a label in bytes.
    pub const BYTES: usize = 24;

    /// Encodes the label.
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let out = SharedBytesMut::from(&mut bytes);
        out.put_u64(0, self.receiver);
        out.put_u64(8, self.offset);
        out.put_u64(16, self.number.map_or(0, |number| NUMBERED | u64::from(number)));
        bytes
    }

    /// Decodes a label.
    ///
    /// # Errors
    /// If the bytes are no label.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let bytes = SharedBytes::from(bytes);
        let last = bytes.u64_at(16);
        let number = match last & !u64::from(u32::MAX) {
            0 if last == 0 => None,
            NUMBERED => Some(last as u32),
            _ => return Err(Malformed { offset: 16, what: "a part with an impossible number" }),
        };
        Ok(Self { receiver: bytes.u64_at(0), offset: bytes.u64_at(8), number })
    }
}

/// Identifies a pushed message, whose data follows on a bulk track: its envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushLabel {
    /// The number of the flow.
    pub flow: u32,
    /// The tag.
    pub tag: i32,
    /// The message's number in its flow.
    pub sequence: u32,
}

/// The last word of the label of a pushed message; no label of a part has it.
const PUSHED: u64 = 1 << 33;

impl PushLabel {
    /// Encodes the label.
    pub fn emit(&self) -> [u8; PartLabel::BYTES] {
        let mut bytes = [0; PartLabel::BYTES];
        let out = SharedBytesMut::from(&mut bytes);
        out.put_u64(0, u64::from(self.tag.cast_unsigned()) << 32 | u64::from(self.flow));
        out.put_u64(8, u64::from(self.sequence));
        out.put_u64(16, PUSHED);
        bytes
    }

    /// Decodes a label. `None`: it is not that of a pushed message.
    pub fn parse(bytes: &[u8; PartLabel::BYTES]) -> Option<Self> {
        let bytes = SharedBytes::from(bytes);
        let (first, sequence) = (bytes.u64_at(0), bytes.u64_at(8));
        let is_pushed = bytes.u64_at(16) == PUSHED && sequence <= u64::from(u32::MAX);
        let tag = ((first >> 32) as u32).cast_signed();
        is_pushed.then_some(Self { flow: first as u32, tag, sequence: sequence as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_survive_their_bytes() {
        for number in [None, Some(0), Some(u32::MAX)] {
            let label = PartLabel { receiver: 7, offset: 1 << 40, number };
            assert_eq!(PartLabel::parse(&label.emit()), Ok(label));
        }
        assert!(PartLabel::parse(&[0xff; 24]).is_err());
        let mut odd = [0; 24];
        odd[16] = 1;
        assert!(PartLabel::parse(&odd).is_err());
    }

    #[test]
    fn labels_of_pushed_messages_are_no_labels_of_parts() {
        for tag in [0, i32::MAX, i32::MIN] {
            let label = PushLabel { flow: u32::MAX, tag, sequence: u32::MAX };
            assert_eq!(PushLabel::parse(&label.emit()), Some(label));
            assert!(PartLabel::parse(&label.emit()).is_err());
        }
        let part = PartLabel { receiver: u64::MAX, offset: u64::MAX, number: Some(u32::MAX) };
        assert_eq!(PushLabel::parse(&part.emit()), None);
        let mut odd = PushLabel { flow: 1, tag: 2, sequence: 3 }.emit();
        odd[12] = 1;
        assert_eq!(PushLabel::parse(&odd), None);
    }
}
