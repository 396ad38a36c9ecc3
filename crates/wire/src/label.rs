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
        out.put_u64(16, number_word(self.number));
        bytes
    }

    /// Decodes a label.
    ///
    /// # Errors
    /// If the bytes are no label.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, Malformed> {
        let bytes = SharedBytes::from(bytes);
        let what = "a part with an impossible number";
        let number = parse_number(bytes.u64_at(16)).ok_or(Malformed { offset: 16, what })?;
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
    /// The number of the part, if packets and parts are numbered.
    pub number: Option<u32>,
}

/// Flag: the label is that of a pushed message.
const PUSHED: u64 = 1 << 33;

/// Returns the last word of a label without flags except [`NUMBERED`].
fn number_word(number: Option<u32>) -> u64 {
    number.map_or(0, |number| NUMBERED | u64::from(number))
}

/// Returns the number in a word that [`number_word`] may have made; otherwise `None`.
fn parse_number(word: u64) -> Option<Option<u32>> {
    match word & !u64::from(u32::MAX) {
        0 if word == 0 => Some(None),
        NUMBERED => Some(Some(word as u32)),
        _ => None,
    }
}

impl PushLabel {
    /// Encodes the label.
    pub fn emit(&self) -> [u8; PartLabel::BYTES] {
        let mut bytes = [0; PartLabel::BYTES];
        let out = SharedBytesMut::from(&mut bytes);
        out.put_u64(0, u64::from(self.tag.cast_unsigned()) << 32 | u64::from(self.flow));
        out.put_u64(8, u64::from(self.sequence));
        out.put_u64(16, PUSHED | number_word(self.number));
        bytes
    }

    /// Decodes a label. `None`: it is not that of a pushed message.
    pub fn parse(bytes: &[u8; PartLabel::BYTES]) -> Option<Self> {
        let bytes = SharedBytes::from(bytes);
        let (first, sequence, last) = (bytes.u64_at(0), bytes.u64_at(8), bytes.u64_at(16));
        let number = parse_number(last ^ PUSHED)?;
        let tag = ((first >> 32) as u32).cast_signed();
        let sequence = u32::try_from(sequence).ok()?;
        Some(Self { flow: first as u32, tag, sequence, number })
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
            for number in [None, Some(0), Some(u32::MAX)] {
                let label = PushLabel { flow: u32::MAX, tag, sequence: u32::MAX, number };
                assert_eq!(PushLabel::parse(&label.emit()), Some(label));
                assert!(PartLabel::parse(&label.emit()).is_err());
            }
        }
        let part = PartLabel { receiver: u64::MAX, offset: u64::MAX, number: Some(u32::MAX) };
        assert_eq!(PushLabel::parse(&part.emit()), None);
        let unnumbered = PushLabel { flow: 1, tag: 2, sequence: 3, number: None }.emit();
        for odd in [12, 16, 23] {
            let mut bytes = unnumbered;
            bytes[odd] = 1;
            assert_eq!(PushLabel::parse(&bytes), None);
        }
    }
}
