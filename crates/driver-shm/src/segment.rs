//! The shared segment of a process: header, table of regions, ring, lanes, offers, and pool.

use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use driver::{Doorbell, DriverError, MiddleWay, When};
use memory::{Buffer, Manner, SharedBytes, SharedBytesMut, Stores};
use queues::bell::{self, Wake};
use queues::exchange::PIECES;
use queues::lane;
use queues::offer::Offer;
use queues::ring::{self, Consumer, RingProducer, UNPUBLISHED_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::mapping::{Mapping, create_memory_file, is_sealed_against_shrinking};
use sys::{futex, membarrier};

use crate::calls::WantedSlots;
use crate::card::SegmentCard;
use crate::middle::{MiddleChoice, MiddleStatistics};
use crate::passing::{self, KeptDescriptors};
use crate::protocol::PIECE_BYTES;
use crate::regions::{Declared, REGIONS_MAX, RegionEntry};
use crate::sizes::{LANE_LINES, LINES};
use crate::supply::Supply;
use crate::transfer::{PeerRuns, probe};

/// The number of lanes, one for each peer that sends much. Each lane adds one read to each poll of
/// the owner.
pub(crate) const LANES: usize = 8;

/// How many receives can be offered to their senders at a time.
const OFFERS: usize = 16;

/// Returns the index of the offer that is used for messages of a flow.
pub(crate) fn offer_place(flow: u32) -> usize {
    flow as usize % OFFERS
}

const MAGIC: u64 = u64::from_le_bytes(*b"Combray\x04");
const REGIONS_OFFSET: usize = 4096;
const RING_OFFSET: usize = REGIONS_OFFSET + REGIONS_MAX * size_of::<RegionEntry>();
const LANES_OFFSET: usize = (RING_OFFSET + ring::memory_bytes(LINES)).next_multiple_of(4096);
/// Each lane begins on a page of its own, so that unused lanes take no memory.
const LANE_BYTES: usize = ring::memory_bytes(LANE_LINES).next_multiple_of(4096);
const CALLS_OFFSET: usize = LANES_OFFSET + LANES * LANE_BYTES;
const POOL_OFFSET: usize = (CALLS_OFFSET + size_of::<WantedSlots>()).next_multiple_of(4096);
const SEGMENT_BYTES: usize = POOL_OFFSET + PIECES * PIECE_BYTES;

/// The beginning of a segment. The fields before `visited` are stored before the card is published.
/// An owner that follows this protocol never changes them afterwards; a peer loads each of them
/// once.
#[repr(C)]
struct SegmentHeader {
    magic: AtomicU64,
    nonce: [AtomicU64; 2],
    /// The address in the owner's memory of a second copy of the nonce, by which peers test
    /// single-copy reads.
    probe_address: AtomicU64,
    /// 1 if the owner cannot make the processors of its peers pass a memory barrier (membarrier):
    /// then peers must execute a fence before they ring.
    fence_required: AtomicU32,
    /// The owner's descriptor of a pipe. A peer that writes to the pipe wakes an owner that sleeps
    /// on descriptors.
    pipe: AtomicI32,
    /// 1 as soon as a peer has opened the segment.
    visited: AtomicU32,
    _keep_apart: [u8; 84],
    bell: bell::Bell,
    _keep_lanes_apart: [u8; 56],
    /// The sender that owns each lane, as its number plus one; 0: the lane is free. Set once, by
    /// that sender.
    lanes: [AtomicU32; LANES],
    /// Places for the data of expected messages.
    offers: [Offer; OFFERS],
}

/// The owner sleeps on the bell's word.
const ON_WORD: u32 = 1;
/// The owner sleeps on its pipe and on other descriptors.
const ON_PIPE: u32 = 2;

const _: () = assert!(size_of::<SegmentHeader>() <= REGIONS_OFFSET);
const _: () = assert!(RING_OFFSET.is_multiple_of(4096));
const _: () = assert!(std::mem::offset_of!(SegmentHeader, bell) == 128);

/// Converts a nonce to words of the header.
fn words_of(nonce: &[u8; 16]) -> [u64; 2] {
    let (words, _) = nonce.as_chunks();
    [0, 1].map(|word: usize| u64::from_ne_bytes(words[word]))
}

/// The segment of this process.
pub(crate) struct OwnSegment {
    pub segment: Arc<MappedSegment>,
    pub card: SegmentCard,
    pub consumer: Consumer,
    /// The open lanes, with the number of the sender of each.
    pub lanes: Vec<(u32, Consumer)>,
    pub declared: Box<Declared>,
    pub supply: Box<Supply>,
    /// The pipe that wakes this process when it sleeps on descriptors.
    reader: PipeReader,
    /// The memory file and both ends of the pipe, kept open for peers.
    _passed: KeptDescriptors,
    _probe: Box<[u8; 16]>,
}

impl OwnSegment {
    /// Creates the segment of this process.
    pub(crate) fn create() -> io::Result<Self> {
        let file = create_memory_file(c"combray", SEGMENT_BYTES)?;
        let mapping = Mapping::new(&file, SEGMENT_BYTES)?;
        let mut nonce = [0; 16];
        sys::random::fill(&mut nonce)?;
        let probe = Box::new(nonce);
        let (reader, writer) = io::pipe()?;
        let fence_required = u32::from(membarrier::register().is_err());
        let header = SegmentHeader {
            magic: AtomicU64::new(MAGIC),
            nonce: words_of(&nonce).map(AtomicU64::new),
            probe_address: AtomicU64::new(probe.as_ptr().addr() as u64),
            fence_required: AtomicU32::new(fence_required),
            pipe: AtomicI32::new(writer.as_raw_fd()),
            visited: AtomicU32::new(0),
            _keep_apart: [0; 84],
            bell: bell::Bell::default(),
            _keep_lanes_apart: [0; 56],
            lanes: Default::default(),
            offers: Default::default(),
        };
        // SAFETY: the mapping is new and not shared with any other thread or process. It is longer
        // than the header and aligned to a page.
        unsafe { mapping.base().cast::<SegmentHeader>().write(header) };
        let descriptor = file.as_raw_fd();
        let card = SegmentCard::own(descriptor, nonce);
        let segment = Arc::new(MappedSegment::new(mapping, card.clone()));
        // A peer that holds the reading end, too, gets no SIGPIPE after this process has ended.
        let passed = vec![file.into(), writer.into(), reader.try_clone()?.into()];
        let passed = KeptDescriptors::new(nonce, passed);
        if card.access.user.is_empty() {
            passing::serve();
        }
        // SAFETY:
        // - The ring's memory lies inside the mapping, is aligned and zero.
        // - The consumer is dropped with the segment (both are fields of this value).
        // - No other consumer reads from the own segment.
        let consumer = unsafe { Consumer::new(segment.ring_memory(), LINES) };
        let supply = Box::new(Supply::new(Arc::clone(&segment)));
        let declared = Box::new(Declared::new(Arc::clone(&segment)));
        Ok(Self {
            segment,
            card,
            consumer,
            lanes: Vec::with_capacity(LANES),
            declared,
            supply,
            reader,
            _passed: passed,
            _probe: probe,
        })
    }

    /// Opens the lane of a sender, which is polled from now on. Returns false if the sender has no
    /// lane, or the lane is already open.
    #[cold]
    pub(crate) fn open_lane(&mut self, sender: u32) -> bool {
        let claims = &self.segment.header().lanes;
        let is_its = |claim: &AtomicU32| claim.load(Ordering::Acquire) == sender + 1;
        let Some(number) = claims.iter().position(is_its) else { return false };
        if self.lanes.iter().any(|(other, _)| *other == sender) {
            return false;
        }
        // SAFETY:
        // - The lane's memory lies inside the mapping, is aligned and zero when it is claimed.
        // - The consumer is dropped with the segment (both belong to this value).
        // - No other consumer reads from it: no lane of this sender was open.
        let consumer = unsafe { Consumer::new(self.segment.lane_memory(number), LANE_LINES) };
        self.lanes.push((sender, consumer));
        true
    }

    pub(crate) fn doorbell(&self) -> Arc<MappedSegment> {
        Arc::clone(&self.segment)
    }

    /// Returns a doorbell that also rings when one of `others` becomes readable.
    pub(crate) fn doorbell_beside(&self, others: Vec<OwnedFd>) -> io::Result<DescriptorBell> {
        let (segment, reader) = (Arc::clone(&self.segment), self.reader.try_clone()?);
        Ok(DescriptorBell { segment, reader, others, sleepers: Mutex::new(0) })
    }

    pub(crate) fn fence_required(&self) -> bool {
        self.segment.header().fence_required.load(Ordering::Relaxed) != 0
    }
}

/// A mapped segment, of this process or of a peer.
pub(crate) struct MappedSegment {
    mapping: Mapping,
    card: SegmentCard,
    /// The owner's pipe, opened when it is first needed; none if it cannot be opened.
    pipe: OnceLock<Option<WakingPipe>>,
}

/// The writing end of a pipe by which a sleeping process is woken.
struct WakingPipe {
    writer: File,
    /// The reading end, kept open if `writer` can only write, so that no SIGPIPE comes.
    _reader: Option<OwnedFd>,
}

impl WakingPipe {
    /// Uses the descriptors that a process passed with its segment.
    fn passed(descriptors: Vec<OwnedFd>) -> Option<Self> {
        let [writer, reader] = <[OwnedFd; 2]>::try_from(descriptors).ok()?;
        Some(Self { writer: writer.into(), _reader: Some(reader) })
    }
}

impl MappedSegment {
    fn new(mapping: Mapping, card: SegmentCard) -> Self {
        Self { mapping, card, pipe: OnceLock::new() }
    }

    fn header(&self) -> &SegmentHeader {
        // SAFETY: the mapping begins with a header, which consists of atomic words, and of bytes
        // between them that are never read.
        unsafe { self.mapping.base().cast().as_ref() }
    }

    /// Measures how long a call that reads the owner's memory takes; none if the system forbids it.
    pub(crate) fn probe(&self) -> Option<Duration> {
        let address = self.header().probe_address.load(Ordering::Relaxed);
        probe(self.card.pid, address, &self.card.nonce)
    }

    /// Returns an entry of the owner's table of regions.
    ///
    /// # Panics
    /// If `slot` is not in the table.
    pub(crate) fn region(&self, slot: usize) -> &RegionEntry {
        self.find_region(slot).expect("the slot is one of the table")
    }

    /// Returns an entry of the table for a slot that a peer named; none if `slot` is not in the
    /// table.
    pub(crate) fn find_region(&self, slot: usize) -> Option<&RegionEntry> {
        // SAFETY:
        // - The table lies inside the mapping, behind the header, and is aligned.
        // - Entries consist of atomic words, for which every pattern is valid.
        (slot < REGIONS_MAX).then(|| unsafe {
            self.mapping.base().add(REGIONS_OFFSET).cast::<RegionEntry>().add(slot).as_ref()
        })
    }

    /// Returns the entry in which the owner offers a place to messages of a flow; it may be empty.
    pub(crate) fn offer(&self, flow: u32) -> &Offer {
        &self.header().offers[offer_place(flow)]
    }

    /// Returns the queue in which peers request service for regions of the owner.
    #[inline]
    pub(crate) fn calls(&self) -> &WantedSlots {
        // SAFETY: the calls lie inside the mapping, are aligned, and consist of atomic words.
        unsafe { self.mapping.base().add(CALLS_OFFSET).cast().as_ref() }
    }

    /// Lets the owner write the first `length` bytes of a piece of its pool that no peer is
    /// reading.
    ///
    /// # Panics
    /// If there is no such piece, or it is shorter.
    #[inline]
    pub(crate) fn fill_piece(
        &self,
        place: usize,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) {
        let piece = self.piece(place, length);
        // SAFETY:
        // - The bytes lie inside the mapping, which lives as long as the borrow.
        // - Peers read a piece only between its publication as filled and their report that it is
        //   taken. The owner calls this before or after that time.
        fill(unsafe { SharedBytesMut::new(piece, length) });
    }

    /// Lends the first `length` bytes of a filled piece to `take`.
    ///
    /// # Panics
    /// If there is no such piece, or it is shorter.
    #[inline]
    pub(crate) fn with_piece(
        &self,
        place: usize,
        length: usize,
        take: impl FnOnce(SharedBytes<'_>),
    ) {
        let piece = self.piece(place, length);
        // SAFETY:
        // - The bytes lie inside the mapping, which lives as long as the borrow.
        // - The owner published the piece with release after writing it, and the caller saw that
        //   with acquire. The owner does not write the piece until a peer reports that it is taken.
        take(unsafe { SharedBytes::new(piece, length) });
    }

    /// Populates the pages of the pool before its first use.
    pub(crate) fn populate_pool(&self) {
        self.mapping.populate(POOL_OFFSET, PIECES * PIECE_BYTES);
    }

    #[inline]
    fn piece(&self, place: usize, length: usize) -> NonNull<u8> {
        assert!(place < PIECES && length <= PIECE_BYTES, "{length} bytes of piece {place}");
        // SAFETY: the pool lies inside the mapping, and the piece was just checked to be one of it.
        unsafe { self.mapping.base().add(POOL_OFFSET + place * PIECE_BYTES) }
    }

    fn ring_memory(&self) -> NonNull<u8> {
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.mapping.base().add(RING_OFFSET) }
    }

    fn lane_memory(&self, number: usize) -> NonNull<u8> {
        assert!(number < LANES);
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.mapping.base().add(LANES_OFFSET + number * LANE_BYTES) }
    }

    /// Claims a free lane for a sender, permanently. None if all lanes are claimed.
    fn claim_lane(&self, sender: u32) -> Option<usize> {
        let free = |claim: &AtomicU32| {
            claim.compare_exchange(0, sender + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.header().lanes.iter().position(free)
    }

    /// Wakes the owner if it may be asleep. Called after something was published for it.
    #[inline]
    pub(crate) fn ring_if_armed(&self) {
        if let Some(how) = self.header().bell.ring() {
            self.wake(how);
        }
    }

    #[cold]
    fn wake(&self, how: u32) {
        if how == ON_PIPE {
            // An owner that cannot be woken polls again after its timeout, or has ended.
            let _ = self.write_to_pipe();
        } else {
            // Waking fails only for an invalid word, and this word is valid.
            let _ = futex::wake(self.header().bell.word(), i32::MAX);
        }
    }

    pub(crate) fn write_to_pipe(&self) -> io::Result<usize> {
        let open = || {
            let pipe = self.header().pipe.load(Ordering::Relaxed);
            // The pipe is opened for reading, too, so that writing never raises SIGPIPE.
            match self.card.open_in_proc(pipe, |told| told.file_type().is_fifo()) {
                Ok(writer) => Some(WakingPipe { writer, _reader: None }),
                Err(_) => {
                    let mut passed = self.card.request().ok()?;
                    WakingPipe::passed(passed.split_off(1))
                }
            }
        };
        let Some(pipe) = self.pipe.get_or_init(open) else { return Ok(0) };
        // It cannot be full: one byte is written each time that the owner arms.
        (&pipe.writer).write(&[1])
    }

    fn arm(&self, how: u32) -> u32 {
        passing::look();
        let header = self.header();
        header.bell.arm(how, || {
            // Peers ring this process only after one of them has opened the segment; the process's
            // own threads wake each other in another way. Where the barrier is not available,
            // `fence_required` made the peers execute fences.
            if header.visited.load(Ordering::SeqCst) != 0 {
                _ = membarrier::global();
            }
        })
    }
}

impl Doorbell for MappedSegment {
    fn arm(&self) -> u32 {
        MappedSegment::arm(self, ON_WORD)
    }

    fn wait(&self, ticket: u32, timeout: Duration) {
        futex::wait(self.header().bell.word(), ticket, Some(timeout));
    }

    fn ring(&self) {
        self.ring_if_armed();
    }
}

/// A doorbell for a process that must also wake for other descriptors.
pub(crate) struct DescriptorBell {
    segment: Arc<MappedSegment>,
    reader: PipeReader,
    others: Vec<OwnedFd>,
    /// The number of threads that are asleep or about to sleep.
    sleepers: Mutex<u32>,
}

impl Doorbell for DescriptorBell {
    fn arm(&self) -> u32 {
        self.segment.arm(ON_PIPE)
    }

    fn wait(&self, ticket: u32, timeout: Duration) {
        let others = self.others.iter().map(|other| PollFd::new(other, PollFlags::IN));
        let own = PollFd::new(&self.reader, PollFlags::IN);
        let mut all: Vec<_> = std::iter::once(own).chain(others).collect();
        let timeout = Timespec::try_from(timeout).ok();
        // The thread that empties the pipe does so before this thread is counted. So if that thread
        // consumed the byte of a ring meant for this one, the bell's word shows the ring here.
        let is_still = {
            let mut sleepers = self.sleepers();
            *sleepers += 1;
            self.segment.header().bell.is_still(ticket)
        };
        if is_still {
            // Interrupted or not: the caller polls again.
            let _ = poll(&mut all, timeout.as_ref());
        }
        let mut sleepers = self.sleepers();
        *sleepers -= 1;
        // What wakes one sleeper must wake all: the last one empties the pipe.
        if *sleepers == 0 && all[0].revents().contains(PollFlags::IN) {
            // There may be several bytes, if peers rang again after the sleep ended.
            let _ = (&self.reader).read(&mut [0; 64]);
        }
    }

    fn ring(&self) {
        self.segment.ring_if_armed();
    }
}

impl DescriptorBell {
    fn sleepers(&self) -> MutexGuard<'_, u32> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The doorbell of a peer, rung by a process that has published something for the peer elsewhere
/// than in its ring.
#[derive(Clone)]
pub struct PeerBell {
    pub(crate) segment: Arc<MappedSegment>,
    pub(crate) fence_required: bool,
}

impl PeerBell {
    /// Wakes the peer if it may be asleep.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.fence_required {
            fence(Ordering::SeqCst);
        }
        self.segment.ring_if_armed();
    }
}

impl Wake for PeerBell {
    #[inline]
    fn wake(&self) {
        self.ring();
    }
}

impl fmt::Debug for PeerBell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bell(of process {})", self.segment.card.pid)
    }
}

/// The segment of a peer, as a sender uses it.
pub(crate) struct PeerSegment {
    pub bell: PeerBell,
    sender: u32,
    ring: RingProducer,
    /// How many packets went through the ring, counted until it is time to claim a lane.
    packets: u32,
    /// The own lane: in `claimed` until the owner has been notified of it, then in `lane`.
    claimed: Option<lane::LaneProducer>,
    lane: Option<lane::LaneProducer>,
    /// The manner in which long packets are written to the peer.
    manner: Manner,
    /// How messages of middle length go to the peer, and where in the lane the last one begins.
    pub middle: MiddleStatistics,
    middle_begin: u64,
    pub pid: i32,
    /// Whether the peer's memory can be read and written.
    pub reachable: bool,
    /// Whether the pages of the peer's pool have been populated.
    pub populated: bool,
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
        match &mut self.lane {
            Some(lane) => lane.push(length, follows, fill),
            None => self.push_without_lane(length, fill),
        }
    }

    /// Like [`driver::InlineDriver::begin_fragments`]. Requires a lane, whose room no other sender
    /// can use up.
    #[inline]
    pub(crate) fn begin_fragments(
        &mut self,
        data: &Buffer,
        when: When,
        packets: usize,
        packet_bytes: usize,
    ) -> bool {
        let Some(lane) = &mut self.lane else { return false };
        if !lane.has_room(packets, packet_bytes) {
            return false;
        }
        self.middle_begin = lane.pushed();
        let is_readable = self.reachable && data.is_contiguous();
        let is_alone = || lane.pushed() - lane.passed() <= UNPUBLISHED_MAX;
        self.middle.begin(data.len(), when, is_readable, is_alone) == MiddleWay::InFragments
    }

    /// Like [`driver::InlineDriver::end_fragments`].
    #[inline]
    pub(crate) fn end_fragments(&mut self) {
        let Some(lane) = &mut self.lane else { return };
        let (begin, end) = (self.middle_begin, lane.pushed());
        self.middle.end_fragments(|| {
            let passed = lane.passed().saturating_sub(begin);
            passed as f64 / (end - begin).max(1) as f64
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
        if !self.manner.tries() {
            let stores = self.manner.stores();
            return self.push_part(length, |out| fill(out, stores));
        }
        let begin = Instant::now();
        let is_pushed = self.push_part(length, |out| fill(out, Stores::Regular));
        self.manner.note(length, begin.elapsed());
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
                // SAFETY:
                // - The lane's memory lies inside the mapping, which lives in the same value.
                // - No sender had it before, and this sender has it permanently.
                unsafe {
                    let memory = self.bell.segment.lane_memory(number);
                    lane::LaneProducer::new(memory, LANE_LINES, self.sender)
                }
            });
        }
        if self.claimed.is_none() {
            self.packets += 1;
        } else if self.ring.push(0, |_| {}) {
            self.lane = self.claimed.take();
        }
    }

    /// Opens the segment that `card` describes, for the sender `sender`. If requested, tests
    /// whether the peer's memory can be accessed.
    pub(crate) fn open(
        card: &SegmentCard,
        sender: u32,
        reach: bool,
        middle: &MiddleChoice,
    ) -> Result<Self, DriverError> {
        let error = |message: String| DriverError { message };
        let (file, beside) = card.open()?;
        let path = card.path();
        let foreign = || error(format!("{path} is not the segment of a process of this job"));
        let length = file.metadata().map(|data| data.len()).unwrap_or(0);
        if length != SEGMENT_BYTES as u64 || !is_sealed_against_shrinking(&file) {
            return Err(foreign());
        }
        let mapping = Mapping::new(&file, SEGMENT_BYTES)
            .map_err(|cause| error(format!("its shared segment cannot be mapped: {cause}")))?;
        let segment = Arc::new(MappedSegment::new(mapping, card.clone()));
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
        let call = if reach { segment.probe() } else { None };
        let middle = MiddleStatistics::new(middle.clone(), call.unwrap_or_default());
        // SAFETY:
        // - The ring's memory lies inside the mapping, which lives in the same value.
        // - All processes use the same number of lines (the version of the card guarantees it).
        let ring = unsafe { RingProducer::new(segment.ring_memory(), LINES, sender) };
        let (packets, claimed, lane, manner, middle_begin) = Default::default();
        Ok(Self {
            bell: PeerBell { segment, fence_required },
            sender,
            ring,
            packets,
            claimed,
            lane,
            manner,
            middle,
            middle_begin,
            pid: card.pid,
            reachable: call.is_some(),
            populated: false,
            runs: None,
        })
    }
}
