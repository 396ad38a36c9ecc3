//! The frames that a connection carries.
//!
//! A frame begins with its length (4 bytes, little-endian, without this head), its kind (1 byte),
//! and 3 zero bytes. A packet follows directly. A part begins with its label of 24 bytes, which the
//! length does not count.

use driver::Label;

/// The number of bytes with which each frame begins.
pub(crate) const HEAD_BYTES: usize = 8;

/// The number of bytes before the data of a part.
pub(crate) const PART_HEAD_BYTES: usize = HEAD_BYTES + size_of::<Label>();

/// The longest packet, in bytes.
pub(crate) const PACKET_BYTES_MAX: usize = 64 << 10;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Packet,
    Part,
    /// The sender is leaving, and will send no more.
    Goodbye,
}

pub(crate) fn head(kind: FrameKind, length: usize) -> [u8; HEAD_BYTES] {
    let length = u32::try_from(length).expect("frames are shorter than 4 GiB");
    let mut out = [0; HEAD_BYTES];
    out[..4].copy_from_slice(&length.to_le_bytes());
    out[4] = match kind {
        FrameKind::Packet => 1,
        FrameKind::Part => 2,
        FrameKind::Goodbye => 3,
    };
    out
}

pub(crate) fn part_head(label: &Label, length: usize) -> [u8; PART_HEAD_BYTES] {
    let mut out = [0; PART_HEAD_BYTES];
    out[..HEAD_BYTES].copy_from_slice(&head(FrameKind::Part, length));
    out[HEAD_BYTES..].copy_from_slice(label);
    out
}

/// Returns kind and length of the frame that begins with these bytes; `None`: they are no head.
pub(crate) fn parse_head(bytes: &[u8; HEAD_BYTES]) -> Option<(FrameKind, usize)> {
    let [a, b, c, d, kind, 0, 0, 0] = *bytes else { return None };
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let kind = match kind {
        1 if length <= PACKET_BYTES_MAX => FrameKind::Packet,
        2 if length > 0 => FrameKind::Part,
        3 if length == 0 => FrameKind::Goodbye,
        _ => return None,
    };
    Some((kind, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_and_nonsense_is_refused() {
        for (kind, length) in
            [(FrameKind::Packet, 1), (FrameKind::Part, 1 << 30), (FrameKind::Goodbye, 0)]
        {
            assert_eq!(parse_head(&head(kind, length)), Some((kind, length)));
        }
        assert_eq!(parse_head(&head(FrameKind::Packet, PACKET_BYTES_MAX + 1)), None);
        assert_eq!(parse_head(&head(FrameKind::Part, 0)), None);
        assert_eq!(parse_head(b"GET / HT"), None);
    }
}
