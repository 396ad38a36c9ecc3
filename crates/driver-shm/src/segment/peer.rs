//! The segment of a peer, as a sender uses it.

mod cells;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use base::{FragmentLengths, PeerTable, RegionToken};
use driver::{DriverError, MiddleWay, RegionAccess, RegionError, When};
use memory::{Buffer, ExportRecord, SharedBytesMut, StoreChoice, Stores};
use queues::lane::{self, REFERENCE_BYTES};
use queues::ring::{RingProducer, SenderSlot, UNPUBLISHED_MAX};
use sys::mapping::is_sealed_against_shrinking;

use super::{MAGIC, MappedSegment, PeerBell, PopulatedPieces, SEGMENT_BYTES, WakingPipe, words_of};
use crate::card::SegmentCard;
use crate::middle::{MiddleChoice, MiddleStatistics, SenderState};
use crate::regions::{RegionAccessGranted, RegionEntry};
use crate::sizes::{
    CELL_PACKET_BYTES_MIN, LANE_LINES, LANE_MESSAGE_BYTES_MAX, LINES, cell_lengths,
};
use crate::transfer::{CopyDirection, PeerRuns, RegionRange, copy, copy_distant, read_record};
use cells::Cells;

/// The segments of peers by gate; none where not connected.
pub(crate) type PeerSegments = PeerTable<Option<Box<PeerSegment>>, 32>;

/// The segment of a peer, as a sender uses it.
pub(crate) struct PeerSegment {
    pub bell: PeerBell,
    /// The number by which the peer names this process.
    pub sender: u32,
    ring: RingProducer,
    /// The index of the ring's producer in the owner's table of senders; none if it is full.
    place: Option<usize>,
    /// The slot of the ring's producer in the latter case.
    _unlisted: Option<Box<SenderSlot>>,
    /// How many packets went through the ring, counted until it is time to claim a lane.
    packets: u32,
    /// The length of the packet for which there was no room, until one is pushed.
    refused: Option<usize>,
    /// The own lane: in `claimed` until the owner has been notified of it, then in `lane`.
    claimed: Option<Box<lane::LaneProducer>>,
    lane: Option<lane::LaneProducer>,
    /// The segment of this process, in which the peer's cell lies.
    own: Arc<MappedSegment>,
    cells: Cells,
    /// The manner in which long packets are written to the peer.
    store_choice: StoreChoice,
    /// How messages of middle length go to the peer, and where in the lane the last one begins.
    pub middle: MiddleStatistics,
    middle_begin: u64,
    pub pid: i32,
    /// Whether the peer's memory can be read and written.
    pub reachable: bool,
    /// The pieces of the peer's pool that this process has mapped.
    pub populated: PopulatedPieces,
    /// The runs of the peer's region with several runs that was accessed last.
    pub runs: Option<Box<PeerRuns>>,
}

/// A sender claims a lane after this many packets to a peer.
const PACKETS_BEFORE_LANE: u32 = 16;

impl PeerSegment {
    /// Like [`driver::Driver::post_packet`], but does not ring the doorbell. `follows` is passed to
    /// [`lane::LaneProducer::push`].
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        length: usize,
        follows: impl FnOnce() -> bool,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> bool {
        let is_pushed = match &mut self.lane {
            Some(_) if length >= CELL_PACKET_BYTES_MIN && self.cells.is_held() => {
                return self.push_in_cell(length, follows, fill);
            }
            Some(lane) => lane.push(length, follows, fill),
            None => self.push_without_lane(length, fill),
        };
        self.refused = if is_pushed { None } else { Some(length) };
        is_pushed
    }

    /// Whether a packet may be pushed: there is room for as long a packet as was refused last, if
    /// one was refused since a packet was pushed. It would cost more to plan a packet that is then
    /// refused.
    #[inline]
    pub(crate) fn may_push(&self) -> bool {
        self.refused.is_none_or(|length| match &self.lane {
            Some(lane) => lane.takes(length),
            None => self.ring.takes(length),
        })
    }

    /// Like [`driver::InlineDriver::begin_fragments`], in the lane only if `in_lane`: if not, the
    /// program waits immediately after the send. Requires a lane, whose room no other sender can
    /// use up.
    #[inline]
    pub(crate) fn begin_fragments(
        &mut self,
        data: &Buffer,
        when: When,
        (usual, in_lane): (FragmentLengths, bool),
    ) -> Option<FragmentLengths> {
        debug_assert!(!self.cells.is_filling(), "each message is ended");
        self.look_for_report();
        if !data.is_addressable() {
            // It is announced, so that nothing waits for its copies: its times say nothing of
            // messages that the processor copies.
            return None;
        }
        let length = data.len();
        let sender = match when {
            When::Now => SenderState::Waits,
            When::Later if in_lane => SenderState::Computes,
            When::Later => SenderState::Exchanges,
        };
        let is_answer = self.cells.takes_answer(length, sender);
        let lane = self.lane.as_mut()?;
        let (packets, in_cell) = (usual.packets(length), cell_lengths(length));
        let is_long = length > LANE_MESSAGE_BYTES_MAX;
        let usable = MiddleWay::ALL.map(|way| match way {
            MiddleWay::InFragments => {
                in_lane && !is_long && lane.has_room(packets, usual.packet_bytes)
            }
            MiddleWay::ByReceiver => is_long || self.reachable && data.is_contiguous(),
            MiddleWay::InCell => self.cells.is_held() && lane.has_room(1, REFERENCE_BYTES),
        });
        self.middle_begin = lane.pushed();
        let is_alone = || lane.pushed() - lane.passed() <= UNPUBLISHED_MAX;
        match self.middle.begin(length, sender, (usable, is_answer), is_alone)? {
            MiddleWay::InFragments => Some(usual),
            MiddleWay::InCell => {
                self.begin_cell(in_cell.packets(length), self.middle.is_timing());
                Some(in_cell)
            }
            MiddleWay::ByReceiver => None,
        }
    }

    /// Whether this process chooses for both whether they use cells.
    #[cfg(test)]
    pub(crate) fn leads(&self) -> bool {
        self.cells.leads()
    }

    /// Like [`driver::InlineDriver::end_fragments`].
    #[inline]
    pub(crate) fn end_fragments(&mut self, when: When) {
        if self.cells.is_filling() {
            return self.end_cell();
        }
        if when == When::Later {
            return;
        }
        let Some(lane) = &mut self.lane else { return };
        let (begin, end) = (self.middle_begin, lane.pushed());
        self.middle.end_fragments(|| {
            let passed = lane.passed().checked_sub(begin).filter(|passed| *passed > 0)?;
            Some(passed as f64 / (end - begin).max(1) as f64)
        });
    }

    /// Like [`push`](Self::push), with the kind of stores that is faster for this length. The
    /// beginning of the packet may be timed.
    #[inline]
    pub(crate) fn push_long(
        &mut self,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>, Stores),
    ) -> bool {
        if self.cells.is_filling() {
            return self.push_to_cell(length, |out| fill(out, Stores::Regular));
        }
        if !self.store_choice.tries() {
            let stores = self.store_choice.stores();
            return self.push_part(length, |out| fill(out, stores));
        }
        let begin = Instant::now();
        let is_pushed = self.push_part(length, |out| fill(out, Stores::Regular));
        self.store_choice.note(length, begin.elapsed());
        is_pushed
    }

    /// Like [`push`](Self::push), for a packet that more packets follow.
    #[inline]
    fn push_part(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
        match &mut self.lane {
            Some(lane) => lane.push_part(length, fill),
            None => self.push_without_lane(length, fill),
        }
    }

    /// Prefetches what the next packets need, while there is nothing else to do.
    pub(crate) fn take_ahead(&mut self) {
        if let Some(lane) = &mut self.lane {
            lane.take_ahead();
        }
    }

    #[inline(never)]
    fn push_without_lane(&mut self, length: usize, fill: impl FnOnce(SharedBytesMut<'_>)) -> bool {
        match self.packets.cmp(&PACKETS_BEFORE_LANE) {
            std::cmp::Ordering::Less => self.packets += 1,
            std::cmp::Ordering::Equal => self.go_over_to_lane(),
            std::cmp::Ordering::Greater => {}
        }
        match &mut self.lane {
            Some(lane) => lane.push_part(length, fill),
            None => self.ring.push(length, fill),
        }
    }

    /// Claims a lane, if there is a free one. An empty packet in the ring notifies the owner that
    /// further packets come through the lane. If the ring has no room for it, the next call tries
    /// again.
    fn go_over_to_lane(&mut self) {
        if self.claimed.is_none() {
            self.claimed = self.bell.segment.claim_lane(self.sender).map(|number| {
                self.cells.claimed(number);
                // SAFETY:
                // - The lane's memory lies inside the mapping, which lives in the same value.
                // - No sender had it before, and this sender has it permanently.
                let lane = unsafe {
                    let memory = self.bell.segment.lane_memory(number);
                    lane::LaneProducer::new(memory, LANE_LINES, self.sender)
                };
                Box::new(lane)
            });
        }
        if self.claimed.is_none() {
            self.packets += 1;
        } else if self.ring.push(0, |_| {}) {
            self.lane = self.claimed.take().map(|claimed| *claimed);
        }
    }

    /// Opens the segment that `card` describes, for the sender `sender`. If requested, tests
    /// whether the peer's memory can be accessed.
    pub(crate) fn open(
        card: &SegmentCard,
        sender: u32,
        reach: bool,
        middle: &MiddleChoice,
        own: &Arc<MappedSegment>,
    ) -> Result<Self, DriverError> {
        let error = |message: String| DriverError { message };
        let (file, beside) = card.open()?;
        let path = card.path();
        let foreign = || error(format!("{path} is not the segment of a process of this job"));
        let length = file.metadata().map(|data| data.len()).unwrap_or(0);
        if length != SEGMENT_BYTES as u64 || !is_sealed_against_shrinking(&file) {
            return Err(foreign());
        }
        let segment = MappedSegment::map(&file, card)
            .map_err(|cause| error(format!("its shared segment cannot be mapped: {cause}")))?;
        let segment = Arc::new(segment);
        if let Some(pipe) = WakingPipe::passed(beside) {
            segment.pipe.get_or_init(|| Some(pipe));
        }
        let header = segment.header();
        let nonce = header.nonce.each_ref().map(|word| word.load(Ordering::Relaxed));
        let magic = header.magic.load(Ordering::Relaxed);
        if magic != MAGIC || nonce != words_of(&card.nonce) {
            return Err(foreign());
        }
        // Either the owner sees this when it arms its bell, or this process sees that the bell is
        // armed.
        header.visited.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let fence_required = header.fence_required.load(Ordering::Relaxed) != 0;
        let place = segment.senders().claim(own.owner.pid, || segment.ring_passed());
        let listed = place.map(|place| segment.senders().slot(place));
        let unlisted = listed.is_none().then(Box::<SenderSlot>::default);
        let slot = listed.or(unlisted.as_deref()).expect("there is one of the two");
        // The owner could not wait for a writer that is not in its table.
        let call = place.filter(|_| reach).and_then(|_| segment.probe());
        let middle = MiddleStatistics::new(middle.clone(), call.unwrap_or_default());
        // SAFETY:
        // - The ring's memory and the slot lie inside the mapping, which lives in the same value.
        //   If all slots are taken, the slot lies in a box of that value; the table says so.
        // - All processes use the same number of lines (the version of the card guarantees it).
        let ring =
            unsafe { RingProducer::new(segment.ring_memory(), LINES, sender, NonNull::from(slot)) };
        let cells = Cells::new(own.leads(&segment));
        let (packets, claimed, lane, store_choice, middle_begin) = Default::default();
        Ok(Self {
            bell: PeerBell { segment, fence_required },
            sender,
            ring,
            place,
            _unlisted: unlisted,
            packets,
            refused: None,
            claimed,
            lane,
            own: Arc::clone(own),
            cells,
            store_choice,
            middle,
            middle_begin,
            pid: card.pid,
            reachable: call.is_some(),
            populated: PopulatedPieces::default(),
            runs: None,
        })
    }
}

impl Drop for PeerSegment {
    fn drop(&mut self) {
        self.ring.slot().release();
    }
}

/// Copies between the regions of the peer and memory of this process.
impl PeerSegment {
    /// Reads or writes a range of a region of this peer.
    pub(crate) fn transfer(
        &mut self,
        way: CopyDirection,
        range: &RegionRange<'_>,
    ) -> Result<(), RegionError> {
        if !self.reachable {
            let why = "the kernel does not allow it (process_vm_readv)".to_owned();
            return Err(RegionError::Unreachable(why));
        }
        let copied = self.transfer_reachable(way, range);
        // Later transfers use other ways.
        self.reachable &= !matches!(copied, Err(RegionError::Unreachable(_)));
        copied
    }

    /// Returns by what memory of the peer is reached that processors do not address, if the region
    /// has `length` bytes of such memory.
    pub(crate) fn export_of(
        &self,
        region: RegionToken,
        length: usize,
    ) -> Option<(RegionAccessGranted, ExportRecord)> {
        let entry = self.bell.segment.find_region(region.place as u32 as usize)?;
        let found = entry.find(region, 0, length, RegionAccess::Read).ok()?;
        if !self.reachable || !found.is_distant() || found.address == 0 {
            return None;
        }
        let record = read_record(self.pid, found.address)?;
        entry.is_still(&found).ok()?;
        Some((found, record))
    }

    /// Whether processors do not address the memory of a region.
    pub(crate) fn is_distant(&self, region: RegionToken) -> bool {
        let entry = self.bell.segment.find_region(region.place as u32 as usize);
        let found = entry.map(|entry| entry.find(region, 0, 0, RegionAccess::Read));
        found.is_some_and(|found| found.is_ok_and(|found| found.is_distant()))
    }

    /// Tests again whether the peer's memory can be read: a process may forbid it at any time.
    pub(crate) fn try_memory(&mut self) -> bool {
        self.reachable = self.reachable && self.bell.segment.probe().is_some();
        self.reachable
    }

    fn transfer_reachable(
        &mut self,
        way: CopyDirection,
        range: &RegionRange<'_>,
    ) -> Result<(), RegionError> {
        assert!(range.at + range.length <= range.buffer.len(), "the range is inside the buffer");
        let Self { bell, runs, pid, place, .. } = self;
        let mut copied = |entry: &RegionEntry, found: &RegionAccessGranted| match found.is_distant()
        {
            true => copy_distant(way, *pid, entry, found, range),
            false if found.is_readable() => copy(way, *pid, entry, found, runs, range),
            false => Err(RegionError::NotReadable),
        };
        let slot = range.region.place as u32 as usize;
        let entry = bell.segment.find_region(slot).ok_or(RegionError::Unknown)?;
        match way {
            CopyDirection::Read => {
                let found =
                    entry.find(range.region, range.offset, range.length, RegionAccess::Read)?;
                let copied = copied(entry, &found);
                entry.is_still(&found)?;
                copied
            }
            CopyDirection::Write => {
                let Some(place) = *place else { return Err(RegionError::Unknown) };
                bell.segment.senders().begin_writing(place, slot);
                let access = RegionAccess::ReadAndWrite;
                let found = entry.find(range.region, range.offset, range.length, access);
                let copied = found.and_then(|found| copied(entry, &found));
                bell.segment.senders().end_writing(place);
                copied
            }
        }
    }
}
