//! The driver.

use crate::declared::WayOut;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use base::{FragmentLengths, Fragmentation, GateId, RailProfile, RegionToken};
use driver::{
    Copying, Directory, Doorbell, Driver, DriverError, Fetch, Fill, InlineDriver, PeerEnd,
    PeerReach, ProgramState, RegionAccess, RegionError, Regions, Rendezvous, Settings, Sink, When,
    read_card,
};
use memory::{Buffer, SharedBytes, SharedBytesMut, Stores};
use queues::lane::REFERENCE;
use queues::pipeline::finish_earlier_instructions;
use queues::ring::{Consumer, HEADER_BYTES, LINE_BYTES};
use sys::process;

use crate::card::{SegmentCard, name_node};
use crate::copying::CopyStatistics;
use crate::habit::SendingHabit;
use crate::incoming::AssistedCopy;
use crate::middle::MiddleChoice;
use crate::passing;
use crate::segment::PeerBell;
use crate::segment::own::{OpenLane, OwnSegment};
use crate::segment::peer::{PeerSegment, PeerSegments};
use crate::sizes::{EAGER_BYTES_MAX, FRAGMENTATION, PACKET_BYTES_MAX};
use crate::transfer::{CopyDirection, RegionRange};

mod fetching;
mod rendezvous;

/// The rail between the processes of one machine.
pub struct Shm {
    own: OwnSegment,
    /// The number of this process as a sender to the processes of its job.
    sender: u32,
    rails: [RailProfile; 1],
    /// Whether to fetch large data with a single copy where that works.
    single_copy: bool,
    /// How messages of middle length go to peers.
    middle: MiddleChoice,
    directory: Box<dyn Directory>,
    /// The connected peers.
    pub(crate) peers: PeerSegments,
    /// The last peer that was examined whether its process has ended.
    pub(crate) last_checked: Cell<u32>,
    /// Peers that were given up while their processes lived, with the ids of these.
    given_up: Vec<(GateId, i32)>,
    fetches: VecDeque<(Fetch, Copying)>,
    incoming: Vec<AssistedCopy>,
    choice: CopyStatistics,
    /// The announced message whose duration is measured, to be compared with that of others.
    timed: Option<(GateId, RegionToken)>,
    program: ProgramState,
    /// How many times the transfers with the senders' help were advanced.
    polls: u32,
    /// How many polls there were, modulo 2^16. Set by a check that demands another one.
    rounds: Cell<u16>,
    /// The gate of the last packet posted; none if the preparation for the next one has been done.
    posted_to: Option<GateId>,
    /// What was posted last, and so what the next poll does first.
    posted: Posted,
    habit: SendingHabit,
    /// Whether anything has arrived since.
    has_heard: bool,
}

/// What a process has posted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    /// A short packet, and nothing has arrived since.
    Short,
    /// A message for which the sender does not wait, and the process has not polled since.
    Later,
    Other,
}

/// Longer messages than this, in bytes, do not go in the lane if the program does not wait for the
/// send, and in cells only if it usually waits at once: the receiver copies them meanwhile.
const EAGER_LATER_BYTES_MAX: usize = 16 << 10;

/// The maximal number of packets delivered per poll from the ring and from each lane, so that all
/// get their turn.
const PACKETS_PER_POLL_MAX: usize = 64;

/// Lines of the ring that an ended sender has left are searched for once in so many polls, and
/// before the process sleeps. That takes a read of a cache line that senders modify.
const ROUNDS_PER_HOLE: u16 = 1 << 10;

/// The maximal length in bytes of a packet that fits in two cache lines. A process that has posted
/// such a packet and waits for a similar one in return polls a moment later: a poll too early takes
/// the cache line from the peer that is about to write it. Posting a longer packet has taken long
/// enough, and an early poll prepares the process for the next packet.
const SHORT_BYTES_MAX: usize = 2 * LINE_BYTES - HEADER_BYTES;

impl Shm {
    /// Creates the rail of the process `own`. The cards of peers are read from `directory` when
    /// they are connected.
    ///
    /// # Errors
    /// The segment cannot be created: memory is short, or memory files are forbidden.
    pub fn create(
        own: GateId,
        settings: &Settings,
        directory: Box<dyn Directory>,
    ) -> Result<Self, DriverError> {
        if let Some(node) = &settings.node {
            name_node(node);
        }
        let segment = OwnSegment::create().map_err(|cause| DriverError {
            message: format!("no shared segment can be created: {cause}"),
        })?;
        let profile = RailProfile {
            name: "shm".into(),
            packet_bytes_max: PACKET_BYTES_MAX,
            eager_bytes_max: EAGER_BYTES_MAX,
            fetch_segment_bytes_min: 0,
            latency_ns: 150,
            bandwidth_bytes_per_us: 10_000,
            packet_ns: 100,
            bulk: false,
            pushed_bytes: 0..0,
        };
        let (peers, given_up, fetches, incoming, program) = Default::default();
        Ok(Self {
            own: segment,
            sender: own.0,
            rails: [profile],
            single_copy: settings.single_copy,
            middle: MiddleChoice::new(settings),
            directory,
            peers,
            last_checked: Cell::new(0),
            given_up,
            fetches,
            incoming,
            choice: CopyStatistics::new(settings),
            timed: None,
            program,
            polls: 0,
            rounds: Cell::new(0),
            posted_to: None,
            posted: Posted::Other,
            habit: SendingHabit::default(),
            has_heard: false,
        })
    }
}

impl Driver for Shm {
    fn rails(&self) -> &[RailProfile] {
        &self.rails
    }

    fn card(&self) -> String {
        self.own.card.to_string()
    }

    fn reaches_other_jobs(&self) -> bool {
        true
    }

    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError> {
        let card: SegmentCard = read_card(&mut *self.directory, gate)?;
        card.check_access(&self.own.card)?;
        let sender = self.directory.between_jobs(gate).map_or(self.sender, |pair| pair.own_gate.0);
        let mut peer =
            PeerSegment::open(&card, sender, self.single_copy, &self.middle, &self.own.segment)?;
        peer.bell.fence_required |= self.own.fence_required();
        *self.peers.entry(gate.0, || None) = Some(Box::new(peer));
        Ok(PeerReach { rails: vec![0], fetches: true })
    }

    fn has_room(&self, gate: GateId, _rail: usize) -> bool {
        let peer = self.peers.get(gate.0).and_then(Option::as_deref);
        peer.is_none_or(PeerSegment::may_push)
    }

    fn post_packet(&mut self, gate: GateId, _rail: usize, length: usize, fill: Fill<'_>) -> bool {
        self.push(gate, length, fill)
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        self.poll_into(sink)
    }

    fn give_up(&mut self, gate: GateId, _rail: usize) {
        let Some(peer) = self.peers.get_mut(gate.0).and_then(Option::take) else { return };
        self.end_transfers(gate);
        if !self.given_up.contains(&(gate, peer.pid)) {
            self.given_up.push((gate, peer.pid));
        }
        self.release_ended();
    }

    fn forget(&mut self, gate: GateId, end: PeerEnd) {
        self.give_up(gate, 0);
        if end == PeerEnd::Closed {
            self.own.close_lane(gate.0);
            self.given_up.retain(|(of, _)| *of != gate);
        }
    }

    fn doorbell(&self, beside: Vec<OwnedFd>) -> Result<Option<Arc<dyn Doorbell>>, DriverError> {
        let bell = self.own.doorbell_beside(beside).map_err(|cause| DriverError {
            message: format!("no descriptor to sleep on can be created: {cause}"),
        })?;
        Ok(Some(Arc::new(bell)))
    }

    /// Not if an ended sender has left lines in the ring: the next poll skips them.
    fn may_sleep(&self) -> bool {
        let has_hole = self.own.has_hole();
        if has_hole {
            self.rounds.set(u16::MAX);
        }
        !has_hole && !self.has_copies_underway()
    }

    fn describe(&self, gate: GateId, rail: usize) -> String {
        let how = if self.reaches_memory_of(gate) { "+single-copy" } else { "" };
        format!("{}{how}", self.rails[rail].name)
    }

    fn ended_peer(&self) -> Option<GateId> {
        self.find_ended_peer()
    }

    fn has_ended(&self, gate: GateId) -> bool {
        let peer = self.peers.get(gate.0).and_then(Option::as_deref);
        peer.is_some_and(|peer| process::has_ended(peer.pid))
    }

    fn rendezvous(&mut self) -> Option<&mut dyn Rendezvous> {
        Some(self)
    }

    /// A sender that is copying rings the doorbell.
    fn awaits_senders(&self) -> bool {
        let is_at_work = |incoming: &AssistedCopy| match incoming {
            AssistedCopy::Jointly(joint) => joint.state.is_being_written(),
            AssistedCopy::Offered(offered) => {
                offered.state.needs_nothing(self.own.segment.offer(offered.flow))
            }
            AssistedCopy::Piped(_) | AssistedCopy::Imported(_) => false,
        };
        !self.incoming.iter().all(is_at_work)
    }

    /// A test at the connection has shown it.
    fn reaches_memory_of(&self, gate: GateId) -> bool {
        matches!(self.peers.get(gate.0), Some(Some(peer)) if peer.reachable)
    }
}

impl InlineDriver for Shm {
    /// # Panics
    /// If the gate is not connected.
    #[inline(always)]
    fn push(&mut self, gate: GateId, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
        let peer = self.peers[gate.0].as_mut().expect("the gate is connected");
        let (posted_to, has_heard) = (&self.posted_to, &self.has_heard);
        let follows = || *posted_to == Some(gate) && !has_heard;
        if !peer.push(length, follows, fill) {
            return false;
        }
        peer.bell.ring();
        (self.posted_to, self.has_heard) = (Some(gate), false);
        self.posted = if length <= SHORT_BYTES_MAX { Posted::Short } else { Posted::Other };
        true
    }

    fn fragmentation(&self) -> Option<Fragmentation> {
        Some(FRAGMENTATION)
    }

    #[inline]
    fn begin_fragments(
        &mut self,
        gate: GateId,
        data: &Buffer,
        when: When,
        usual: FragmentLengths,
    ) -> Option<FragmentLengths> {
        let in_lane = when == When::Now || data.len() <= EAGER_LATER_BYTES_MAX;
        if !in_lane && !self.habit.waits_at_once() {
            return None;
        }
        let peer = self.peers.get_mut(gate.0).and_then(Option::as_deref_mut);
        peer?.begin_fragments(data, when, (usual, in_lane))
    }

    #[inline]
    fn end_fragments(&mut self, gate: GateId, when: When) {
        let peer = self.peers.get_mut(gate.0).and_then(Option::as_deref_mut);
        peer.into_iter().for_each(|peer| peer.end_fragments(when));
        if when == When::Later {
            self.note_posted_later();
        }
    }

    /// # Panics
    /// If the gate is not connected.
    #[inline]
    fn push_long(
        &mut self,
        gate: GateId,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>, Stores),
    ) -> bool {
        let peer = self.peers[gate.0].as_mut().expect("the gate is connected");
        if !peer.push_long(length, fill) {
            return false;
        }
        peer.bell.ring();
        (self.posted_to, self.has_heard) = (Some(gate), false);
        true
    }

    #[inline]
    fn poll_into(&mut self, sink: &mut (impl Sink + ?Sized)) -> bool {
        match self.posted {
            Posted::Other => {}
            Posted::Short => finish_earlier_instructions(),
            Posted::Later => self.note_poll_after_later(),
        }
        let mut any = false;
        for lane in &mut self.own.lanes {
            if !lane.awaits_cell {
                any |= drain_lane(lane, &mut self.peers, sink);
            }
            if lane.awaits_cell {
                any |= drain_cell(lane, &mut self.peers, sink);
            }
        }
        let mut gone_over = Vec::new();
        any |= drain(&mut self.own.consumer, |sender, bytes| {
            match bytes.is_empty() {
                true => gone_over.push(sender),
                false => sink.packet(GateId(sender), 0, bytes),
            }
            ControlFlow::Continue(())
        });
        for sender in gone_over {
            self.open_lane(sender, sink);
        }
        any |= self.serve_into(sink);
        if !self.fetches.is_empty() {
            any |= self.run_fetch(sink);
        }
        if !self.incoming.is_empty() {
            any |= self.advance(sink);
        }
        if any {
            (self.has_heard, self.posted) = (true, Posted::Other);
            if self.choice.is_timing() {
                self.note_copied(sink);
            }
        } else if let Some(gate) = self.posted_to.take() {
            self.take_ahead(gate);
        }
        let round = self.rounds.get().wrapping_add(1);
        self.rounds.set(round);
        if round.is_multiple_of(ROUNDS_PER_HOLE) {
            any |= self.look_around(round);
        }
        any
    }
}

impl Shm {
    /// Prepares to pass descriptors to a peer that cannot open those of this process, even while
    /// neither process polls.
    ///
    /// # Errors
    /// The peer's card cannot be had.
    pub fn prepare_for(&mut self, gate: GateId) -> Result<(), DriverError> {
        let card: SegmentCard = read_card(&mut *self.directory, gate)?;
        if !card.access.is_open_to(&self.own.card.access) {
            passing::serve();
        }
        Ok(())
    }

    /// Whether a peer is on this machine, although perhaps no memory can be shared with it.
    pub fn is_on_machine(&mut self, gate: GateId) -> bool {
        let card: Result<SegmentCard, _> = read_card(&mut *self.directory, gate);
        card.is_ok_and(|card| card.host == self.own.card.host)
    }

    /// Tests whether regions of a connected peer can be read and written now.
    pub fn try_memory_of(&mut self, gate: GateId) -> bool {
        let peer = self.peers.get_mut(gate.0).and_then(Option::as_deref_mut);
        peer.is_some_and(PeerSegment::try_memory)
    }

    /// Whether copies go on that nothing reports the end of.
    fn has_copies_underway(&self) -> bool {
        self.own.supply.has_copies_underway()
            || self.incoming.iter().any(AssistedCopy::has_copies_underway)
    }

    /// A message has been posted for which its sender does not wait.
    pub(crate) fn note_posted_later(&mut self) {
        self.posted = Posted::Later;
        self.habit.note_posted(Instant::now());
    }

    /// The first poll after such a message.
    #[cold]
    fn note_poll_after_later(&mut self) {
        self.posted = Posted::Other;
        self.habit.note_poll(Instant::now(), self.program == ProgramState::Computes);
    }

    /// Prefetches what the next packets to a peer need, while nothing arrives.
    #[inline(never)]
    fn take_ahead(&mut self, gate: GateId) {
        if let Some(Some(peer)) = self.peers.get_mut(gate.0) {
            peer.take_ahead();
        }
    }

    /// What is done once in many polls, whether they find something or not. Returns whether there
    /// was anything to do.
    #[cold]
    fn look_around(&mut self, round: u16) -> bool {
        if round == 0 {
            passing::answer_requests();
            self.release_ended();
        }
        self.own.skip_hole()
    }

    /// Ends all transfers from and to a peer that was given up, and the regions that were declared
    /// for them. The next polls report the fetches as incomplete.
    fn end_transfers(&mut self, gate: GateId) {
        let mut regions = self.own.supply.give_up(gate);
        for incoming in self.incoming.extract_if(.., |incoming| incoming.gate() == gate) {
            let (into, fetch) = incoming.into_parts();
            regions.extend(into);
            self.fetches.extend(fetch);
        }
        for region in regions {
            let ended = self.revoke(region);
            debug_assert_eq!(ended, Ok(()), "it was declared for the transfer");
        }
        self.timed = self.timed.filter(|(to, _)| *to != gate);
    }

    /// Releases what peers held that were given up, as soon as their processes have ended. A lane
    /// has one sender: that of a peer that may still write stays open.
    fn release_ended(&mut self) {
        let Self { given_up, own, peers, .. } = self;
        for (gate, pid) in given_up.extract_if(.., |(_, pid)| process::has_ended(*pid)) {
            // The gate may have been connected to another process since.
            if !matches!(peers.get(gate.0), Some(Some(_))) {
                own.close_lane(gate.0);
            }
            own.free_senders(pid);
        }
    }

    /// Opens the lane of a sender, through which its packets come from now on.
    #[cold]
    fn open_lane(&mut self, sender: u32, sink: &mut (impl Sink + ?Sized)) {
        if !self.own.open_lane(sender) {
            let message = "because it goes over to a lane in shared memory that it has not".into();
            sink.lost(GateId(sender), 0, DriverError { message });
        }
    }

    /// Returns the doorbell of a peer; none if it is not connected.
    pub fn bell(&self, gate: GateId) -> Option<PeerBell> {
        self.peers.get(gate.0)?.as_deref().map(|peer| peer.bell.clone())
    }
}

impl Regions for Shm {
    fn declare(&mut self, buffer: &Buffer, access: RegionAccess) -> Option<RegionToken> {
        self.own.declared.declare(buffer, access, WayOut::Read)
    }

    fn revoke(&mut self, region: RegionToken) -> Result<(), RegionError> {
        self.own.supply.forget(region.place as u32 as usize);
        self.own.declared.revoke(region)
    }

    fn read_region(
        &mut self,
        peer: GateId,
        region: RegionToken,
        offset: usize,
        length: usize,
        into: &Buffer,
        at: usize,
    ) -> Result<(), RegionError> {
        self.transfer(
            peer,
            CopyDirection::Read,
            &RegionRange { region, offset, length, buffer: into, at },
        )
    }

    fn write_region(
        &mut self,
        peer: GateId,
        region: RegionToken,
        offset: usize,
        length: usize,
        from: &Buffer,
        at: usize,
    ) -> Result<(), RegionError> {
        self.transfer(
            peer,
            CopyDirection::Write,
            &RegionRange { region, offset, length, buffer: from, at },
        )
    }
}

impl Shm {
    fn transfer(
        &mut self,
        gate: GateId,
        way: CopyDirection,
        range: &RegionRange<'_>,
    ) -> Result<(), RegionError> {
        match self.peers.get_mut(gate.0) {
            Some(Some(peer)) => peer.transfer(way, range),
            _ => Err(RegionError::Unreachable("it is not connected".to_owned())),
        }
    }
}

/// Delivers the packets of a lane, up to a message that is in a cell.
#[inline]
fn drain_lane(
    lane: &mut OpenLane,
    peers: &mut PeerSegments,
    sink: &mut (impl Sink + ?Sized),
) -> bool {
    let gate = GateId(lane.sender);
    drain(&mut lane.consumer, |name, bytes| {
        if name != REFERENCE {
            sink.packet(gate, 0, bytes);
            return ControlFlow::Continue(());
        }
        // A peer that is not connected was given up: all others are connected after their first
        // packets, which came through the ring.
        if let Some(Some(peer)) = peers.get_mut(gate.0) {
            match peer.begin_taking(lane.number, bytes) {
                Ok(()) => lane.awaits_cell = true,
                Err(error) => sink.lost(gate, 0, error),
            }
        }
        ControlFlow::Break(())
    })
}

/// Delivers what its sender has written of a message that is in a cell.
#[inline(never)]
fn drain_cell(
    lane: &mut OpenLane,
    peers: &mut PeerSegments,
    sink: &mut (impl Sink + ?Sized),
) -> bool {
    let gate = GateId(lane.sender);
    let mut any = false;
    let taken = peers.get_mut(gate.0).and_then(Option::as_deref_mut).map(|peer| {
        peer.take_from_cell(|bytes| {
            sink.packet(gate, 0, bytes);
            any = true;
        })
    });
    match taken {
        Some(Ok(is_over)) => lane.awaits_cell = !is_over,
        Some(Err(error)) => {
            lane.awaits_cell = false;
            sink.lost(gate, 0, error);
        }
        None => lane.awaits_cell = false,
    }
    any
}

/// Delivers the packets of a ring or lane, up to the limit of a poll, or until `take` ends it.
/// Returns whether there were any.
#[inline]
fn drain(
    consumer: &mut Consumer,
    mut take: impl FnMut(u32, SharedBytes<'_>) -> ControlFlow<()>,
) -> bool {
    let (mut packets, mut flow) = (0, ControlFlow::Continue(()));
    while flow.is_continue()
        && packets < PACKETS_PER_POLL_MAX
        && consumer.pop(|name, bytes| flow = take(name, bytes))
    {
        packets += 1;
        if packets > 1 {
            consumer.expect_more();
        }
    }
    if packets == 0 {
        consumer.clear_passed();
    }
    packets > 0
}

#[cfg(test)]
mod tests;
