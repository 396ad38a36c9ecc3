//! Sends frames that have become too long for the path to the peer in several fragments, which are
//! put together before they are processed. New frames are made short enough.

use std::collections::VecDeque;

use crate::frame::{COVERED_BYTES, FrameHeader, FrameKind, PACKET_BYTES_MAX};
use crate::seal::Seal;
use crate::transmitter::Transmitter;

/// The maximal number of frames that are being put together. A frame with missing fragments is
/// repeated, in equal fragments.
const GROUPS_MAX: usize = 64;

/// Multiplying a count by this spreads it, so that which fragment goes first does not depend on how
/// many other frames are sent between two transmissions of a frame.
const SPREAD: u32 = 0x9e37_79b1;

/// The maximal length of a frame, with its head.
const WHOLE_BYTES_MAX: usize = COVERED_BYTES + PACKET_BYTES_MAX;

/// Frames of which fragments have arrived.
#[derive(Debug, Default)]
pub(crate) struct FragmentGroups {
    groups: VecDeque<FragmentGroup>,
}

#[derive(Debug)]
struct FragmentGroup {
    name: GroupName,
    bytes: Vec<u8>,
    /// The offsets of the fragments that have arrived, and the total of their bytes.
    offsets: Vec<u32>,
    arrived: usize,
}

/// Identifies a frame: its place in the sequence, or its part; then its piece, if it is one, and
/// the length of its fragments. The data of repetitions is equal.
type GroupName = (u32, u64);

/// What was sent of several frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentFrames {
    pub frames: usize,
    /// How many frame numbers that used.
    pub numbers: u64,
}

/// Sends frames, in fragments if their data is longer than `data_bytes`. `count` counts the frames
/// sent in fragments.
pub(crate) fn send_frames(
    frames: &[(FrameHeader, &[u8])],
    (data_bytes, count): (usize, &mut u32),
    seal: &Seal,
    to: &mut impl Transmitter,
) -> SentFrames {
    if frames.iter().all(|(_, data)| data.len() <= data_bytes) {
        let sent = to.frames(seal, frames);
        return SentFrames { frames: sent, numbers: sent as u64 };
    }
    let first = frames.first().map_or(0, |(header, _)| header.number);
    let mut sent = SentFrames::default();
    for (header, data) in frames {
        let header = FrameHeader { number: first + sent.numbers, ..*header };
        let (went, numbers) = match data.len() <= data_bytes {
            true => {
                let taken = to.frames(seal, &[(header, data)]);
                (taken == 1, taken as u64)
            }
            false => send_fragments(header, data, (data_bytes, count), seal, to),
        };
        sent.numbers += numbers;
        if !went {
            break;
        }
        sent.frames += 1;
    }
    sent
}

/// Sends a frame in fragments. Returns whether all fragments were sent, and how many.
fn send_fragments(
    header: FrameHeader,
    data: &[u8],
    (data_bytes, count): (usize, &mut u32),
    seal: &Seal,
    to: &mut impl Transmitter,
) -> (bool, u64) {
    let mut head = [0; COVERED_BYTES];
    header.emit(&mut head);
    let whole = [&head[..], data].concat();
    *count = count.wrapping_add(1);
    let fragments: Vec<&[u8]> = whole.chunks(data_bytes).collect();
    // If there is room for some fragments only, each of them gets its turn to be among the first.
    let first = (count.wrapping_mul(SPREAD) >> 16) as usize % fragments.len();
    let places = (0..fragments.len()).map(|behind| (first + behind) % fragments.len());
    let fragment = |(behind, at): (u64, usize)| {
        let header = FrameHeader {
            kind: FrameKind::Fragment,
            is_last: true,
            index: (at * data_bytes) as u32,
            request: whole.len() as u32,
            mask: mask(&header, data_bytes),
            number: header.number + behind,
            ..header
        };
        (header, fragments[at])
    };
    let fragments: Vec<(FrameHeader, &[u8])> = (0..).zip(places).map(fragment).collect();
    let sent = to.frames(seal, &fragments);
    (sent == fragments.len(), sent as u64)
}

/// Returns what identifies the fragments of a frame, besides its place or part.
fn mask(header: &FrameHeader, data_bytes: usize) -> u64 {
    let piece = match header.kind {
        FrameKind::Piece => 1 << 63 | u64::from(header.index) << 24,
        _ => 0,
    };
    piece | data_bytes as u64
}

impl FragmentGroups {
    /// Adds a fragment. Returns head and data of the frame that is complete with it, if any.
    pub(crate) fn take(&mut self, header: &FrameHeader, data: &[u8]) -> Option<Vec<u8>> {
        let (name, at) = ((header.first, header.mask), header.index as usize);
        let length = header.request as usize;
        if length > WHOLE_BYTES_MAX || at + data.len() > length || data.is_empty() {
            return None;
        }
        let known = self.groups.iter().position(|group| group.name == name);
        let place = known.unwrap_or_else(|| {
            if self.groups.len() == GROUPS_MAX {
                self.groups.pop_front();
            }
            let bytes = vec![0; length];
            self.groups.push_back(FragmentGroup { name, bytes, offsets: Vec::new(), arrived: 0 });
            self.groups.len() - 1
        });
        let group = self.groups.get_mut(place)?;
        if group.bytes.len() != length || group.offsets.contains(&header.index) {
            return None;
        }
        group.offsets.push(header.index);
        group.bytes.get_mut(at..at + data.len())?.copy_from_slice(data);
        group.arrived += data.len();
        match group.arrived >= length {
            true => self.groups.remove(place).map(|group| group.bytes),
            false => None,
        }
    }
}
