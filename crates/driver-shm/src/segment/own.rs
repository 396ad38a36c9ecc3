//! The segment of this process.

use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use queues::bell;
use queues::ring::Consumer;
use sys::mapping::create_memory_file;
use sys::membarrier;

use super::descriptors::DescriptorBell;
use super::{
    CellReport, LANE_BYTES, LANES, MAGIC, MappedSegment, SEGMENT_BYTES, SegmentHeader, words_of,
};
use crate::card::SegmentCard;
use crate::declared::Declared;
use crate::passing::{self, KeptDescriptors};
use crate::sizes::{LANE_LINES, LINES};
use crate::supply::Supply;

/// A lane that is polled.
pub(crate) struct OpenLane {
    pub sender: u32,
    pub number: usize,
    pub consumer: Consumer,
    /// Whether the sender is writing a message into a cell. What follows it in the lane waits.
    pub awaits_cell: bool,
}

/// The segment of this process.
pub(crate) struct OwnSegment {
    pub segment: Arc<MappedSegment>,
    pub card: SegmentCard,
    pub consumer: Consumer,
    /// The open lanes.
    pub lanes: Vec<OpenLane>,
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
        let card = SegmentCard::own(file.as_raw_fd(), nonce);
        let segment = Arc::new(MappedSegment::map(&file, &card)?);
        // SAFETY: the mapping is new and not shared with any other thread or process. It is longer
        // than the header and aligned to a page.
        unsafe { segment.in_front(0).cast::<SegmentHeader>().write(header) };
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
        if self.lanes.iter().any(|other| other.sender == sender) {
            return false;
        }
        // SAFETY:
        // - The lane's memory lies inside the mapping, is aligned and zero when it is claimed.
        // - The consumer is dropped with the segment (both belong to this value).
        // - No other consumer reads from it: no lane of this sender was open.
        let consumer = unsafe { Consumer::new(self.segment.lane_memory(number), LANE_LINES) };
        self.lanes.push(OpenLane { sender, number, consumer, awaits_cell: false });
        true
    }

    /// Closes the lane that a sender has claimed, if there is one, for the next sender. The sender
    /// sends nothing more.
    pub(crate) fn close_lane(&mut self, sender: u32) {
        self.lanes.retain(|other| other.sender != sender);
        for (number, claim) in self.segment.header().lanes.iter().enumerate() {
            if claim.load(Ordering::Acquire) == sender + 1 {
                // SAFETY:
                // - The lane's memory lies inside the mapping.
                // - The consumer was dropped above, and the sender, which has claimed the lane, has
                //   said that it writes nothing more, or has ended.
                unsafe { self.segment.lane_memory(number).write_bytes(0, LANE_BYTES) };
                let cell = self.segment.cell_words(number);
                cell.written.store(0, Ordering::Relaxed);
                cell.reports.iter().for_each(CellReport::clear);
                claim.store(0, Ordering::Release);
            }
        }
    }

    /// Frees what a process that has ended held of the ring.
    pub(crate) fn free_senders(&self, process: i32) {
        self.segment.senders().free(process, &self.consumer);
    }

    /// Whether lines of the ring are missing because their sender has ended.
    pub(crate) fn has_hole(&self) -> bool {
        self.segment.senders().has_hole(&self.consumer)
    }

    /// Skips lines of the ring whose sender has ended. Returns whether there were any.
    #[cold]
    pub(crate) fn skip_hole(&mut self) -> bool {
        self.segment.senders().skip_hole(&mut self.consumer)
    }

    /// Returns a doorbell that also rings when one of `others` becomes readable.
    pub(crate) fn doorbell_beside(&self, others: Vec<OwnedFd>) -> io::Result<DescriptorBell> {
        DescriptorBell::new(Arc::clone(&self.segment), self.reader.try_clone()?, others)
    }

    pub(crate) fn fence_required(&self) -> bool {
        self.segment.header().fence_required.load(Ordering::Relaxed) != 0
    }
}
