//! Division of blocks among processes.

use crate::schedule::{Area, BlockRange};

/// Returns the share of process `number` when `blocks` blocks of `area` are divided among
/// `processes`. Shares are consecutive, and differ by at most one block.
pub(crate) fn share(area: Area, blocks: usize, processes: u32, number: u32) -> BlockRange {
    shares(area, blocks, processes, number, 1)
}

/// Returns the shares of `count` processes, from process `number` on.
pub(crate) fn shares(
    area: Area,
    blocks: usize,
    processes: u32,
    number: u32,
    count: u32,
) -> BlockRange {
    let begin = boundary(blocks, processes, number);
    let end = boundary(blocks, processes, number + count);
    area.blocks(begin, end - begin)
}

/// Returns where the share of a process begins. Computed in 128 bits: blocks can be bytes, and
/// there may be as many as fit in an address space.
fn boundary(blocks: usize, processes: u32, number: u32) -> usize {
    (blocks as u128 * u128::from(number) / u128::from(processes)) as usize
}
