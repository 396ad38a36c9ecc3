//! Recursive halving among the largest power of two of processes: pairs exchange halves, quarters,
//! … of the elements, and combine the elements that they keep.

use crate::estimate::TimeEstimate;
use crate::member::Member;
use crate::schedule::{Area, BlockRange, Operand, Schedule};
use crate::share::shares;

/// A process among the participants, whose number is a power of two. Each of the other processes is
/// a neighbour of a participant, to which it first sends its operands. They are neighbours so that
/// the order of ranks is kept.
pub(crate) struct Participant {
    pub number: u32,
    pub participants: u32,
    /// The number of participants that represent a neighbour also: the first ones.
    doubled: u32,
    /// The upper process of a pair that takes part in the place of the lower one, if there is one.
    upper: Option<u32>,
}

/// The memory that a process works in. Partial results are at `result` once it has combined
/// anything; received data is in scratch memory from block `spare` on.
#[derive(Clone, Copy)]
pub(crate) struct Workspace {
    pub result: BlockRange,
    pub spare: usize,
}

/// The role of a process after the others have sent their operands to neighbours.
pub(crate) enum FoldedRole {
    /// It takes part, for its neighbour also if there is one, with the partial result at `partial`.
    Participant { own: Participant, neighbour: Option<u32>, partial: BlockRange },
    /// It has sent its operands to this neighbour.
    Represented { representative: u32 },
}

impl Participant {
    /// Makes the participant with `rank` among `size` processes. Of a pair the lower process takes
    /// part, or `chosen`. `None` if its neighbour represents it.
    pub fn of(member: Member, rank: u32, chosen: Option<u32>) -> Option<Self> {
        let participants = 1 << member.size.ilog2();
        let doubled = member.size - participants;
        let upper = chosen.filter(|chosen| *chosen < 2 * doubled && chosen % 2 == 1);
        let mut own = Self { number: 0, participants, doubled, upper };
        own.number = own.number_of(rank);
        (own.rank(own.number) == rank).then_some(own)
    }

    /// Returns the number of the participant that represents `rank`.
    pub fn number_of(&self, rank: u32) -> u32 {
        if rank < 2 * self.doubled { rank / 2 } else { rank - self.doubled }
    }

    pub fn rank(&self, number: u32) -> u32 {
        match self.upper {
            _ if number >= self.doubled => number + self.doubled,
            Some(upper) if upper / 2 == number => upper,
            _ => 2 * number,
        }
    }

    /// Returns the elements of `count` participants from number `first` on.
    pub fn part(&self, whole: BlockRange, first: u32, count: u32) -> BlockRange {
        let part = shares(whole.area, whole.count, self.participants, first, count);
        BlockRange { first: whole.first + part.first, ..part }
    }

    /// Returns the neighbour that this participant represents.
    pub fn neighbour(&self) -> Option<u32> {
        (self.number < self.doubled).then(|| self.rank(self.number) ^ 1)
    }
}

/// Adds the round in which the processes beyond a power of two send their operands to neighbours.
/// `chosen` takes part in any case.
pub(crate) fn join(
    schedule: &mut Schedule,
    member: Member,
    chosen: Option<u32>,
    own: BlockRange,
    workspace: Workspace,
) -> FoldedRole {
    let rank = member.rank;
    let Some(participant) = Participant::of(member, rank, chosen) else {
        let representative = rank ^ 1;
        schedule.send(representative, own);
        return FoldedRole::Represented { representative };
    };
    let neighbour = participant.neighbour();
    let partial = match neighbour {
        Some(neighbour) => receive_and_reduce(schedule, rank, neighbour, own, own, workspace),
        None => own,
    };
    FoldedRole::Participant { own: participant, neighbour, partial }
}

/// Adds receiving the operands for `kept`, a part of `partial`, from `peer`, and their reduction in
/// the order of ranks. The result is in the workspace: from now on, partial results are there. Ends
/// the round.
pub(crate) fn receive_and_reduce(
    schedule: &mut Schedule,
    rank: u32,
    peer: u32,
    partial: BlockRange,
    kept: BlockRange,
    workspace: Workspace,
) -> BlockRange {
    let result = workspace.result.part(kept.first - partial.first, kept.count);
    let peer_is_left = peer < rank;
    if kept.count > 0 && partial != workspace.result {
        schedule.receive(peer, result);
        schedule.reduce(kept, result, if peer_is_left { Operand::Into } else { Operand::From });
    } else if kept.count > 0 {
        let arriving = Area::Scratch.blocks(workspace.spare, kept.count);
        schedule.receive(peer, arriving);
        schedule.reduce(arriving, result, if peer_is_left { Operand::From } else { Operand::Into });
    }
    schedule.end_round();
    workspace.result
}

/// Recursive halving with growing distances, which keeps the order of ranks. In the end each
/// participant has the result of one share, in the workspace. Returns the number of that share.
pub(crate) fn halve(
    schedule: &mut Schedule,
    own: &Participant,
    partial: BlockRange,
    workspace: Workspace,
) -> u32 {
    let rank = own.rank(own.number);
    let mut partial = partial;
    let (mut first, mut count) = (0, own.participants);
    for distance in distances(own) {
        let peer = own.rank(own.number ^ distance);
        count /= 2;
        let (kept, given) = match own.number & distance {
            0 => (first, first + count),
            _ => (first + count, first),
        };
        let leaving = own.part(partial, given, count);
        if leaving.count > 0 {
            schedule.send(peer, leaving);
        }
        let staying = own.part(partial, kept, count);
        partial = receive_and_reduce(schedule, rank, peer, partial, staying, workspace);
        first = kept;
    }
    first
}

/// Returns the distances 1, 2, 4, … between participants.
pub(crate) fn distances(own: &Participant) -> impl DoubleEndedIterator<Item = u32> + use<> {
    (0..own.participants.ilog2()).map(|bit| 1 << bit)
}

impl TimeEstimate<'_> {
    /// Adds that the processes beyond a power of two send their operands to neighbours.
    pub fn join_power_of_two(&mut self, member: Member, bytes: usize) {
        let pairs = self.beside_power_of_two(member, bytes);
        if pairs > 0 {
            self.reduce(pairs, bytes);
        }
    }

    /// Adds that the neighbours send `bytes` bytes back.
    pub fn leave_power_of_two(&mut self, member: Member, bytes: usize) {
        self.beside_power_of_two(member, bytes);
    }

    /// Adds a message for each neighbour. Returns how many pairs of neighbours the fullest machine
    /// has.
    fn beside_power_of_two(&mut self, member: Member, bytes: usize) -> u64 {
        let pairs = u64::from(member.size - (1 << member.size.ilog2()));
        let pairs = pairs.min(u64::from(member.situation.layout.largest()));
        if pairs > 0 {
            self.level(pairs, bytes, None);
        }
        pairs
    }

    /// Adds that pairs exchange halves, quarters, … of `bytes` bytes and combine them.
    pub fn halve(&mut self, member: Member, bytes: usize) {
        self.each_bit(member, |one, distance| {
            one.halve_at(member, distance, bytes / (2 * distance as usize));
        });
    }

    /// Adds that pairs at one distance exchange `part` bytes and combine them.
    pub fn halve_at(&mut self, member: Member, distance: u32, part: usize) {
        let near = u64::from(member.situation.layout.largest());
        self.exchange_at(distance, part);
        self.reduce(near, part);
        // Results of the previous step are written and read again, unlike shares of operands: the
        // measured difference from the model.
        self.copy(near, part / 4);
    }

    /// Adds that one process collects the results of [`TimeEstimate::halve`].
    pub fn collect_halves(&mut self, member: Member, bytes: usize) {
        let layout = &member.situation.layout;
        self.each_bit(member, |one, distance| {
            let senders = u64::from(distance.min(layout.largest()));
            one.level(senders, bytes / (2 * distance as usize), Some(distance));
        });
    }
}
