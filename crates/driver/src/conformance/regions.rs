//! The conformance suite of drivers with regions.

use std::sync::Arc;

use base::{GateId, RegionToken};
use memory::{Buffer, Layout, Segment};

use super::pattern;
use crate::{RegionAccess, RegionError, Regions};

/// A layout for tests: blocks separated by gaps of their length.
#[derive(Debug)]
pub struct SpacedBlocks {
    /// The length of a block in bytes.
    pub bytes: usize,
    /// The number of blocks in one element.
    pub blocks: usize,
}

impl Layout for SpacedBlocks {
    fn size(&self) -> usize {
        self.bytes * self.blocks
    }

    fn bounds(&self, count: usize) -> (isize, isize) {
        (0, (2 * self.size() * count) as isize)
    }

    fn segment_count(&self, count: usize) -> usize {
        self.blocks * count
    }

    fn segments(
        &self,
        _count: usize,
        offset: usize,
        length: usize,
        each: &mut dyn FnMut(Segment) -> bool,
    ) {
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let (block, inside) = (at / self.bytes, at % self.bytes);
            let displacement = (block * 2 * self.bytes + inside) as isize;
            let length = (self.bytes - inside).min(end - at);
            if !each(Segment { displacement, length }) {
                return;
            }
            at += length;
        }
    }
}

/// Returns memory of `length` bytes: contiguous if `block` is 0, otherwise in blocks of `block`
/// bytes.
///
/// # Panics
/// If `length` is no multiple of the block length.
pub fn memory(length: usize, block: usize) -> Buffer {
    if block == 0 {
        return Buffer::zeroed(length);
    }
    assert_eq!(length % block, 0, "whole blocks");
    let layout = Arc::new(SpacedBlocks { bytes: block, blocks: length / block });
    Buffer::zeroed(2 * length).laid_out_part(0, layout, 1)
}

fn contents(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes);
    bytes
}

/// Lets `user` read and write regions of `owner`, its peer `gate`, with all layouts, and attempt
/// accesses that must be refused.
///
/// # Panics
/// If the driver does not conform.
pub fn regions(owner: &mut dyn Regions, user: &mut dyn Regions, gate: GateId) {
    for there in [0, 8, 600, 96_000] {
        for here in [0, 24, 2000] {
            parts_of_a_region(owner, user, gate, memory(192_000, there), memory(96_000, here));
        }
    }
    refused_accesses(owner, user, gate);
    many_regions(owner, user, gate);
}

fn parts_of_a_region(
    owner: &mut dyn Regions,
    user: &mut dyn Regions,
    gate: GateId,
    there: Buffer,
    here: Buffer,
) {
    let mut expected = pattern(3, there.len());
    there.write(0, &expected);
    let token =
        owner.declare(&there, RegionAccess::ReadAndWrite).expect("there is room for a region");
    for (offset, length, at) in [
        (0, 96_000, 0),
        (96_000, 96_000, 0),
        (5, 1, 17),
        (599, 40_001, 7),
        (191_999, 1, 95_999),
        (0, 0, 0),
    ] {
        user.read_region(gate, token, offset, length, &here, at).expect("the region is there");
        let wanted = &expected[offset..offset + length];
        assert!(
            contents(&here)[at..at + length] == *wanted,
            "{length} bytes from {offset} are read"
        );
        let data = pattern(offset + 1, here.len());
        here.write(0, &data);
        user.write_region(gate, token, offset, length, &here, at).expect("it may be written");
        expected[offset..offset + length].copy_from_slice(&data[at..at + length]);
        assert!(contents(&there) == expected, "{length} bytes are written to {offset}, no others");
    }
    assert_eq!(owner.revoke(token), Ok(()));
}

fn refused_accesses(owner: &mut dyn Regions, user: &mut dyn Regions, gate: GateId) {
    let (there, here) = (memory(1000, 0), memory(4000, 0));
    let token = owner.declare(&there, RegionAccess::Read).expect("there is room for a region");
    let mut read = |token, offset, length| user.read_region(gate, token, offset, length, &here, 0);
    assert_eq!(read(token, 0, 1000), Ok(()));
    let outside = |end| Err(RegionError::OutOfRange { end, length: 1000 });
    assert_eq!(read(token, 0, 1001), outside(1001));
    assert_eq!(read(token, 1001, 0), outside(1001));
    assert_eq!(read(token, usize::MAX, 2), outside(usize::MAX));
    for bit in 0..64 {
        let place = RegionToken { place: token.place ^ 1 << bit, ..token };
        let secret = RegionToken { secret: token.secret ^ 1 << bit, ..token };
        assert_eq!(read(place, 0, 1), Err(RegionError::Unknown), "{place:?} was never given out");
        assert_eq!(read(secret, 0, 1), Err(RegionError::Unknown), "{secret:?} was never given out");
        assert_eq!(owner.revoke(secret), Err(RegionError::Unknown));
    }
    assert_eq!(read(RegionToken::NONE, 0, 0), Err(RegionError::Unknown));
    assert_eq!(user.write_region(gate, token, 0, 1, &here, 0), Err(RegionError::ReadOnly));
    assert_eq!(contents(&there)[0], 0, "a read-only region is not written");
    assert_eq!(user.revoke(token), Err(RegionError::Unknown), "only its owner can revoke a region");
    assert_eq!(owner.revoke(token), Ok(()));
    assert_eq!(owner.revoke(token), Err(RegionError::Unknown));
    // The entry is reused, and the old token does not give access to the new region.
    let other =
        owner.declare(&there, RegionAccess::ReadAndWrite).expect("there is room for a region");
    let stale = user.read_region(gate, token, 0, 1, &here, 0);
    assert_eq!(stale, Err(RegionError::Unknown));
    assert_eq!(user.write_region(gate, token, 0, 1, &here, 0), Err(RegionError::Unknown));
    assert_eq!(owner.revoke(other), Ok(()));
}

/// Declares as many regions as there is room for, twice: revoking must make room.
fn many_regions(owner: &mut dyn Regions, user: &mut dyn Regions, gate: GateId) {
    let here = memory(8, 0);
    for round in 0..2 {
        let mut regions = Vec::new();
        while regions.len() < 100_000 {
            let there = memory(8, 0);
            let Some(token) = owner.declare(&there, RegionAccess::Read) else { break };
            there.write(0, &(regions.len() as u64).to_le_bytes());
            regions.push(token);
        }
        assert!(regions.len() >= 500, "there is room for many regions in round {round}");
        for (number, token) in regions.iter().enumerate() {
            user.read_region(gate, *token, 0, 8, &here, 0).expect("the region is there");
            assert_eq!(contents(&here), (number as u64).to_le_bytes());
            assert_eq!(owner.revoke(*token), Ok(()));
        }
    }
}
