//! Executes the schedules of all processes on symbolic blocks, and checks the rules of schedules:
//! every message is received, nobody waits for ever, nothing undefined is read, the program's
//! input is never written, and the transfers of a round do not disturb each other.

use std::collections::VecDeque;

use collectives::{Area, Layout, Local, Member, Operand, Place, Schedule, Situation, Transfer};

/// What a block holds: the operands that went into it, in order; nothing where it is undefined.
pub type Block = Option<Vec<u64>>;

/// The symbol of what `rank` contributes as its block `number`.
pub fn symbol(rank: u32, number: usize) -> u64 {
    u64::from(rank) << 32 | number as u64
}

/// A block that holds one symbol.
pub fn block(rank: u32, number: usize) -> Block {
    Some(vec![symbol(rank, number)])
}

/// All members of a communicator in a situation.
pub fn members(size: u32, situation: &Situation) -> impl Iterator<Item = Member<'_>> {
    (0..size).map(move |rank| Member { rank, size, situation })
}

/// A member that is told of another situation.
pub fn told<'a>(member: Member, situation: &'a Situation) -> Member<'a> {
    Member { rank: member.rank, size: member.size, situation }
}

/// Processes on the machines that are named for the first `size` of them.
pub fn situation_on(size: u32, crowded: bool, nodes: &[u32]) -> Situation {
    let layout = Layout::on_nodes(&nodes[..size as usize]);
    Situation { layout, ..situation(size, crowded) }
}

/// Processes of one machine, which has two cores if they shall be crowded.
pub fn situation(size: u32, crowded: bool) -> Situation {
    let plain = Situation::plain(size);
    if crowded { plain.crowded_on(2) } else { plain }
}

/// The memories of one process. A buffer that is not significant has no blocks, so that whoever
/// names one is caught.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub send: Vec<Block>,
    pub receive: Vec<Block>,
    scratch: Vec<Block>,
}

impl Memory {
    pub fn new(send: Vec<Block>, receive: Vec<Block>) -> Self {
        Self { send, receive, scratch: Vec::new() }
    }

    fn area(&mut self, area: Area) -> &mut Vec<Block> {
        match area {
            Area::Send => &mut self.send,
            Area::Receive => &mut self.receive,
            Area::Scratch => &mut self.scratch,
        }
    }

    fn read(&mut self, place: Place) -> Vec<Block> {
        let blocks = self.area(place.area)[place.first..place.first + place.count].to_vec();
        assert!(blocks.iter().all(Option::is_some), "an undefined block is read at {place:?}");
        blocks
    }

    fn write(&mut self, place: Place, blocks: &[Block]) {
        assert_ne!(place.area, Area::Send, "the send buffer is written");
        self.area(place.area)[place.first..place.first + place.count].clone_from_slice(blocks);
    }
}

struct Process {
    schedule: Schedule,
    memory: Memory,
    round: usize,
    /// Transfers of the round that are not complete.
    pending: usize,
}

#[derive(Default)]
struct Channel {
    sends: VecDeque<Place>,
    receives: VecDeque<Place>,
}

/// Executes one schedule per rank. A send is complete only when it is received, as in rendezvous.
///
/// Returns the memories afterwards and the number of messages.
pub fn execute(schedules: Vec<Schedule>, memories: Vec<Memory>) -> (Vec<Memory>, usize) {
    let size = schedules.len();
    assert_eq!(memories.len(), size);
    let mut channels: Vec<Channel> = (0..size * size).map(|_| Channel::default()).collect();
    let mut processes: Vec<Process> = schedules
        .into_iter()
        .zip(memories)
        .map(|(schedule, mut memory)| {
            memory.scratch = vec![None; schedule.scratch_blocks()];
            Process { schedule, memory, round: 0, pending: 0 }
        })
        .collect();
    for (rank, process) in processes.iter_mut().enumerate() {
        post(rank, process, &mut channels);
    }

    let mut messages = 0;
    let mut progress = true;
    while progress {
        progress = false;
        for rank in 0..size {
            for peer in 0..size {
                while let Some((from, into)) = matched(&mut channels[rank * size + peer]) {
                    assert_eq!(from.count, into.count, "{rank} to {peer}: {from:?}, {into:?}");
                    let data = processes[rank].memory.read(from);
                    processes[peer].memory.write(into, &data);
                    processes[rank].pending -= 1;
                    processes[peer].pending -= 1;
                    messages += 1;
                    progress = true;
                }
            }
        }
        for (rank, process) in processes.iter_mut().enumerate() {
            if process.pending == 0 && process.round < process.schedule.round_count() {
                finish_round(process);
                post(rank, process, &mut channels);
                progress = true;
            }
        }
    }
    for (rank, process) in processes.iter().enumerate() {
        let rounds = process.schedule.round_count();
        assert_eq!(process.round, rounds, "rank {rank} waits for ever: {:#?}", process.schedule);
    }
    (processes.into_iter().map(|process| process.memory).collect(), messages)
}

fn matched(channel: &mut Channel) -> Option<(Place, Place)> {
    if channel.sends.is_empty() || channel.receives.is_empty() {
        return None;
    }
    channel.sends.pop_front().zip(channel.receives.pop_front())
}

fn post(rank: usize, process: &mut Process, channels: &mut [Channel]) {
    let size = channels.len().isqrt();
    let Some(round) = process.schedule.round(process.round) else { return };
    check_apart(round.transfers);
    process.pending = round.transfers.len();
    for transfer in round.transfers {
        match *transfer {
            Transfer::Send { peer, from } => {
                assert_ne!(peer as usize, rank, "a message to oneself");
                process.memory.read(from);
                channels[rank * size + peer as usize].sends.push_back(from);
            }
            Transfer::Receive { peer, into } => {
                assert_ne!(peer as usize, rank, "a message to oneself");
                assert_ne!(into.area, Area::Send, "the send buffer is written");
                channels[peer as usize * size + rank].receives.push_back(into);
            }
        }
    }
}

/// No transfer of a round writes what another one reads or writes.
fn check_apart(transfers: &[Transfer]) {
    for (index, transfer) in transfers.iter().enumerate() {
        let Transfer::Receive { into, .. } = *transfer else { continue };
        for (other_index, other) in transfers.iter().enumerate() {
            let (Transfer::Send { from: place, .. } | Transfer::Receive { into: place, .. }) =
                *other;
            assert!(
                index == other_index || !overlap(into, place),
                "{transfer:?} disturbs {other:?}"
            );
        }
    }
}

fn overlap(one: Place, other: Place) -> bool {
    one.area == other.area
        && one.first < other.first + other.count
        && other.first < one.first + one.count
}

fn finish_round(process: &mut Process) {
    let round = process.schedule.round(process.round).expect("the process is in a round");
    for local in round.local {
        let (Local::Copy { from, into } | Local::Reduce { from, into, .. }) = *local;
        assert!(!overlap(from, into), "{local:?} overlaps");
        assert_eq!(from.count, into.count, "{local:?} has two sizes");
        let mut data = process.memory.read(from);
        if let Local::Reduce { first, .. } = *local {
            let other = process.memory.read(into);
            data = match first {
                Operand::From => combine(&data, &other),
                Operand::Into => combine(&other, &data),
            };
        }
        process.memory.write(into, &data);
    }
    process.round += 1;
}

/// An operation that is associative and commutes with nothing: the operands one after the other.
fn combine(left: &[Block], right: &[Block]) -> Vec<Block> {
    left.iter()
        .zip(right)
        .map(|(left, right)| Some([left.clone()?, right.clone()?].concat()))
        .collect()
}
