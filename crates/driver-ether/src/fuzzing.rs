//! The fuzz targets of frames.

use driver::conformance::{BoundedSink, check_card};
use memory::Buffer;
use memory::transfer::Part;

use crate::card::EtherCard;
use crate::frame::{COVERED_BYTES, FrameHeader, VERSION};
use crate::link::Link;
use crate::seal::Seal;
use crate::timing::MILLISECOND;
use crate::transmitter::{PieceBytes, Transmitter};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Drops all frames that are sent.
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

/// Receives these frames from a process of the job over a link on which packets and parts are
/// posted. The bytes are heads, in which the number of following bytes stands in place of the
/// version.
pub fn frames(mut bytes: &[u8]) {
    let mut link = Link::between(0, 1, 64);
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

/// Reads the card of a process.
pub fn card(bytes: &[u8]) {
    check_card::<EtherCard>(bytes);
}

#[cfg(test)]
#[test]
fn the_corpora_are_read() {
    replay::replay("ether_frames", frames);
    replay::replay("ether_card", card);
}
