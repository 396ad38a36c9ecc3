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
}
