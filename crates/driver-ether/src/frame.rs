//! The frame, behind the Ethernet header.
//!
//! All frames have one format of head; docs/internals/ethernet.md describes it. Numbers are
//! little-endian.

use sys::packets::{CLASS_AT, SLOT_AT};

/// The length of the head in bytes, the tag included.
pub(crate) const HEAD_BYTES: usize = 72;

/// The longest packet, in bytes.
pub(crate) const PACKET_BYTES_MAX: usize = 64 << 10;

/// How many bytes of the head the tag covers; the tag follows them.
pub(crate) const COVERED_BYTES: usize = 64;

/// The EtherType, one that IEEE 802 reserves for local experiments.
pub(crate) const ETHER_TYPE: u16 = 0x88b5;

/// The version of frames, in which both sides must agree.
pub(crate) const VERSION: u8 = 1;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Requests an answer. The frame has the length of the frames that its sender would like to
    /// send.
    Hello,
    /// Answers a hello, and contains its length.
    Answer,
    /// Carries only the acknowledgement in its head.
    Acknowledgement,
    /// Bytes of a packet; sequenced.
    Packet,
    /// A part can be pulled; sequenced.
    Announce,
    /// A part is complete; sequenced.
    Done,
    /// The sender is leaving, and will send no more; sequenced.
    Goodbye,
    /// Requests pieces of a part.
    Request,
    /// A piece of a part.
    Piece,
    /// A piece of a frame that is too long for the path.
    Fragment,
}

impl FrameKind {
    /// Whether frames of this kind are sequenced.
    pub(crate) fn is_sequenced(self) -> bool {
        matches!(self, Self::Packet | Self::Announce | Self::Done | Self::Goodbye)
    }
}

const KINDS: [FrameKind; 10] = [
    FrameKind::Hello,
    FrameKind::Answer,
    FrameKind::Acknowledgement,
    FrameKind::Packet,
    FrameKind::Announce,
    FrameKind::Done,
    FrameKind::Goodbye,
    FrameKind::Request,
    FrameKind::Piece,
    FrameKind::Fragment,
];

/// The head of a frame. The meaning of the fields `first` to `count` depends on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// The receiving endpoint on its machine.
    pub endpoint: u32,
    /// The index of the receiving process among those whose sockets were opened together.
    pub slot: u8,
    /// Whether the frame wakes no process (bulk).
    pub is_bulk: bool,
    pub kind: FrameKind,
    /// Whether it is the last frame of its packet.
    pub is_last: bool,
    /// Whether the sender waits for an acknowledgement.
    pub asks: bool,
    /// A number that is unique among the frames between two processes over a pair of interfaces.
    pub number: u64,
    /// The rank of the sender.
    pub source: u32,
    /// All sequenced frames before this one have arrived ...
    pub acknowledged: u32,
    /// ... and also the later ones whose bit is set.
    pub early: u64,
    /// How many sequenced frames may be in flight to the sender.
    pub room: u32,
    /// When it was sent, in microseconds.
    pub time: u32,
    /// When the frame was sent that this one answers; 0: none.
    pub echo: u32,
    /// The place in the sequence; or the part; or the frame of a fragment.
    pub first: u32,
    /// The first piece of a request, or the piece; the length of the hello that is answered; the
    /// offset of a fragment.
    pub index: u32,
    /// The request that is made, or answered; the length of the frame of a fragment.
    pub request: u32,
    /// Which pieces from the first on are requested.
    pub mask: u64,
}

impl FrameHeader {
    /// Writes everything but the tag.
    pub(crate) fn emit(&self, out: &mut [u8; COVERED_BYTES]) {
        let kind = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or_default() as u8;
        out[..4].copy_from_slice(&self.endpoint.to_le_bytes());
        out[SLOT_AT] = self.slot;
        out[CLASS_AT] = kind | u8::from(self.is_bulk) << 7;
        out[6] = u8::from(self.is_last) | u8::from(self.asks) << 1;
        out[7] = VERSION;
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..20].copy_from_slice(&self.source.to_le_bytes());
        out[20..24].copy_from_slice(&self.acknowledged.to_le_bytes());
        out[24..32].copy_from_slice(&self.early.to_le_bytes());
        out[32..36].copy_from_slice(&self.room.to_le_bytes());
        out[36..40].copy_from_slice(&self.time.to_le_bytes());
        out[40..44].copy_from_slice(&self.echo.to_le_bytes());
        out[44..48].copy_from_slice(&self.first.to_le_bytes());
        out[48..52].copy_from_slice(&self.index.to_le_bytes());
        out[52..56].copy_from_slice(&self.request.to_le_bytes());
        out[56..64].copy_from_slice(&self.mask.to_le_bytes());
    }

    /// Reads a head; None: it is no head of this version.
    pub(crate) fn parse(bytes: &[u8; COVERED_BYTES]) -> Option<Self> {
        let four = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
        if bytes[7] != VERSION || bytes[6] > 3 {
            return None;
        }
        Some(Self {
            endpoint: four(0),
            slot: bytes[SLOT_AT],
            is_bulk: bytes[CLASS_AT] & 0x80 != 0,
            kind: *KINDS.get(usize::from(bytes[CLASS_AT] & 0x7f))?,
            is_last: bytes[6] & 1 != 0,
            asks: bytes[6] & 2 != 0,
            number: eight(8),
            source: four(16),
            acknowledged: four(20),
            early: eight(24),
            room: four(32),
            time: four(36),
            echo: four(40),
            first: four(44),
            index: four(48),
            request: four(52),
            mask: eight(56),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emitted_is_parsed_and_nothing_else_panics() {
        for _ in 0..20_000 {
            let mut bytes = [0; COVERED_BYTES];
            bytes.fill_with(|| fastrand::u8(..));
            (bytes[6], bytes[7]) = (fastrand::u8(..5), fastrand::u8(..3));
            let Some(header) = FrameHeader::parse(&bytes) else { continue };
            let mut again = [0; COVERED_BYTES];
            header.emit(&mut again);
            assert_eq!(bytes, again);
        }
    }
}
