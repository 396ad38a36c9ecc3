//! The choice between the algorithms of an operation: the cheapest one, or the one that a person
//! wants.

use base::SlotSize;

use crate::board::Rooms;
use crate::estimate::Cost;
use crate::fold::Operands;
use crate::member::Member;
use crate::{
    allgather, allreduce, alltoall, barrier, bcast, gather, reduce, reduce_scatter, scatter, shared,
};

/// The operations that have several algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Allgatherv`.
    Allgatherv,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.
    ReduceScatter,
}

const COUNT: usize = 10;

/// The name of all algorithms on the board.
pub const BOARD: &str = "board";

/// The name of all algorithms that copy once.
pub const DIRECT: &str = "direct";

/// The algorithms that a person wants to be taken where they can be, by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    wanted: [Option<u8>; COUNT],
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; COUNT] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Allgatherv,
        Self::Alltoall,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
    ];

    /// Its name, as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Allgather => "allgather",
            Self::Allgatherv => "allgatherv",
            Self::Alltoall => "alltoall",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce_scatter",
        }
    }

    /// The names of its algorithms: those that send messages, and those that use memory which all
    /// members share ([`BOARD`]) or expose to each other ([`DIRECT`]).
    pub fn algorithms(self) -> Vec<&'static str> {
        fn names<A>(table: &[(&'static str, A)]) -> Vec<&'static str> {
            table.iter().map(|(name, _)| *name).collect()
        }
        // A barrier has nothing to copy, and how long blocks of different sizes are is not known.
        let is_direct = !matches!(self, Self::Barrier | Self::Allgatherv);
        let messages = match self {
            Self::Barrier => names(barrier::ALGORITHMS),
            Self::Bcast => names(bcast::ALGORITHMS),
            Self::Gather | Self::Scatter => names(gather::ALGORITHMS),
            Self::Allgather | Self::Allgatherv => names(allgather::ALGORITHMS),
            Self::Alltoall => names(alltoall::ALGORITHMS),
            Self::Reduce => names(reduce::ALGORITHMS),
            Self::Allreduce => names(allreduce::ALGORITHMS),
            Self::ReduceScatter => names(reduce_scatter::ALGORITHMS),
        };
        messages.into_iter().chain([BOARD]).chain(is_direct.then_some(DIRECT)).collect()
    }

    /// The algorithms that this operation can be carried out by, with their predicted times; the
    /// one that is taken comes first, the others from the fastest to the slowest. `bytes` is the
    /// size of what one process contributes or gets, of an operation that commutes; `rooms` tells
    /// of the board, if there is one.
    pub fn candidates(
        self,
        member: Member,
        rooms: Option<Rooms>,
        bytes: usize,
    ) -> Vec<(&'static str, Cost)> {
        let shared = [
            rooms.and_then(|rooms| shared::on_board(self, member, rooms, bytes)),
            rooms
                .and_then(|rooms| shared::directly(self, member, rooms.of(SlotSize::Large), bytes)),
        ];
        // Elements of eight bytes; less is an element by itself.
        let operands = |bytes: usize| match bytes % 8 {
            0 => Operands { count: bytes / 8, element_bytes: 8, commutative: true },
            _ => Operands { count: 1, element_bytes: bytes, commutative: true },
        };
        let total = bytes.saturating_mul(member.size as usize);
        let wanted = member.situation.preferences.wanted(self);
        match self {
            Self::Barrier => {
                rank(barrier::ALGORITHMS, shared, wanted, |a| barrier::cost(a, member))
            }
            Self::Bcast => {
                rank(bcast::ALGORITHMS, shared, wanted, |a| bcast::cost(a, member, bytes))
            }
            Self::Gather => {
                rank(gather::ALGORITHMS, shared, wanted, |a| gather::cost(a, member, bytes))
            }
            Self::Scatter => {
                rank(gather::ALGORITHMS, shared, wanted, |a| scatter::cost(a, member, bytes))
            }
            Self::Allgather => {
                rank(allgather::ALGORITHMS, shared, wanted, |a| allgather::cost(a, member, bytes))
            }
            Self::Allgatherv => {
                rank(allgather::ALGORITHMS, shared, wanted, |a| allgather::cost_v(a, member, bytes))
            }
            Self::Alltoall => {
                rank(alltoall::ALGORITHMS, shared, wanted, |a| alltoall::cost(a, member, bytes))
            }
            Self::Reduce => rank(reduce::ALGORITHMS, shared, wanted, |a| {
                reduce::cost(a, member, operands(bytes))
            }),
            Self::Allreduce => rank(allreduce::ALGORITHMS, shared, wanted, |a| {
                allreduce::cost(a, member, operands(bytes))
            }),
            Self::ReduceScatter => rank(reduce_scatter::ALGORITHMS, shared, wanted, |a| {
                reduce_scatter::cost(a, member, operands(total))
            }),
        }
    }
}

impl Preferences {
    /// Wants an operation to be carried out by the algorithm at a place of
    /// [`Operation::algorithms`].
    pub fn want(&mut self, operation: Operation, algorithm: usize) {
        self.wanted[operation as usize] = u8::try_from(algorithm).ok();
    }

    /// For each operation one past the algorithm's place, or zero; as one process tells others.
    pub fn numbers(&self) -> [u64; COUNT] {
        self.wanted.map(|place| place.map_or(0, |place| u64::from(place) + 1))
    }

    /// What another process told; none if these are not so many numbers, or absurd ones.
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let mut wanted = [None; COUNT];
        for (place, number) in wanted.iter_mut().zip(numbers) {
            *place = number.checked_sub(1).map(u8::try_from).transpose().ok()?;
        }
        (numbers.len() == COUNT).then_some(Self { wanted })
    }

    pub(crate) fn wanted(&self, operation: Operation) -> Option<usize> {
        self.wanted[operation as usize].map(usize::from)
    }
}

/// The algorithm to take: that which the person wants, if it is applicable, or else the cheapest;
/// of those that cost the same the first.
///
/// # Panics
/// If no algorithm is applicable.
pub(crate) fn choose<A: Copy>(
    operation: Operation,
    table: &[(&'static str, A)],
    member: Member,
    cost: impl Fn(A) -> Option<Cost>,
) -> A {
    let wanted = member.situation.preferences.wanted(operation);
    if let Some((_, algorithm)) = wanted.and_then(|place| table.get(place))
        && cost(*algorithm).is_some()
    {
        return *algorithm;
    }
    let candidates = table.iter().filter_map(|(_, one)| Some((cost(*one)?, *one)));
    let cheapest = candidates.min_by_key(|(cost, _)| *cost);
    cheapest.expect("one algorithm of each operation is always applicable").1
}

fn rank<A: Copy>(
    table: &[(&'static str, A)],
    shared: [Option<Cost>; 2],
    wanted: Option<usize>,
    cost: impl Fn(A) -> Option<Cost>,
) -> Vec<(&'static str, Cost)> {
    let messages = table.iter().map(|(name, one)| (*name, cost(*one)));
    let all = messages.chain([BOARD, DIRECT].into_iter().zip(shared)).enumerate();
    let costs = all.filter_map(|(place, (name, cost))| Some((place, name, cost?)));
    let mut costs: Vec<_> = costs.collect();
    costs.sort_by_key(|(place, _, cost)| (Some(*place) != wanted, *cost));
    costs.into_iter().map(|(_, name, cost)| (name, cost)).collect()
}
