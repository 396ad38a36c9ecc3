//! A process's shared segment: header and ring.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driver::{Doorbell, DriverError};
use queues::ring::{self, Consumer, Producer};
use sys::mapping::{Mapping, create_memory_file, is_sealed_against_shrinking};
use sys::{futex, membarrier};

use crate::card::{Card, host};

/// Lines of the ring.
pub(crate) const LINES: usize = 8192;

const MAGIC: u64 = u64::from_le_bytes(*b"Combray\x01");
const RING_OFFSET: usize = 4096;
const SEGMENT_BYTES: usize = (RING_OFFSET + ring::memory_bytes(LINES)).next_multiple_of(4096);

/// The beginning of a segment. Fields that are not atomic are written before the card is given
/// away, and never again.
#[repr(C)]
struct Header {
    magic: u64,
    nonce: [u8; 16],
    /// Where in its owner's memory the nonce stands once more, for the trial of fetching.
    probe_address: u64,
    /// 1 if the owner cannot make its peers' processors pass a barrier: they need a fence of their
    /// own before they look at `armed`.
    fence_required: u32,
    _keep_apart: [u8; 92],
    /// 1 while the owner may be asleep. Set by the owner, taken back by whoever rings.
    armed: AtomicU32,
    /// Counts the ringing; the owner sleeps on it.
    bell: AtomicU32,
}

const _: () = assert!(size_of::<Header>() <= RING_OFFSET);
const _: () = assert!(std::mem::offset_of!(Header, armed) == 128);

/// The own segment.
pub(crate) struct Own {
    segment: Arc<Segment>,
    pub card: Card,
    pub consumer: Consumer,
    /// The process that the segment belongs to keeps its file open, for peers to find it.
    _file: File,
    _probe: Box<[u8; 16]>,
}

impl Own {
    /// Creates the segment of this process.
    pub(crate) fn create() -> io::Result<Self> {
        let file = create_memory_file(c"combray", SEGMENT_BYTES)?;
        let mapping = Mapping::new(&file, SEGMENT_BYTES)?;
        let mut nonce = [0; 16];
        io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut nonce)?;
        let probe = Box::new(nonce);
        let fence_required = u32::from(membarrier::register().is_err());
        let header = Header {
            magic: MAGIC,
            nonce,
            probe_address: probe.as_ptr().addr() as u64,
            fence_required,
            _keep_apart: [0; 92],
            armed: AtomicU32::new(0),
            bell: AtomicU32::new(0),
        };
        // SAFETY: the mapping is new, nobody else knows it, and it is longer than the header and
        // aligned to a page.
        unsafe { mapping.base().cast::<Header>().write(header) };
        let descriptor = file.as_raw_fd();
        let card = Card { host: host(), pid: std::process::id() as i32, descriptor, nonce };
        let segment = Arc::new(Segment { mapping });
        // SAFETY:
        // - The ring's memory lies inside the mapping, is aligned and zero.
        // - The consumer is dropped with the segment (both are fields of this value).
        // - Nobody else consumes from the own segment.
        let consumer = unsafe { Consumer::new(segment.ring_memory(), LINES) };
        Ok(Self { segment, card, consumer, _file: file, _probe: probe })
    }

    pub(crate) fn doorbell(&self) -> Arc<Segment> {
        Arc::clone(&self.segment)
    }

    pub(crate) fn fence_required(&self) -> bool {
        self.segment.header().fence_required != 0
    }
}

/// A mapped segment, one's own or a peer's.
pub(crate) struct Segment {
    mapping: Mapping,
}

impl Segment {
    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with a header, written before anybody else could know the
        // segment; what changes later is atomic.
        unsafe { self.mapping.base().cast().as_ref() }
    }

    fn ring_memory(&self) -> NonNull<u8> {
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.mapping.base().add(RING_OFFSET) }
    }

    /// Wakes the owner if it may be asleep; called after something was published for it.
    #[inline]
    pub(crate) fn ring_if_armed(&self) {
        let header = self.header();
        if header.armed.load(Ordering::Relaxed) != 0 {
            self.ring_armed();
        }
    }

    #[cold]
    fn ring_armed(&self) {
        if self.header().armed.swap(0, Ordering::SeqCst) != 0 {
            self.header().bell.fetch_add(1, Ordering::SeqCst);
            // The word is valid; waking can only fail for a word that is not.
            let _ = futex::wake(&self.header().bell, i32::MAX);
        }
    }
}

impl Doorbell for Segment {
    fn arm(&self) -> u32 {
        let header = self.header();
        let ticket = header.bell.load(Ordering::SeqCst);
        header.armed.store(1, Ordering::SeqCst);
        // From here on, every peer either sees `armed` after it has published, or has published
        // before, so that the look that follows sees it. Where the barrier is not to be had,
        // `fence_required` made the peers fence.
        let _ = membarrier::global();
        ticket
    }

    fn wait(&self, ticket: u32, timeout: Duration) {
        futex::wait(&self.header().bell, ticket, Some(timeout));
    }

    fn ring(&self) {
        self.ring_if_armed();
    }
}

/// A peer's segment.
pub(crate) struct Peer {
    pub segment: Segment,
    pub producer: Producer,
    pub pid: i32,
    pub fence_required: bool,
    pub probe_address: u64,
    pub nonce: [u8; 16],
}

impl Peer {
    /// Opens the segment that `card` tells of, for the sender `sender`.
    pub(crate) fn open(card: &Card, sender: u32) -> Result<Self, DriverError> {
        let error = |message: String| DriverError { message };
        let file = card.open()?;
        let path = card.path();
        let foreign = || error(format!("{path} is not the segment of a process of this job"));
        let length = file.metadata().map(|data| data.len()).unwrap_or(0);
        if length != SEGMENT_BYTES as u64 || !is_sealed_against_shrinking(&file) {
            return Err(foreign());
        }
        let mapping = Mapping::new(&file, SEGMENT_BYTES)
            .map_err(|cause| error(format!("its shared segment cannot be mapped: {cause}")))?;
        let segment = Segment { mapping };
        let header = segment.header();
        if header.magic != MAGIC || header.nonce != card.nonce {
            return Err(foreign());
        }
        let (fence_required, probe_address) = (header.fence_required != 0, header.probe_address);
        // SAFETY:
        // - The ring's memory lies inside the mapping, which lives in the same value.
        // - All processes use the same number of lines (the version of the card says so).
        let producer = unsafe { Producer::new(segment.ring_memory(), LINES, sender) };
        let (pid, nonce) = (card.pid, card.nonce);
        Ok(Self { segment, producer, pid, fence_required, probe_address, nonce })
    }
}
