//! Recursive halving: pairs exchange halves, quarters, … of the elements and combine what they
//! keep, among the largest power of two of processes.

use crate::estimate::TimeEstimate;
use crate::member::Member;
use crate::schedule::{Area, BlockRange, Operand, Schedule};
use crate::share::shares;

/// A process among those whose number is a power of two. Of the others each is the neighbour of a
/// participant, to which it hands its operands first: neighbours, so that the order of ranks is
/// kept.
pub(crate) struct Participant {
    pub number: u32,
    pub participants: u32,
    /// How many of the participants speak for a neighbour also: the first ones.
    doubled: u32,
    /// Which of a pair of neighbours takes part: this process where it is one, else the lower.
    upper: Option<u32>,
}

/// Where a process works: partial results lie at `result` once it has combined anything, and what
/// arrives lies in scratch memory from block `spare` on.
#[derive(Clone, Copy)]
pub(crate) struct Workspace {
    pub result: BlockRange,
    pub spare: usize,
}

/// What becomes of a process when the others have handed over their operands.
pub(crate) enum FoldedRole {
    /// It takes part, for its neighbour also if there is one, with the partial result at `partial`.
    Participant { own: Participant, neighbour: Option<u32>, partial: BlockRange },
    /// It has sent its operands to this neighbour.
    Represented { representative: u32 },
}

impl Participant {
    /// The process with `rank` among `size`; of a pair the lower one takes part, or `chosen`. None
    /// where its neighbour speaks for it.
    pub fn of(member: Member, rank: u32, chosen: Option<u32>) -> Option<Self> {
        let participants = 1 << member.size.ilog2();
        let doubled = member.size - participants;
        let upper = chosen.filter(|chosen| *chosen < 2 * doubled && chosen % 2 == 1);
        let mut own = Self { number: 0, participants, doubled, upper };
        own.number = own.number_of(rank);
        (own.rank(own.number) == rank).then_some(own)
    }

    /// The number of the participant that speaks for `rank`.
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

    /// The elements of `count` participants from number `first` on.
    pub fn part(&self, whole: BlockRange, first: u32, count: u32) -> BlockRange {
        let part = shares(whole.area, whole.count, self.participants, first, count);
        BlockRange { first: whole.first + part.first, ..part }
    }

    /// The neighbour for which this one speaks.
    pub fn neighbour(&self) -> Option<u32> {
        (self.number < self.doubled).then(|| self.rank(self.number) ^ 1)
    }
}

/// Adds the round in which those that are too many for a power of two hand over their operands.
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

/// Adds the receipt of the operands for `kept`, a part of `partial`, from `peer`, and their
/// reduction in the order of ranks. The result lies on the workspace: from now on that is where
/// partial results are. Ends the round.
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

/// Recursive halving with distances that grow, which keeps the order of ranks. In the end each
/// participant has the result of one share, of which this tells the number; it lies on the
/// workspace.
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

/// The distances 1, 2, 4, … between participants.
pub(crate) fn distances(own: &Participant) -> impl DoubleEndedIterator<Item = u32> + use<> {
    (0..own.participants.ilog2()).map(|bit| 1 << bit)
}

impl TimeEstimate<'_> {
    /// What is too many for a power of two hands its operands to neighbours.
    pub fn join_power_of_two(&mut self, member: Member, bytes: usize) {
        let pairs = self.beside_power_of_two(member, bytes);
        if pairs > 0 {
            self.reduce(pairs, bytes);
        }
    }

    /// The neighbours hand `bytes` bytes back.
    pub fn leave_power_of_two(&mut self, member: Member, bytes: usize) {
        self.beside_power_of_two(member, bytes);
    }

    /// A message for each neighbour, and how many pairs of neighbours the fullest machine has.
    fn beside_power_of_two(&mut self, member: Member, bytes: usize) -> u64 {
        let pairs = u64::from(member.size - (1 << member.size.ilog2()));
        let pairs = pairs.min(u64::from(member.situation.layout.largest()));
        if pairs > 0 {
            self.level(pairs, bytes, None);
        }
        pairs
    }

    /// Pairs exchange halves, quarters, … of `bytes` bytes and combine them.
    pub fn halve(&mut self, member: Member, bytes: usize) {
        self.each_bit(member, |one, distance| {
            one.halve_at(member, distance, bytes / (2 * distance as usize));
        });
    }

    /// Pairs at one distance exchange `part` bytes and combine them.
    pub fn halve_at(&mut self, member: Member, distance: u32, part: usize) {
        let near = u64::from(member.situation.layout.largest());
        self.exchange_at(distance, part);
        self.reduce(near, part);
        // Results of the step before are written and read again, which shares of operands are not:
        // measured, so much more than the model knows.
        self.copy(near, part / 4);
    }

    /// The results of [`TimeEstimate::halve`] come together at one process.
    pub fn collect_halves(&mut self, member: Member, bytes: usize) {
        let layout = &member.situation.layout;
        self.each_bit(member, |one, distance| {
            let senders = u64::from(distance.min(layout.largest()));
            one.level(senders, bytes / (2 * distance as usize), Some(distance));
        });
    }
}
