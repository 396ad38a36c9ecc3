//! Trees over the processes of a communicator.
//!
//! A tree consists of positions: position 0 is the root; the others follow in the order of ranks,
//! wrapping around to rank 0. A subtree is a range of positions that begins with its top.

use crate::algorithm::Algorithm;
use crate::member::Member;

/// How a tree branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Branching {
    /// The root is the parent of all: each message travels once, and no process waits for more than
    /// one other, but the root has as many messages as there are other processes.
    Star,
    /// Two levels: the root is the parent of the first position of each group of consecutive ones,
    /// and that one is the parent of the others. There are about as many groups as positions in a
    /// group, so that no process has more than twice the square root of the size as neighbours.
    Groups,
    /// A binomial tree: as many levels as the size has binary digits. The top of a subtree is
    /// followed by its children at distances 1, 2, 4, …
    Binomial,
}

/// The direction of data in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeDirection {
    TowardRoot,
    FromRoot,
}

/// One process's view of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    root: u32,
    size: u32,
    shape: Branching,
    /// The distance of the process from the root, in ranks.
    pub position: u32,
}

/// A range of positions whose first one is its top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subtree {
    pub top: u32,
    pub size: u32,
}

/// A part of a subtree whose ranks are consecutive, without wrapping around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankRun {
    /// The number of positions of the subtree that precede it.
    pub offset: usize,
    pub first_rank: usize,
    pub count: usize,
}

impl Algorithm {
    /// Returns the tree along which messages go, if the algorithm uses one.
    pub(crate) fn shape(self) -> Option<Branching> {
        match self {
            Self::Star => Some(Branching::Star),
            Self::Groups => Some(Branching::Groups),
            Self::Binomial => Some(Branching::Binomial),
            _ => None,
        }
    }
}

/// The largest number of processes for a star. Its root connects all others, and its ring has room
/// for the messages of about so many that come at one time.
const STAR_SIZE_MAX: u32 = 512;

impl Branching {
    /// Whether the tree is used for so many processes, if there is a choice.
    pub(crate) fn suits(self, size: u32) -> bool {
        self != Self::Star || size <= STAR_SIZE_MAX
    }
}

/// Returns how many consecutive positions are a group of [`Branching::Groups`].
pub(crate) fn group_size(size: u32) -> u32 {
    let root = size.isqrt();
    if root * root < size { root + 1 } else { root }
}

impl Tree {
    pub fn new(member: Member, root: u32, shape: Branching) -> Self {
        let position = member.above(member.size - root);
        Self { root, size: member.size, shape, position }
    }

    pub fn is_root(&self) -> bool {
        self.position == 0
    }

    /// Returns the rank of the process at `position`.
    pub fn rank(&self, position: u32) -> u32 {
        ((u64::from(position) + u64::from(self.root)) % u64::from(self.size)) as u32
    }

    /// Returns the rank of the parent; `None` at the root.
    pub fn parent(&self) -> Option<u32> {
        (!self.is_root()).then(|| self.rank(self.parent_position()))
    }

    pub fn is_below_root(&self) -> bool {
        !self.is_root() && self.parent_position() == 0
    }

    /// Returns the subtree of this process.
    pub fn own(&self) -> Subtree {
        let size = match self.shape {
            _ if self.is_root() => self.size,
            Branching::Star => 1,
            Branching::Groups => match self.position % group_size(self.size) {
                0 => group_size(self.size).min(self.size - self.position),
                _ => 1,
            },
            Branching::Binomial => lowest_bit(self.position).min(self.size - self.position),
        };
        Subtree { top: self.position, size }
    }

    /// Returns the subtrees of the children, in the order of their positions: the smallest comes
    /// first.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = Subtree> + use<> {
        let own = self.own();
        let (shape, all) = (self.shape, self.size);
        let group = group_size(all);
        // The members of the own group.
        let near = group.min(own.size) - 1;
        let count = match shape {
            Branching::Star => own.size - 1,
            Branching::Groups => near + own.size.div_ceil(group) - 1,
            Branching::Binomial => u32::BITS - (own.size - 1).leading_zeros(),
        };
        (0..count).map(move |number| match shape {
            Branching::Star => Subtree { top: own.top + number + 1, size: 1 },
            Branching::Groups if number < near => Subtree { top: own.top + number + 1, size: 1 },
            Branching::Groups => {
                let top = group * (number - near + 1);
                Subtree { top, size: group.min(all - top) }
            }
            Branching::Binomial => {
                let distance = 1 << number;
                Subtree { top: own.top + distance, size: distance.min(own.size - distance) }
            }
        })
    }

    /// Returns the one or two runs of ranks that make up `subtree`.
    pub fn runs(&self, subtree: Subtree) -> impl Iterator<Item = RankRun> + use<> {
        let first_rank = self.rank(subtree.top);
        let before_wrap = subtree.size.min(self.size - first_rank) as usize;
        let head = RankRun { offset: 0, first_rank: first_rank as usize, count: before_wrap };
        let rest = subtree.size as usize - before_wrap;
        let tail = RankRun { offset: before_wrap, first_rank: 0, count: rest };
        std::iter::once(head).chain((rest > 0).then_some(tail))
    }

    fn parent_position(&self) -> u32 {
        match self.shape {
            Branching::Star => 0,
            Branching::Groups => match self.position % group_size(self.size) {
                0 => 0,
                place => self.position - place,
            },
            Branching::Binomial => self.position - lowest_bit(self.position),
        }
    }
}

fn lowest_bit(number: u32) -> u32 {
    number & number.wrapping_neg()
}
