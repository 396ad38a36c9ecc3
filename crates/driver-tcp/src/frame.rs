//! The frames that a connection carries.
//!
//! A frame begins with its length (4 bytes, little-endian, without this head), its kind (1 byte),
//! its padding (1 byte), and 2 zero bytes. A packet follows directly, and has no padding. A part
//! begins with its label of 24 bytes and as many zero bytes as the padding says; the length counts
//! neither.

use base::limits::CACHE_LINE;
use driver::Label;

/// The number of bytes with which each frame begins.
pub(crate) const HEAD_BYTES: usize = 8;

/// The number of bytes before the padding of a part.
pub(crate) const PART_HEAD_BYTES: usize = HEAD_BYTES + size_of::<Label>();

/// The longest packet, in bytes.
pub(crate) const PACKET_BYTES_MAX: usize = 64 << 10;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Packet,
    /// Has so many bytes of padding before its data, less than a cache line.
    Part {
        padding: u8,
    },
    /// The sender is leaving, and will send no more.
    Goodbye,
}

pub(crate) fn head(kind: FrameKind, length: usize) -> [u8; HEAD_BYTES] {
    let length = u32::try_from(length).expect("frames are shorter than 4 GiB");
    let mut out = [0; HEAD_BYTES];
    out[..4].copy_from_slice(&length.to_le_bytes());
    out[4] = match kind {
        FrameKind::Packet => 1,
        FrameKind::Part { .. } => 2,
        FrameKind::Goodbye => 3,
    };
    if let FrameKind::Part { padding } = kind {
        out[5] = padding;
    }
    out
}

/// Returns what is sent before the data of a part that lies at this address. The padding gives the
/// data the place in a cache line that it has in memory: processors copy it much slower if its
/// destination lies a few bytes further in a page than its source.
pub(crate) fn part_head(label: &Label, length: usize, address: usize) -> Vec<u8> {
    let padding = address.wrapping_sub(PART_HEAD_BYTES) % CACHE_LINE;
    let mut out = head(FrameKind::Part { padding: padding as u8 }, length).to_vec();
    out.extend_from_slice(label);
    out.resize(PART_HEAD_BYTES + padding, 0);
    out
}

/// Returns kind and length of the frame that begins with these bytes; `None`: they are no head.
pub(crate) fn parse_head(bytes: &[u8; HEAD_BYTES]) -> Option<(FrameKind, usize)> {
    let [a, b, c, d, kind, padding, 0, 0] = *bytes else { return None };
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let kind = match (kind, padding) {
        (1, 0) if length <= PACKET_BYTES_MAX => FrameKind::Packet,
        (2, _) if length > 0 && usize::from(padding) < CACHE_LINE => FrameKind::Part { padding },
        (3, 0) if length == 0 => FrameKind::Goodbye,
        _ => return None,
    };
    Some((kind, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_and_nonsense_is_refused() {
        let part = |padding| FrameKind::Part { padding };
        for (kind, length) in
            [(FrameKind::Packet, 1), (part(0), 1 << 30), (part(63), 1), (FrameKind::Goodbye, 0)]
        {
            assert_eq!(parse_head(&head(kind, length)), Some((kind, length)));
        }
        assert_eq!(parse_head(&head(part(64), 1)), None);
        assert_eq!(parse_head(&head(FrameKind::Packet, PACKET_BYTES_MAX + 1)), None);
        assert_eq!(parse_head(&head(part(0), 0)), None);
        assert_eq!(parse_head(&[1, 0, 0, 0, 1, 1, 0, 0]), None, "a packet with padding");
        assert_eq!(parse_head(b"GET / HT"), None);
    }

    #[test]
    fn data_of_a_part_has_the_place_in_a_cache_line_that_it_has_in_memory() {
        for address in [0, 8, 16, 31, 32, 33, 4095, 1 << 40, usize::MAX] {
            let head = part_head(&[7; 24], 9, address);
            let padding = head.len() - PART_HEAD_BYTES;
            assert_eq!(head.len() % CACHE_LINE, address % CACHE_LINE);
            let (kind, length) = parse_head(head.first_chunk().unwrap()).unwrap();
            assert_eq!((kind, length), (FrameKind::Part { padding: padding as u8 }, 9));
            assert_eq!(head[HEAD_BYTES..], [&[7; 24][..], &vec![0; padding]].concat());
        }
    }
}
