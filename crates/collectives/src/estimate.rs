//! Predicts how long an algorithm takes, from the costs of its steps.
//!
//! Why: docs/internals/decisions/0016-the-cheapest-algorithm-by-prediction.md

use crate::cost::Cost;
use crate::costs::Crossing;
use crate::layout::ProcessLayout;
use crate::member::{Member, Takers};
use crate::operands::Operands;
use crate::situation::Situation;
use crate::tree::{Branching, TreeDirection, group_size};

/// The maximum length of two operands, in bytes each, that a core's private caches hold together.
const CACHED_BYTES_MAX: usize = 256 << 10;

/// The time of an algorithm, from the beginning of its first step to the end of the last process.
/// Steps are added in their order.
///
/// Work that processes do simultaneously takes as long as the work of one of them, or longer if
/// they share cores. On an oversubscribed machine, whenever processes wait for others, all
/// processes that share a core must have had their turn.
pub(crate) struct TimeEstimate<'a> {
    situation: &'a Situation,
    /// The time in picoseconds.
    total: u128,
}

/// The cost of one message in picoseconds: at its two ends, and in transit.
struct Price {
    sender: u128,
    way: u128,
    receiver: u128,
    /// Whether the sender must receive a reply that the message has arrived.
    is_answered: bool,
    /// Whether both ends work at the same time.
    is_piped: bool,
}

/// The additional cost of messages that cross parts of machines, in picoseconds: the processors of
/// both ends together, the longest path, and the fullest part.
#[derive(Default)]
struct Crossings {
    work: u128,
    way: u128,
    wire: u128,
}

/// The number of cache lines that a core waits for simultaneously when it copies.
const LINES_AT_ONCE: u64 = 32;

/// The number of flags that a core waits for simultaneously when it reads one after the other.
const FLAGS_AT_ONCE: u128 = 4;

/// The number of members whose flags and small slots each process looks at within the measured time
/// of a flag.
const FLAGS_INCLUDED: u64 = 31;

/// The time of an announced message as a multiple of its copy, where processes take turns on cores:
/// what the receiver copies in its turn, the sender must have announced in its own.
const FETCHES_IN_TURNS: u128 = 2;

/// Returns the additional time of each byte of a copy, in picoseconds: that of its share of a
/// 64-byte line.
fn byte_ps(crossing: Crossing) -> u64 {
    crossing.line_ns * 1000 / (64 * LINES_AT_ONCE)
}

impl<'a> TimeEstimate<'a> {
    pub fn new(situation: &'a Situation) -> Self {
        Self { situation, total: 0 }
    }

    pub fn cost(&self) -> Cost {
        Cost::of_picoseconds(self.total)
    }

    /// Adds an exchange: all processes send `messages` messages of `bytes` bytes each and receive
    /// as many. `leaving` returns how many of all these messages leave the fullest machine, or the
    /// fullest part of a level.
    pub fn exchange(
        &mut self,
        messages: u64,
        bytes: usize,
        leaving: impl Fn(&ProcessLayout) -> u64,
    ) {
        let layout = &self.situation.layout;
        let members = u64::from(layout.largest());
        let all = members.saturating_mul(messages);
        let far_leaving = leaving(layout);
        let cores = self.cores_in_use(members);
        let (near, far) = (self.near(bytes), self.far(bytes));
        let (mut work, mut way, mut wire) = (0_u128, 0, 0);
        if far_leaving < all {
            work += times(all - far_leaving, near.sender + near.receiver) / cores;
            let parts = self.in_parts(
                |layout| {
                    let all_of_part = u64::from(layout.largest()).saturating_mul(messages);
                    let leaving = leaving(layout).min(all_of_part);
                    // An equal number is assumed for each part of the machine.
                    let crossing =
                        u128::from(all) * u128::from(leaving) / u128::from(all_of_part.max(1));
                    (leaving, crossing as u64)
                },
                far_leaving,
                bytes,
            );
            work = work.saturating_add(parts.work.saturating_mul(2) / cores);
            way = near.way + parts.way;
            wire = parts.wire;
            self.answer(&near);
        }
        if far_leaving > 0 {
            let crossing = times(far_leaving, far.sender + far.receiver) / cores;
            work = work.saturating_add(crossing);
            way = far.way;
            wire = wire.max(times(far_leaving, self.wire(bytes)));
        }
        self.add(work.max(wire).saturating_add(way));
        self.turns(self.situation.load());
    }

    /// Adds a star: one process sends a message of `bytes` bytes to each of `peers` others, or
    /// receives one from each, all in one round.
    pub fn star(&mut self, peers: u64, bytes: usize, direction: TreeDirection) {
        let far = u64::from(self.situation.layout.elsewhere()).min(peers);
        let near_peers = peers - far;
        let (near, distant) = (self.near(bytes), self.far(bytes));
        let sharing = self.cores_in_use(u64::from(self.situation.layout.largest()));
        let (root, leaf) = match direction {
            TreeDirection::TowardRoot => (near.receiver, near.sender),
            TreeDirection::FromRoot => (near.sender, near.receiver),
        };
        let mut time = times(near_peers, root).saturating_add(times(far, distant.sender));
        // The leaves work simultaneously, if there are cores for them.
        if !near.is_piped {
            time = time.saturating_add((times(near_peers, leaf) / sharing).max(leaf));
        }
        let outside =
            |layout: &ProcessLayout| (layout.elsewhere().into(), layout.elsewhere().into());
        let parts = self.in_parts(outside, far, bytes);
        time = time.saturating_add(parts.work);
        time = time.max(times(far, self.wire(bytes))).max(parts.wire);
        self.add(time.saturating_add(if far > 0 { distant.way } else { near.way + parts.way }));
        if near_peers > 0 {
            self.answer(&near);
        }
        match direction {
            // Only the root waits; the leaves send when it is their turn anyway.
            TreeDirection::TowardRoot => self.turns(1),
            TreeDirection::FromRoot => self.turns(self.situation.load()),
        }
    }

    /// Adds one message of `bytes` bytes on the longest path to a process `distance` ranks away, or
    /// to a neighbour in the own part. Meanwhile `active` processes of the fullest machine send
    /// such messages.
    pub fn level(&mut self, active: u64, bytes: usize, distance: Option<u32>) {
        let leaves = |layout: &ProcessLayout| distance.is_some_and(|one| layout.leaving(one) > 0);
        let far = leaves(&self.situation.layout);
        let price = if far { self.far(bytes) } else { self.near(bytes) };
        let active = active.max(1);
        self.answer(&price);
        let busy = if price.is_piped { active.saturating_mul(2) } else { active };
        let all_leave = |layout: &ProcessLayout| match leaves(layout) {
            true => (active.min(layout.largest().into()), active),
            false => (0, 0),
        };
        let parts = self.in_parts(all_leave, if far { active } else { 0 }, bytes);
        let ends = times(active, price.sender + price.receiver)
            .saturating_add(parts.work.saturating_mul(2));
        let work = ends / self.cores_in_use(busy);
        let wire = if far { times(active, self.wire(bytes)) } else { parts.wire };
        self.add(work.max(wire).saturating_add(price.way).saturating_add(parts.way));
        self.turns(self.situation.load());
    }

    /// Returns the additional cost of messages of `bytes` bytes that cross parts of machines.
    /// `count` returns how many leave the fullest part of a level, and how many of one machine
    /// leave any part. Each message is charged for the widest level that it leaves; `far` of them
    /// leave the machine and are charged for that.
    fn in_parts(
        &self,
        count: impl Fn(&ProcessLayout) -> (u64, u64),
        far: u64,
        bytes: usize,
    ) -> Crossings {
        let mut crossings = Crossings::default();
        let mut counted = far;
        for level in &self.situation.levels {
            let crossing = self.situation.costs.crossing(level.width);
            let (of_part, of_machine) = count(&level.layout);
            let wire = times(of_part, bytes as u128 * u128::from(crossing.part_ps));
            crossings.wire = crossings.wire.max(wire);
            let more = of_machine.saturating_sub(counted);
            if more > 0 {
                counted = of_machine;
                let line = nanoseconds(crossing.line_ns);
                let end = line + bytes as u128 * u128::from(byte_ps(crossing)) / 2;
                crossings.work = crossings.work.saturating_add(times(more, end));
                crossings.way = crossings.way.max(line);
            }
        }
        crossings
    }

    /// Adds that `active` processes of one machine copy `bytes` bytes each.
    pub fn copy(&mut self, active: u64, bytes: usize) {
        self.work(active, bytes, self.situation.costs.copy_ps);
    }

    /// Adds that a root copies its own block of `bytes` bytes, after the messages of others have
    /// arrived. No line of it moves from core to core, so it takes at most half as long as a copy
    /// into a slot, and no longer than a copy among processes of one core.
    pub fn own_block(&mut self, bytes: usize) {
        let costs = &self.situation.costs;
        self.work(1, bytes, costs.own_slot_ps.min(costs.slot_ps / 2));
    }

    /// Adds that `active` processes of one machine copy `bytes` bytes each into slots of a board,
    /// or from them.
    pub fn slot(&mut self, active: u64, bytes: usize) {
        self.work(active, bytes, self.slot_ps());
    }

    /// Returns the cost of each byte of a slot, in picoseconds.
    fn slot_ps(&self) -> u64 {
        self.shared_ps(self.situation.costs.slot_ps)
    }

    /// Returns the cost of each byte of shared memory that costs `across` picoseconds between two
    /// cores. Where processes take turns on cores, some of those that use it are on one core, whose
    /// caches hold its lines.
    fn shared_ps(&self, across: u64) -> u64 {
        if !self.situation.oversubscribed {
            return across;
        }
        let own = self.situation.costs.own_slot_ps.min(across);
        let others = u64::from(self.situation.layout.largest()).saturating_sub(1).max(1);
        let near = (self.situation.load() - 1).min(others);
        (near * own + (others - near) * across) / others
    }

    /// Adds that `active` processes of one machine begin to read `slots` slots each.
    pub fn find_slots(&mut self, active: u64, slots: u64) {
        let begin = nanoseconds(self.situation.costs.slot_ns);
        self.add(times(slots.saturating_mul(active), begin) / self.cores_in_use(active));
    }

    /// Adds that each of `active` processes of one machine looks at the flags of `others` members,
    /// and uses what these show in small slots. The time of a flag includes as many as
    /// [`FLAGS_INCLUDED`].
    pub fn look(&mut self, active: u64, others: u64) {
        let each = nanoseconds(self.situation.costs.flag_ns) / FLAGS_AT_ONCE;
        let more = others.saturating_sub(FLAGS_INCLUDED);
        self.add(times(more.saturating_mul(active), each) / self.cores_in_use(active));
    }

    /// Adds that `active` processes of one machine copy `bytes` bytes each from others' memory, or
    /// into it, with so many calls.
    pub fn fetch(&mut self, active: u64, bytes: usize, calls: u64) {
        self.work(active, bytes, self.situation.costs.fetch_ps);
        let calls = times(calls.saturating_mul(active), nanoseconds(self.situation.costs.fetch_ns));
        self.add(calls / self.cores_in_use(active));
    }

    /// Adds the cost of members in different parts, when `readers` processes take `bytes` bytes
    /// each from the slots or buffers of others, or one takes all.
    pub fn take_across(&mut self, member: Member, readers: u64, bytes: usize, takers: Takers) {
        let mut counted = 0;
        let (mut work, mut wire) = (0_u128, 0_u128);
        for level in &self.situation.levels {
            let crossing = self.situation.costs.crossing(level.width);
            let (outside, others) = (level.layout.elsewhere(), (member.size - 1).max(1));
            let share = |count: u32| bytes as u128 * u128::from(count) / u128::from(others);
            let readers_of_part = match takers {
                Takers::Root => readers,
                Takers::All => readers.min(level.layout.largest().into()),
            };
            let through = times(readers_of_part, share(outside));
            wire = wire.max(through.saturating_mul(u128::from(crossing.part_ps)));
            let more = share(outside.saturating_sub(counted));
            work = work.saturating_add(times(readers, more * u128::from(byte_ps(crossing))));
            counted = counted.max(outside);
        }
        self.add((work / self.cores_in_use(readers)).max(wire));
    }

    /// Adds that all raise flags, and wait for the flags of others.
    pub fn flag(&mut self) {
        self.add(nanoseconds(self.situation.costs.flag_ns) + self.flags_across());
        self.turns(self.situation.load());
    }

    /// Adds that all raise flags, and only the root waits for them.
    pub fn flag_to_root(&mut self) {
        self.add(nanoseconds(self.situation.costs.flag_ns) + self.flags_across());
        self.turns(1);
    }

    /// Returns the additional cost of reading flags in other parts. Several lines arrive
    /// simultaneously.
    fn flags_across(&self) -> u128 {
        let mut counted = 0;
        let mut time = 0;
        for level in &self.situation.levels {
            let line = nanoseconds(self.situation.costs.crossing(level.width).line_ns);
            let more = level.layout.elsewhere().saturating_sub(counted);
            counted += more;
            time += times(more.into(), line) / FLAGS_AT_ONCE;
            if more > 0 {
                time = time.max(line);
            }
        }
        time
    }

    /// Adds that `active` processes of one machine combine two operands of `bytes` bytes each.
    /// Operands that a core's private caches do not hold take twice as long, and much longer ones
    /// three times.
    pub fn reduce(&mut self, active: u64, bytes: usize) {
        let times = match bytes {
            0..=CACHED_BYTES_MAX => 1,
            _ if bytes <= 4 * CACHED_BYTES_MAX => 2,
            _ => 3,
        };
        self.repeat(times, |one| one.work(active, bytes, one.situation.costs.reduce_ps));
    }

    /// Adds two steps of different processes, where one passes its output to the other in so many
    /// pieces.
    pub fn overlap(
        &mut self,
        pieces: u64,
        first: impl FnOnce(&mut Self),
        then: impl FnOnce(&mut Self),
    ) {
        let before = std::mem::take(&mut self.total);
        first(self);
        let one = std::mem::take(&mut self.total);
        then(self);
        let other = self.total;
        self.total = before.saturating_add(one.max(other));
        self.add(one.min(other) / u128::from(pieces.max(1)));
    }

    /// Adds a combination of operands that are read from slots meanwhile. Where the operands, the
    /// result and the slots exceed the private caches, the combination takes its time in addition.
    pub fn reduce_streaming(&mut self, active: u64, bytes: usize) {
        let (slot, combined) = (self.slot_ps(), self.situation.costs.reduce_ps);
        let is_cached = bytes <= 2 * CACHED_BYTES_MAX;
        self.work(active, bytes, if is_cached { slot.max(combined) } else { slot + combined });
    }

    fn work(&mut self, active: u64, bytes: usize, picoseconds: u64) {
        let each = bytes as u128 * u128::from(picoseconds);
        self.add(times(active, each) / self.cores_in_use(active));
    }

    /// Returns how many cores work when `active` processes of one machine do.
    fn cores_in_use(&self, active: u64) -> u128 {
        u128::from(u64::from(self.situation.cores).min(active).max(1))
    }

    /// Adds the wait for the reply to a message, if there is one.
    fn answer(&mut self, price: &Price) {
        if price.is_answered {
            self.turns(self.situation.load());
        }
    }

    /// Adds the waits for turns on cores, if processes share cores.
    fn turns(&mut self, turns: u64) {
        if self.situation.oversubscribed {
            self.add(nanoseconds(turns.saturating_mul(self.situation.costs.turn_ns)));
        }
    }

    fn add(&mut self, time: u128) {
        self.total = self.total.saturating_add(time);
    }

    /// Returns the price of a message inside a machine: through packets with two copies; or
    /// announced, and piped if both processes have a core, else fetched with one copy.
    fn near(&self, bytes: usize) -> Price {
        let costs = &self.situation.costs;
        let all = bytes as u128;
        let (packet, way) = (nanoseconds(costs.packet_ns), nanoseconds(costs.latency_ns));
        let copied = packet + all * u128::from(self.shared_ps(costs.copy_ps));
        let packets =
            Price { sender: copied, way, receiver: copied, is_answered: false, is_piped: false };
        let announced = if self.situation.oversubscribed {
            let fetched = nanoseconds(costs.fetch_ns) + all * u128::from(costs.fetch_ps);
            let receiver = packet + FETCHES_IN_TURNS * fetched;
            Price { sender: packet, way, receiver, is_answered: true, is_piped: false }
        } else {
            let end = packet + all * u128::from(costs.pipe_ps);
            let way = way + nanoseconds(costs.announced_ns);
            Price { sender: end, way, receiver: end, is_answered: true, is_piped: true }
        };
        if packets.alone() <= announced.alone() { packets } else { announced }
    }

    fn far(&self, bytes: usize) -> Price {
        let costs = &self.situation.costs;
        let copied = bytes as u128 * u128::from(costs.copy_ps);
        let end = nanoseconds(costs.far_packet_ns) + copied;
        let way = nanoseconds(costs.far_latency_ns);
        Price { sender: end, way, receiver: end, is_answered: false, is_piped: false }
    }

    /// Returns how long a message occupies the network interface of a machine.
    fn wire(&self, bytes: usize) -> u128 {
        bytes as u128 * u128::from(self.situation.costs.far_ps)
    }
}

impl Price {
    /// Returns how long such a message takes if it is the only one.
    fn alone(&self) -> u128 {
        let work = self.sender + self.receiver;
        self.way + if self.is_piped { work / 2 } else { work }
    }
}

/// Step sequences that several algorithms share.
impl TimeEstimate<'_> {
    /// Adds a sequence of steps several times.
    pub fn repeat(&mut self, count: u64, steps: impl FnOnce(&mut Self)) {
        let before = self.total;
        steps(self);
        let once = self.total - before;
        self.total = before.saturating_add(times(count, once));
    }

    /// Adds steps at the distances 1, 2, 4, … below the size.
    pub fn each_bit(&mut self, member: Member, mut steps: impl FnMut(&mut Self, u32)) {
        (0..rounds(member)).for_each(|bit| steps(self, 1 << bit));
    }

    /// Adds that each process exchanges a message with the process `distance` ranks away.
    pub fn exchange_at(&mut self, distance: u32, bytes: usize) {
        self.exchange(1, bytes, |layout| layout.leaving(distance).into());
    }

    /// Adds exchanges at the distances 1, 2, 4, …, of so many bytes each.
    pub fn doubling(&mut self, member: Member, bytes: impl Fn(u32) -> usize) {
        self.each_bit(member, |one, distance| one.exchange_at(distance, bytes(distance)));
    }

    /// Adds that each process sends `bytes` bytes to the next one, `steps` times.
    pub fn ring(&mut self, steps: u64, bytes: usize) {
        self.repeat(steps, |one| one.exchange_at(1, bytes));
    }

    /// Adds a round in which each process exchanges messages with `peers` of the others.
    pub fn all_to_all(&mut self, member: Member, peers: u64, bytes: usize) {
        if member.size > 1 {
            self.exchange(peers, bytes, |layout| {
                let pairs = u64::from(layout.largest()) * u64::from(layout.elsewhere());
                (pairs.saturating_mul(peers)).div_ceil(u64::from(member.size - 1))
            });
        }
    }

    /// Adds that each process gets the operands of its share from all others and combines them.
    pub fn reduce_shares(&mut self, member: Member, share: usize) {
        let others = u64::from(member.size - 1);
        self.all_to_all(member, others, share);
        let near = u64::from(member.situation.layout.largest());
        self.repeat(others, |one| one.reduce(near, share));
    }

    /// Adds that all data of each process, or one word, goes to the root of a tree. Partial results
    /// are combined if there are operands.
    pub fn up(
        &mut self,
        member: Member,
        shape: Branching,
        bytes: usize,
        operands: Option<Operands>,
    ) {
        self.along(member, shape, bytes, TreeDirection::TowardRoot);
        if operands.is_some() {
            match shape {
                Branching::Star => {
                    self.repeat(u64::from(member.size - 1), |one| one.reduce(1, bytes));
                }
                Branching::Groups => {
                    let (group, groups) = groups(member);
                    self.repeat(group - 1, |one| one.reduce(groups, bytes));
                    self.repeat(groups - 1, |one| one.reduce(1, bytes));
                }
                Branching::Binomial => self.each_bit(member, |one, distance| {
                    one.reduce(active(member, distance), bytes);
                }),
            }
        }
    }

    /// Adds that data goes from the root of a tree to all.
    pub fn down(&mut self, member: Member, shape: Branching, bytes: usize) {
        self.along(member, shape, bytes, TreeDirection::FromRoot);
    }

    fn along(&mut self, member: Member, shape: Branching, bytes: usize, direction: TreeDirection) {
        match shape {
            _ if member.size == 1 => {}
            Branching::Star => self.star(u64::from(member.size - 1), bytes, direction),
            Branching::Groups => {
                let (group, groups) = groups(member);
                let largest = u64::from(self.situation.layout.largest());
                let inside = largest - largest / group;
                self.level(inside, bytes, Some(1));
                self.star(groups - 1, bytes, direction);
            }
            Branching::Binomial => self.each_bit(member, |one, distance| {
                one.level(active(member, distance), bytes, Some(distance));
            }),
        }
    }

    /// Adds a binomial tree whose inner processes hold the blocks of their whole subtrees.
    pub fn growing_tree(&mut self, member: Member, block_bytes: usize) {
        self.each_bit(member, |one, distance| {
            let blocks = distance.min(member.size - distance) as usize;
            let bytes = block_bytes.saturating_mul(blocks);
            one.level(active(member, distance), bytes, Some(distance));
        });
    }
}

/// Returns how many of the distances 1, 2, 4, … are below the size.
pub(crate) fn rounds(member: Member) -> u32 {
    u32::BITS - (member.size - 1).leading_zeros()
}

/// Returns the size and the number of the groups of [`Branching::Groups`].
fn groups(member: Member) -> (u64, u64) {
    let group = group_size(member.size);
    (group.into(), member.size.div_ceil(group).into())
}

/// Returns how many messages start on the fullest machine, at the level of a binomial tree with
/// this distance.
fn active(member: Member, distance: u32) -> u64 {
    u64::from(member.situation.layout.largest().div_ceil(distance.saturating_mul(2)))
}

fn times(count: u64, picoseconds: u128) -> u128 {
    picoseconds.saturating_mul(u128::from(count))
}

fn nanoseconds(count: u64) -> u128 {
    u128::from(count) * 1000
}
