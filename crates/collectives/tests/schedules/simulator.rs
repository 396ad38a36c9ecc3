//! Executes the schedules of all processes on symbolic blocks, and checks the rules of schedules:
//! every message is received, no process waits for ever, and nothing undefined is read. The
//! program's input is never written, and the transfers of a round do not disturb each other.
//!
//! For slots on the board it checks that each read follows the write, and that each overwrite
//! follows the reads of other members, as ordered by raised and awaited stages. This order is
//! tracked with vector clocks, so it does not depend on the order in which the processes happen to
//! move.

use std::collections::{HashMap, VecDeque};

use collectives::{
    Area, BlockRange, ExposureRole, Local, Member, Operand, PORTIONS_MAX, ProcessLayout, Round,
    Schedule, Situation, Transfer,
};

/// The content of a block: the operands combined in it, in order; `None` if it is undefined.
pub type Block = Option<Vec<u64>>;

/// Returns the symbol that `rank` contributes as its block `number`.
pub fn symbol(rank: u32, number: usize) -> u64 {
    u64::from(rank) << 32 | number as u64
}

/// Returns a block with one symbol.
pub fn block(rank: u32, number: usize) -> Block {
    Some(vec![symbol(rank, number)])
}

/// Returns all members of a communicator in a situation.
pub fn members(size: u32, situation: &Situation) -> impl Iterator<Item = Member<'_>> {
    (0..size).map(move |rank| Member { rank, size, situation })
}

/// Returns a member with another situation.
pub fn with_situation<'a>(member: Member, situation: &'a Situation) -> Member<'a> {
    Member { rank: member.rank, size: member.size, situation }
}

/// Returns the situation of `size` processes on the given machines.
pub fn situation_on(size: u32, oversubscribed: bool, nodes: &[u32]) -> Situation {
    let layout = ProcessLayout::on_nodes(&nodes[..size as usize]);
    Situation { layout, ..situation(size, oversubscribed) }
}

/// Returns the situation of processes on one machine, with two cores if they are oversubscribed.
pub fn situation(size: u32, oversubscribed: bool) -> Situation {
    let plain = Situation::plain(size);
    if oversubscribed { plain.oversubscribed_on(2) } else { plain }
}

/// The memories of one process. A buffer that is not significant has no blocks, so that any access
/// to it fails.
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
            _ => unreachable!("{area:?} is no memory of one process"),
        }
    }

    fn read(&mut self, place: BlockRange) -> Vec<Block> {
        let blocks = self.area(place.area)[place.first..place.first + place.count].to_vec();
        assert!(blocks.iter().all(Option::is_some), "an undefined block is read at {place:?}");
        blocks
    }

    fn write(&mut self, place: BlockRange, blocks: &[Block]) {
        assert_ne!(place.area, Area::Send, "the send buffer is written");
        self.area(place.area)[place.first..place.first + place.count].clone_from_slice(blocks);
    }
}

struct Process {
    schedule: Schedule,
    memory: Memory,
    round: usize,
    /// The number of incomplete messages of the round.
    pending: usize,
    /// The number of incomplete messages with blocks that were too long to be handed over.
    late: usize,
    /// Determines which blocks are too long.
    seed: u64,
    /// The members and stages that it waits for on the board.
    awaited: Vec<(u32, u16)>,
    /// The number of portions that it waits for.
    awaited_portions: usize,
    /// The vector clock: the events of other processes that it knows of, and its own time, which
    /// advances whenever it publishes to others.
    clock: Clock,
    /// Its slots, one for each turn on the board, and its present turn.
    slots: Vec<Slot>,
    turn: usize,
    /// On member 0: the claimed portions, each with the clock of the process that has executed it.
    portions: Option<Vec<(u32, Clock)>>,
    /// The areas that it has exposed, with its own time of the exposure.
    exposed: Vec<(ExposureRole, Area, u64)>,
    /// The accesses of other processes to blocks of its buffers.
    uses: HashMap<(Area, usize), Uses>,
}

/// The last write of a block, and all reads by others since: process, and its own time.
#[derive(Clone, Default)]
struct Uses {
    written: Option<(usize, u64)>,
    read: Vec<(usize, u64)>,
}

impl Process {
    fn new(
        (rank, size): (usize, usize),
        schedule: Schedule,
        mut memory: Memory,
        seed: u64,
    ) -> Self {
        memory.scratch = vec![None; schedule.scratch_blocks()];
        // Clocks are needed only on a board.
        let mut clock = if schedule.uses_board() { vec![0; size] } else { Vec::new() };
        clock.iter_mut().skip(rank).take(1).for_each(|time| *time = 1);
        // A slot for handed blocks has a block for each member.
        let slot_blocks = if schedule.hands() { size } else { schedule.slot_blocks() };
        let slot = Slot { blocks: vec![SlotBlock::default(); slot_blocks], raised: Vec::new() };
        let slots = vec![slot; schedule.turns()];
        Self {
            schedule,
            memory,
            round: 0,
            pending: 0,
            late: 0,
            seed,
            awaited: Vec::new(),
            awaited_portions: 0,
            clock,
            slots,
            turn: 0,
            portions: None,
            exposed: Vec::new(),
            uses: HashMap::new(),
        }
    }
}

type Clock = Vec<u64>;

/// One member's slot on the board.
#[derive(Clone, Default)]
struct Slot {
    blocks: Vec<SlotBlock>,
    /// The owner's clock at the raising of each stage.
    raised: Vec<(Clock, Option<u32>)>,
}

#[derive(Clone, Default)]
struct SlotBlock {
    content: Block,
    /// The owner's time when the block was written.
    written: u64,
    /// The processes that have read it since, each with its own time.
    read: Vec<(usize, u64)>,
}

#[derive(Default)]
struct Channel {
    sends: VecDeque<(BlockRange, Clock)>,
    receives: VecDeque<BlockRange>,
}

/// Executes one schedule per rank. A send is complete only when it is received, as in rendezvous.
///
/// Returns the final memories, and the number of messages.
pub fn execute(schedules: Vec<Schedule>, memories: Vec<Memory>) -> (Vec<Memory>, usize) {
    execute_in_order(schedules, memories, 0)
}

/// Executes schedules with processes moving in an order that depends on `seed`.
pub fn execute_in_order(
    schedules: Vec<Schedule>,
    memories: Vec<Memory>,
    mut seed: u64,
) -> (Vec<Memory>, usize) {
    let size = schedules.len();
    assert_eq!(memories.len(), size);
    let mut channels: Vec<Channel> = (0..size * size).map(|_| Channel::default()).collect();
    let mut processes: Vec<Process> = schedules
        .into_iter()
        .zip(memories)
        .enumerate()
        .map(|(rank, (schedule, memory))| Process::new((rank, size), schedule, memory, seed))
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
                while let Some((from, sent, into)) = matched(&mut channels[rank * size + peer]) {
                    join(&mut processes[peer].clock, &sent);
                    assert_eq!(from.count, into.count, "{rank} to {peer}: {from:?}, {into:?}");
                    let data = processes[rank].memory.read(from);
                    processes[peer].memory.write(into, &data);
                    for end in [rank, peer] {
                        let process = &mut processes[end];
                        match process.schedule.hands() {
                            true => process.late -= 1,
                            false => process.pending -= 1,
                        }
                    }
                    messages += 1;
                    progress = true;
                }
            }
        }
        // Any order in which each process moves.
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(seed.count_ones().into());
        let first = (seed >> 33) as usize;
        for turn in 0..size {
            let turn = if first.is_multiple_of(2) { turn } else { size - 1 - turn };
            let rank = (turn + first) % size;
            check_board(&mut processes, rank);
            let process = &processes[rank];
            let ready =
                process.pending == 0 && process.awaited.is_empty() && process.awaited_portions == 0;
            if ready && process.round < process.schedule.round_count() {
                finish_round(&mut processes, rank, &mut channels);
                post(rank, &mut processes[rank], &mut channels);
                progress = true;
            }
        }
    }
    for (rank, process) in processes.iter().enumerate() {
        let rounds = process.schedule.round_count();
        let is_over = process.round == rounds && process.late == 0;
        assert!(is_over, "rank {rank} waits for ever: {:#?}", process.schedule);
    }
    (processes.into_iter().map(|process| process.memory).collect(), messages)
}

fn matched(channel: &mut Channel) -> Option<(BlockRange, Clock, BlockRange)> {
    if channel.sends.is_empty() || channel.receives.is_empty() {
        return None;
    }
    let (from, sent) = channel.sends.pop_front()?;
    Some((from, sent, channel.receives.pop_front()?))
}

fn join(clock: &mut Clock, other: &Clock) {
    clock.iter_mut().zip(other).for_each(|(one, other)| *one = (*one).max(*other));
}

/// Handles the stages and portions that `rank` waits for and that others have published.
fn check_board(processes: &mut [Process], rank: usize) {
    let awaited = std::mem::take(&mut processes[rank].awaited);
    let turn = processes[rank].turn;
    let count = processes[rank].awaited_portions;
    if count > 0
        && let Some(portions) = processes[0].portions.clone().filter(|all| all.len() == count)
    {
        portions.iter().for_each(|(_, clock)| join(&mut processes[rank].clock, clock));
        processes[rank].awaited_portions = 0;
    }
    for (peer, stage) in awaited {
        match processes[peer as usize].slots[turn].raised.get(usize::from(stage) - 1).cloned() {
            Some((raised, reader)) => {
                let is_woken = reader.is_none_or(|reader| reader as usize == rank);
                assert!(
                    is_woken,
                    "{rank} waits for stage {stage} of {peer}, which wakes {reader:?}"
                );
                join(&mut processes[rank].clock, &raised);
            }
            None => processes[rank].awaited.push((peer, stage)),
        }
    }
}

/// Reads from any area; `rank` is the reader.
fn read(processes: &mut [Process], rank: usize, place: BlockRange) -> Vec<Block> {
    let owner = match place.area {
        Area::Slot(owner) => owner,
        Area::InputOf(owner) => {
            let place = exposed(processes, rank, owner as usize, ExposureRole::Input, place);
            note_reading(processes, owner as usize, rank, place);
            return processes[owner as usize].memory.read(place);
        }
        _ => {
            note_reading(processes, rank, rank, place);
            return processes[rank].memory.read(place);
        }
    };
    let clock = processes[rank].clock.clone();
    let (owner, turn) = (owner as usize, processes[rank].turn);
    let blocks = &mut processes[owner].slots[turn].blocks[place.first..place.first + place.count];
    for block in &mut *blocks {
        assert!(block.content.is_some(), "{rank} reads undefined blocks of the slot of {owner}");
        assert!(owner == rank || block.written <= clock[owner], "{rank} reads {place:?} too early");
        block.read.push((rank, clock[rank]));
    }
    blocks.iter().map(|block| block.content.clone()).collect()
}

/// Writes to any area; `rank` is the writer.
fn write(processes: &mut [Process], rank: usize, place: BlockRange, data: &[Block]) {
    let owner = match place.area {
        Area::Slot(owner) => owner,
        Area::ResultOf(owner) => {
            let place = exposed(processes, rank, owner as usize, ExposureRole::Result, place);
            note_writing(processes, owner as usize, rank, place);
            return processes[owner as usize].memory.write(place, data);
        }
        _ => {
            note_writing(processes, rank, rank, place);
            return processes[rank].memory.write(place, data);
        }
    };
    let process = &mut processes[rank];
    assert_eq!(owner as usize, rank, "{rank} writes into the slot of {owner}");
    for (block, data) in process.slots[process.turn].blocks[place.first..].iter_mut().zip(data) {
        let disturbed = block.read.iter().find(|(reader, at)| *at > process.clock[*reader]);
        assert_eq!(disturbed, None, "{rank} writes over {place:?} while it may be read");
        *block = SlotBlock { content: data.clone(), written: process.clock[rank], read: vec![] };
    }
}

fn post(rank: usize, process: &mut Process, channels: &mut [Channel]) {
    let size = channels.len().isqrt();
    let Some(round) = process.schedule.round(process.round) else { return };
    check_apart(round.transfers);
    for transfer in round.transfers {
        match *transfer {
            Transfer::Raise { stage, reader } => {
                let raised = &mut process.slots[process.turn].raised;
                assert_ne!(reader, Some(rank as u32), "a member raises a stage for itself");
                raised.push((process.clock.clone(), reader));
                assert_eq!(raised.len(), usize::from(stage), "a stage is missing");
                process.clock[rank] += 1;
                continue;
            }
            Transfer::Await { peer, stage, .. } => {
                assert_ne!(peer as usize, rank, "who waits for itself waits for ever");
                process.awaited.push((peer, stage));
                continue;
            }
            // Portions are claimed when the round is reached, in `claim`.
            Transfer::Claim { portion } => {
                assert!(portion < PORTIONS_MAX, "there is no room for portion {portion}");
                continue;
            }
            Transfer::AwaitPortions { count } => {
                process.awaited_portions = count as usize;
                continue;
            }
            Transfer::Send { peer, from } => {
                assert_ne!(peer as usize, rank, "a message to oneself");
                process.memory.read(from);
                let sent = (from, process.clock.clone());
                process.clock.iter_mut().skip(rank).take(1).for_each(|time| *time += 1);
                channels[rank * size + peer as usize].sends.push_back(sent);
            }
            Transfer::Receive { peer, into } => {
                assert_ne!(peer as usize, rank, "a message to oneself");
                assert_ne!(into.area, Area::Send, "the send buffer is written");
                channels[peer as usize * size + rank].receives.push_back(into);
            }
        }
        process.pending += 1;
    }
}

/// Checks that no transfer of a round writes a block that another one reads or writes.
fn check_apart(transfers: &[Transfer]) {
    for (index, transfer) in transfers.iter().enumerate() {
        let Transfer::Receive { into, .. } = *transfer else { continue };
        for (other_index, other) in transfers.iter().enumerate() {
            let (Transfer::Send { from: place, .. } | Transfer::Receive { into: place, .. }) =
                *other
            else {
                continue;
            };
            assert!(
                index == other_index || !overlap(into, place),
                "{transfer:?} disturbs {other:?}"
            );
        }
    }
}

fn overlap(one: BlockRange, other: BlockRange) -> bool {
    one.area == other.area
        && one.first < other.first + other.count
        && other.first < one.first + one.count
}

/// The marker in a slot in place of a block that is too long.
const ELSEWHERE: u64 = u64::MAX;

/// Whether `rank` cannot show its block for `peer` in its slot: an arbitrary function of the seed.
fn is_too_long(seed: u64, rank: usize, peer: u32) -> bool {
    seed.rotate_left(rank as u32 * 7 + peer) % 3 == 1
}

fn hand(
    processes: &mut [Process],
    rank: usize,
    peer: u32,
    from: BlockRange,
    channels: &mut [Channel],
) {
    let size = processes.len();
    assert_ne!(peer as usize, rank, "the own block is copied");
    let slot = BlockRange { area: Area::Slot(rank as u32), first: peer as usize, count: 1 };
    let mut data = read(processes, rank, from);
    if is_too_long(processes[rank].seed, rank, peer) {
        data = vec![Some(vec![ELSEWHERE])];
        let sent = (from, processes[rank].clock.clone());
        channels[rank * size + peer as usize].sends.push_back(sent);
        processes[rank].late += 1;
    }
    write(processes, rank, slot, &data);
}

fn take(
    processes: &mut [Process],
    rank: usize,
    peer: u32,
    into: BlockRange,
    channels: &mut [Channel],
) {
    let size = processes.len();
    let slot = BlockRange { area: Area::Slot(peer), first: rank, count: 1 };
    let data = read(processes, rank, slot);
    if data == [Some(vec![ELSEWHERE])] {
        channels[peer as usize * size + rank].receives.push_back(into);
        processes[rank].late += 1;
    } else {
        write(processes, rank, into, &data);
    }
}

fn finish_round(processes: &mut [Process], rank: usize, channels: &mut [Channel]) {
    let schedule = processes[rank].schedule.clone();
    let round = schedule.round(processes[rank].round).expect("the process is in a round");
    let is_foreign = |place: BlockRange| matches!(place.area, Area::InputOf(_) | Area::ResultOf(_));
    let is_slot = |place: BlockRange| matches!(place.area, Area::Slot(_));
    let claimed = claim(processes, &round);
    for local in round.local {
        if claimed == Some(false) {
            break;
        }
        let (from, into) = match *local {
            Local::Divide => {
                assert_eq!(rank, 0, "member 0 keeps what is claimed");
                processes[0].portions = Some(Vec::new());
                continue;
            }
            Local::Compare => continue,
            Local::CopyRuns { from, into, runs } => {
                for (from, into) in runs.each(from, into) {
                    copy(processes, rank, from, into);
                }
                continue;
            }
            Local::Copy { from, into } | Local::Reduce { from, into, .. } => (from, into),
            Local::Expose { area, role } => {
                let since = processes[rank].clock[rank];
                processes[rank].exposed.push((role, area, since));
                continue;
            }
            Local::Hand { peer, from } => {
                hand(processes, rank, peer, from, channels);
                continue;
            }
            Local::Take { peer, into } => {
                take(processes, rank, peer, into, channels);
                continue;
            }
        };
        assert!(!overlap(from, into), "{local:?} overlaps");
        assert!(!(is_slot(from) && is_slot(into)), "{local:?} reads and writes slots");
        assert_eq!(from.count, into.count, "{local:?} has two sizes");
        let mut data = read(processes, rank, from);
        if let Local::Reduce { first, .. } = *local {
            assert!(!is_slot(into), "{local:?} reduces into a slot");
            assert!(!is_foreign(from) && !is_foreign(into), "{local:?} combines over there");
            let other = processes[rank].memory.read(into);
            data = match first {
                Operand::From => combine(&data, &other),
                Operand::Into => combine(&other, &data),
            };
        }
        write(processes, rank, into, &data);
    }
    if claimed == Some(true) {
        let clock = processes[rank].clock.clone();
        processes[rank].clock[rank] += 1;
        let portions = processes[0].portions.as_mut().expect("it is divided");
        portions.last_mut().expect("it was claimed").1 = clock;
    }
    end_round(&mut processes[rank], &schedule);
}

/// Goes on to the next round, turn or part of a schedule.
fn end_round(process: &mut Process, schedule: &Schedule) {
    process.round += 1;
    if schedule.begins_turn(process.round) {
        process.turn += 1;
    }
    if process.round < schedule.round_count() {
        return;
    }
    if let Some(next) = collectives::next_part(schedule) {
        process.schedule = next;
        process.round = 0;
        return;
    }
    assert_eq!(process.turn + 1, schedule.turns(), "a turn is missing");
    check_left_alone(process);
}

/// Copies blocks of one process.
fn copy(processes: &mut [Process], rank: usize, from: BlockRange, into: BlockRange) {
    assert!(!overlap(from, into), "a copy from {from:?} to {into:?} overlaps");
    let data = read(processes, rank, from);
    write(processes, rank, into, &data);
}

/// Claims the portion of a round, if it has one. Returns whether it was unclaimed.
fn claim(processes: &mut [Process], round: &Round<'_>) -> Option<bool> {
    let Some(Transfer::Claim { portion }) = round.transfers.first() else { return None };
    let portions = processes[0].portions.as_mut().expect("it is divided");
    let is_free = portions.iter().all(|(other, _)| other != portion);
    if is_free {
        portions.push((*portion, Clock::new()));
    }
    Some(is_free)
}

/// Returns the place in the memory of `owner` that it has exposed, and checks that `rank` knows of
/// the exposure.
fn exposed(
    processes: &[Process],
    rank: usize,
    owner: usize,
    role: ExposureRole,
    place: BlockRange,
) -> BlockRange {
    assert_ne!(owner, rank, "the own buffers have names of their own");
    let found = processes[owner].exposed.iter().find(|exposed| exposed.0 == role);
    let (_, area, since) = found.unwrap_or_else(|| panic!("{owner} has not exposed {place:?}"));
    assert!(*since <= processes[rank].clock[owner], "{rank} uses {place:?} too early");
    BlockRange { area: *area, ..place }
}

/// Checks that the reader knows of the writes by others.
fn note_reading(processes: &mut [Process], owner: usize, reader: usize, place: BlockRange) {
    if processes[reader].clock.is_empty() {
        return;
    }
    let clock = processes[reader].clock.clone();
    for block in place.first..place.first + place.count {
        let uses = processes[owner].uses.entry((place.area, block)).or_default();
        let early = uses.written.filter(|(writer, at)| *writer != reader && *at > clock[*writer]);
        assert_eq!(early, None, "{reader} reads {place:?} of {owner} while it is written");
        uses.read.push((reader, clock[reader]));
    }
}

/// Checks that the writer knows that all others have finished their accesses.
fn note_writing(processes: &mut [Process], owner: usize, writer: usize, place: BlockRange) {
    if processes[writer].clock.is_empty() {
        return;
    }
    let clock = processes[writer].clock.clone();
    for block in place.first..place.first + place.count {
        let uses = processes[owner].uses.entry((place.area, block)).or_default();
        let all = uses.read.iter().chain(&uses.written);
        let disturbed = all.copied().find(|(user, at)| *user != writer && *at > clock[*user]);
        assert_eq!(disturbed, None, "{writer} writes over {place:?} of {owner}");
        *uses = Uses { written: Some((writer, clock[writer])), read: Vec::new() };
    }
}

/// Checks that no process accesses the buffers after the end of the operation.
fn check_left_alone(process: &Process) {
    for (block, uses) in &process.uses {
        for (user, at) in uses.read.iter().chain(&uses.written) {
            assert!(*at <= process.clock[*user], "{user} uses {block:?} after the end");
        }
    }
}

/// An associative operation that does not commute: concatenates the operands.
fn combine(left: &[Block], right: &[Block]) -> Vec<Block> {
    left.iter()
        .zip(right)
        .map(|(left, right)| Some([left.clone()?, right.clone()?].concat()))
        .collect()
}
