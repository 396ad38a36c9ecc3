//! Programs of many small and unequal tasks, with this crate's `fork_join` and with rayon's `join`.

use std::ops::Range;

/// A way to run two functions, perhaps in parallel, and to add their results.
pub trait Both: 'static {
    fn sum(one: impl FnOnce() -> u64 + Send, other: impl FnOnce() -> u64 + Send) -> u64;
}

pub struct Own;
pub struct Rayon;

impl Both for Own {
    #[inline]
    fn sum(one: impl FnOnce() -> u64 + Send, other: impl FnOnce() -> u64 + Send) -> u64 {
        let (one, other) = threads::fork_join(one, other);
        one + other
    }
}

impl Both for Rayon {
    #[inline]
    fn sum(one: impl FnOnce() -> u64 + Send, other: impl FnOnce() -> u64 + Send) -> u64 {
        let (one, other) = rayon::join(one, other);
        one + other
    }
}

pub fn fibonacci<B: Both>(number: u64) -> u64 {
    if number < 2 {
        return number;
    }
    B::sum(move || fibonacci::<B>(number - 1), move || fibonacci::<B>(number - 2))
}

/// The number of ways to place this many queens on a board so that none attacks another.
pub fn queens<B: Both>(size: u32) -> u64 {
    Board { all: (1 << size) - 1, columns: 0, left: 0, right: 0 }.next_row::<B>()
}

/// The columns and diagonals that are attacked in the next row.
#[derive(Clone, Copy)]
struct Board {
    all: u32,
    columns: u32,
    left: u32,
    right: u32,
}

impl Board {
    fn next_row<B: Both>(self) -> u64 {
        if self.columns == self.all {
            return 1;
        }
        self.each_of::<B>(self.all & !(self.columns | self.left | self.right))
    }

    /// The sum over the queen's possible columns in this row.
    fn each_of<B: Both>(self, free: u32) -> u64 {
        if free == 0 {
            return 0;
        }
        let first = free & free.wrapping_neg();
        let with_first = Self {
            all: self.all,
            columns: self.columns | first,
            left: (self.left | first) << 1,
            right: (self.right | first) >> 1,
        };
        match free ^ first {
            0 => with_first.next_row::<B>(),
            rest => B::sum(move || with_first.next_row::<B>(), move || self.each_of::<B>(rest)),
        }
    }
}

/// Counts the nodes of an unbalanced tree whose shape is not known beforehand: below the root each
/// node has four children or none, at random.
pub fn tree<B: Both>() -> u64 {
    1 + nodes::<B>(1, 0..ROOT_CHILDREN)
}

fn nodes<B: Both>(above: u64, children: Range<u64>) -> u64 {
    let count = children.end - children.start;
    if count == 1 {
        let own = hash(above, children.start);
        return match (own as f64) < CHANCE * u64::MAX as f64 {
            true => 1 + nodes::<B>(own, 0..4),
            false => 1,
        };
    }
    let (first, last) = (children.start, children.end);
    let middle = first + count / 2;
    B::sum(move || nodes::<B>(above, first..middle), move || nodes::<B>(above, middle..last))
}

fn hash(above: u64, child: u64) -> u64 {
    let mut value = above.wrapping_add((child + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

const ROOT_CHILDREN: u64 = 2000;
const CHANCE: f64 = 0.225;
pub const TREE_NODES: u64 = 21_453;
