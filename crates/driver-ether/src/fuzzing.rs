//! What the fuzz targets of frames do with any bytes.

use base::GateId;
use driver::conformance::BoundedSink;
use memory::Buffer;
use memory::transfer::Part;

use crate::card::EtherCard;
use crate::frame::{COVERED_BYTES, FrameHeader, VERSION};
use crate::link::{Link, LinkRoom, LinkTerms, PieceBytes, Transmitter};
use crate::seal::{Seal, SealEnd};
use crate::timing::MILLISECOND;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Frames leave, and nobody looks at them.
struct Nowhere;

impl Transmitter for Nowhere {
    fn frames(&mut self, _seal: &Seal, frames: &[(FrameHeader, &[u8])]) -> usize {
        frames.len()
    }

    fn pieces(&mut self, _seal: &Seal, heads: &[FrameHeader], run: PieceBytes<'_>) -> usize {
        assert!(run.offset + run.length <= run.buffer.len());
        heads.len()
    }
}

/// A process of the job sends these frames over a link on which packets and parts are posted:
/// heads, in which the number of the bytes that follow stands in place of the version.
pub fn frames(mut bytes: &[u8]) {
    let end = |rank| SealEnd { rank, nonce: 0, rail: 0 };
    let terms = LinkTerms {
        own: 0,
        gate: GateId(1),
        rail: 0,
        endpoint: 0,
        slot: 0,
        introduction: [0; 8],
        mac: [0; 6],
        turn: 0,
        frame_bytes: [1500, 9000],
        room: LinkRoom { urgent: 64, bulk: 64 },
        peer_room: 64,
    };
    let mut link = Link::new(terms, Seal::new(&[7; 32], end(0), end(1), 0));
    link.greet(0);
    let mut now = 0;
    while let Some((head, rest)) = bytes.split_first_chunk::<COVERED_BYTES>() {
        let mut head = *head;
        let (data, rest) = rest.split_at(usize::from(head[7]).min(rest.len()));
        bytes = rest;
        head[7] = VERSION;
        now += MILLISECOND;
        if let Some(header) = FrameHeader::parse(&head) {
            let mut again = [0; COVERED_BYTES];
            header.emit(&mut again);
            assert_eq!(again, head);
            if link.receive(&header, data, now, &mut BoundedSink).is_err() {
                return;
            }
        }
        if link.has_room() {
            link.post_packet(2000, &mut |out| out.copy_from(&[1; 2000]));
            let buffer = Buffer::zeroed(5000);
            link.post_part(Part { label: [1; 24], buffer, offset: 0, length: 5000, token: 1 }, now);
        }
        link.transmit(now, &mut Nowhere);
    }
}

/// The card by which a process is found.
pub fn card(bytes: &[u8]) {
    let card = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<EtherCard>().ok());
    if let Some(card) = card {
        assert_eq!(card.to_string().parse(), Ok(card));
    }
}

#[cfg(test)]
#[test]
fn the_corpora_are_read() {
    replay::replay("ether_frames", frames);
    replay::replay("ether_card", card);
}
