//! The shared segment of a process. Its front has the header with offers, the ring, the calls, and
//! the table of senders; its back has the lanes, the table of regions, the pool, and the cells.
//!
//! Each process maps the front and the back of each peer separately. All peers use the front, and
//! it is packed next to those of others, so that several share a page of page tables. Of the back,
//! few peers use anything, and what is not used costs addresses only.

mod descriptors;
pub(crate) mod own;
pub(crate) mod peer;
mod senders;

use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use driver::Doorbell;
use memory::{Buffer, CopyUnderway, PendingCopy, SharedBytes, SharedBytesMut};
use queues::bell::{self, Wake};
use queues::calls::Calls;
use queues::exchange::PIECES;
use queues::offer::Offer;
use queues::ring::{self, LINE_BYTES};
use sys::mapping::Mapping;
use sys::{futex, membarrier, process};

use crate::card::{SegmentCard, SegmentOwner};
use crate::passing;
use crate::protocol::PIECE_BYTES;
use crate::regions::{REGIONS_MAX, RegionEntry};
use crate::sizes::{
    CELL_BYTES, CELL_LINES_HANDED_OVER_MAX, CELL_LINES_REQUESTED_MAX, CELL_PACKET_OFFSET,
    LANE_LINES, LINES,
};
use crate::transfer::probe;
use senders::Senders;

/// The number of lanes, one for each peer that sends much. Each lane adds one read to each poll of
/// the owner.
pub(crate) const LANES: usize = 8;

/// How many receives can be offered to their senders at a time.
const OFFERS: usize = 16;

/// Returns the index of the offer that is used for messages of a flow.
pub(crate) fn offer_place(flow: u32) -> usize {
    flow as usize % OFFERS
}

const MAGIC: u64 = u64::from_le_bytes(*b"Combray\x08");
const RING_OFFSET: usize = 4096;
const CALLS_OFFSET: usize = (RING_OFFSET + ring::memory_bytes(LINES)).next_multiple_of(64);
const SENDERS_OFFSET: usize = CALLS_OFFSET + size_of::<Calls>();
/// The length of the front, on which the cost of a peer depends. The back is mapped from there on,
/// so a page of any kernel ends there: those for 64-bit ARM have pages of up to 64 KiB.
const FRONT_BYTES: usize = (SENDERS_OFFSET + size_of::<Senders>()).next_multiple_of(64 << 10);
const LANES_OFFSET: usize = FRONT_BYTES;
/// Each lane begins on a page of its own, so that unused lanes take no memory.
const LANE_BYTES: usize = ring::memory_bytes(LANE_LINES).next_multiple_of(4096);
const REGIONS_OFFSET: usize = LANES_OFFSET + LANES * LANE_BYTES;
const POOL_OFFSET: usize =
    (REGIONS_OFFSET + REGIONS_MAX * size_of::<RegionEntry>()).next_multiple_of(4096);
/// Behind each lane there is a cell. Unused cells take no memory.
const CELLS_OFFSET: usize = (POOL_OFFSET + PIECES * PIECE_BYTES).next_multiple_of(4096);
const CELL_STRIDE: usize = (size_of::<CellWords>() + CELL_BYTES).next_multiple_of(4096);
const SEGMENT_BYTES: usize = CELLS_OFFSET + LANES * CELL_STRIDE;

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
    /// The sender that owns each lane, as its number plus one; 0: the lane is free. Set by that
    /// sender; reset by the owner of the segment when it forgets the sender.
    lanes: [AtomicU32; LANES],
    /// Places for the data of expected messages.
    offers: [Offer; OFFERS],
}

/// The words at the beginning of a cell, by which its users synchronize.
#[repr(C)]
pub(crate) struct CellWords {
    /// How many packets of a message its sender has written.
    pub written: AtomicU32,
    _keep_apart: [u8; 124],
    /// The last reports about messages of the owner of the cell's segment, and of the other user.
    pub reports: [CellReport; 2],
}

/// When the receiver of a message in a cell has begun to read it, and when it had read all, in
/// nanoseconds of the clock that is common to all processes of the machine.
#[repr(C)]
pub(crate) struct CellReport {
    pub begun: AtomicU64,
    pub ended: AtomicU64,
    _keep_apart: [u8; 112],
}

impl CellReport {
    /// Forgets the last report.
    fn clear(&self) {
        self.begun.store(0, Ordering::Relaxed);
        self.ended.store(0, Ordering::Relaxed);
    }
}

/// Requests the cache line at an address, which this core is going to read. A hint, for any
/// address.
#[inline]
fn request(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction accesses no memory as far as the program sees, and never faults.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// The owner sleeps on the bell's word.
const ON_WORD: u32 = 1;
/// The owner sleeps on its pipe and on other descriptors.
const ON_PIPE: u32 = 2;
/// The program waits for descriptors, and threads of its process may sleep on the word. The
/// greatest value, so that a thread that goes to sleep afterwards does not replace it.
const FOR_PROGRAM: u32 = 3;

/// Eight fronts share a page of page tables.
const _: () = assert!(8 * FRONT_BYTES <= 2 << 20);
const _: () = assert!(size_of::<SegmentHeader>() <= RING_OFFSET);
const _: () = assert!(RING_OFFSET.is_multiple_of(4096));
const _: () = assert!(std::mem::offset_of!(SegmentHeader, bell) == 128);

/// Converts a nonce to words of the header.
fn words_of(nonce: &[u8; 16]) -> [u64; 2] {
    let (words, _) = nonce.as_chunks();
    [0, 1].map(|word: usize| u64::from_ne_bytes(words[word]))
}

/// A mapped segment, of this process or of a peer.
pub(crate) struct MappedSegment {
    /// Lets devices access the pool directly; dropped before the mapping.
    registered: OnceLock<Option<Box<dyn Any + Send + Sync>>>,
    front: Mapping,
    /// The bytes from [`FRONT_BYTES`] on.
    back: Mapping,
    owner: SegmentOwner,
    /// The owner's pipe, opened when it is first needed; none if it cannot be opened.
    pipe: OnceLock<Option<WakingPipe>>,
}

/// A copy between pieces of the pool and memory that the processor does not address. It waits for
/// its end before it releases the segment.
struct PoolCopy {
    copy: PendingCopy,
    _segment: Arc<MappedSegment>,
}

/// How many pieces of a pool have their pages in this process, from the first on. Pieces are used
/// in turn, so their pages are populated a few at a time: a process that moves one message through
/// the pool does not wait for the pages of all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PopulatedPieces(usize);

/// So many pieces are populated at a time: those of a message of 256 KiB.
const PIECES_POPULATED: usize = 16;

impl PopulatedPieces {
    /// Populates the pages of a piece, unless that was done before.
    #[inline]
    pub(crate) fn include(&mut self, piece: usize, segment: &MappedSegment) {
        if piece >= self.0 {
            self.populate(piece, segment);
        }
    }

    #[cold]
    fn populate(&mut self, piece: usize, segment: &MappedSegment) {
        let end = (piece + 1).next_multiple_of(PIECES_POPULATED).min(PIECES);
        segment.populate_pieces(self.0.min(end)..end);
        self.0 = end;
    }
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
        Some(Self::new(writer.into(), Some(reader)))
    }

    fn new(writer: File, reader: Option<OwnedFd>) -> Self {
        // An owner that does not empty its pipe holds up no peer. Pipes allow this always.
        let _ = rustix::io::ioctl_fionbio(&writer, true);
        Self { writer, _reader: reader }
    }
}

impl fmt::Debug for PoolCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.copy.fmt(f)
    }
}

impl CopyUnderway for PoolCopy {
    fn is_over(&mut self) -> bool {
        self.copy.is_over()
    }
}

impl MappedSegment {
    /// Maps the segment in `file`, which has [`SEGMENT_BYTES`].
    fn map(file: &File, card: &SegmentCard) -> io::Result<Self> {
        let front = Mapping::packed(file, FRONT_BYTES)?;
        let back = Mapping::of_range(file, FRONT_BYTES..SEGMENT_BYTES)?;
        let (registered, pipe) = (OnceLock::new(), OnceLock::new());
        Ok(Self { registered, front, back, owner: SegmentOwner::of(card), pipe })
    }

    /// Returns a pointer into the front.
    ///
    /// # Panics
    /// If the offset lies elsewhere.
    #[inline(always)]
    fn in_front(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < FRONT_BYTES);
        // SAFETY: the offset lies in the front, which is mapped.
        unsafe { self.front.base().add(offset) }
    }

    /// Returns a pointer into the back.
    ///
    /// # Panics
    /// If the offset lies elsewhere.
    #[inline(always)]
    fn in_back(&self, offset: usize) -> NonNull<u8> {
        assert!((FRONT_BYTES..SEGMENT_BYTES).contains(&offset));
        // SAFETY: the offset lies in the back, which is mapped.
        unsafe { self.back.base().add(offset - FRONT_BYTES) }
    }

    fn header(&self) -> &SegmentHeader {
        // SAFETY: the front begins with a header, which consists of atomic words, and of bytes
        // between them that are never read.
        unsafe { self.in_front(0).cast().as_ref() }
    }

    /// Whether the owner of this segment chooses for both, and not the owner of the other one.
    fn leads(&self, other: &Self) -> bool {
        self.owner.nonce < other.owner.nonce
    }

    /// Measures how long a call that reads the owner's memory takes; none if the system forbids it.
    pub(crate) fn probe(&self) -> Option<Duration> {
        let address = self.header().probe_address.load(Ordering::Relaxed);
        probe(self.owner.pid, address, &self.owner.nonce)
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
            self.in_back(REGIONS_OFFSET).cast::<RegionEntry>().add(slot).as_ref()
        })
    }

    /// Requests the lines of an entry of the table that a receiver of data sent ahead reads: they
    /// come one beside the other.
    #[inline]
    pub(crate) fn request_region(&self, slot: usize) {
        let Some(entry) = self.find_region(slot) else { return };
        let entry: *const u8 = std::ptr::from_ref(entry).cast();
        request(entry);
        request(entry.wrapping_add(size_of::<RegionEntry>() - LINE_BYTES));
    }

    /// Returns the entry in which the owner offers a place to messages of a flow; it may be empty.
    pub(crate) fn offer(&self, flow: u32) -> &Offer {
        &self.header().offers[offer_place(flow)]
    }

    /// Returns the queue in which peers request service for regions of the owner.
    #[inline]
    pub(crate) fn calls(&self) -> &Calls {
        // SAFETY: the calls lie inside the mapping, are aligned, and consist of atomic words.
        unsafe { self.in_front(CALLS_OFFSET).cast().as_ref() }
    }

    /// Returns the table of the senders to the owner's ring.
    pub(crate) fn senders(&self) -> &Senders {
        // SAFETY: the table lies inside the mapping, is aligned, and consists of atomic words.
        unsafe { self.in_front(SENDERS_OFFSET).cast().as_ref() }
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

    /// Lets the owner begin to write bytes of successive pieces of its pool, which no peer is
    /// reading, in memory that the processor does not address.
    ///
    /// # Panics
    /// If there are no such pieces, or they are shorter.
    pub(crate) fn begin_filling(
        self: &Arc<Self>,
        place: usize,
        data: &Buffer,
        offset: usize,
        length: usize,
    ) -> Option<PendingCopy> {
        let pieces = self.pieces(place, length);
        self.register_pool(data);
        // SAFETY:
        // - The bytes lie inside the mapping, which the copy keeps.
        // - As for `fill_piece`: the pieces are published as filled when the copy has ended.
        let copy = unsafe { data.begin_read(offset, SharedBytesMut::new(pieces, length)) }?;
        Some(Box::new(PoolCopy { copy, _segment: Arc::clone(self) }))
    }

    /// Begins to copy bytes of successive filled pieces to memory that the processor does not
    /// address.
    ///
    /// # Panics
    /// If there are no such pieces, or they are shorter.
    pub(crate) fn begin_taking(
        self: &Arc<Self>,
        place: usize,
        into: &Buffer,
        at: usize,
        length: usize,
    ) -> Option<PendingCopy> {
        let pieces = self.pieces(place, length);
        self.register_pool(into);
        // SAFETY:
        // - The bytes lie inside the mapping, which the copy keeps.
        // - As for `with_piece`: the pieces are reported as taken when the copy has ended.
        let copy = unsafe { into.begin_write(at, SharedBytes::new(pieces, length)) }?;
        Some(Box::new(PoolCopy { copy, _segment: Arc::clone(self) }))
    }

    /// Lets devices access the pool directly, from its first use by a device on.
    fn register_pool(&self, data: &Buffer) {
        self.registered.get_or_init(|| {
            let bytes = PIECES * PIECE_BYTES;
            // SAFETY: the pool lies inside the mapping, which ends after this value.
            unsafe { data.register_for(SharedBytesMut::new(self.piece(0, 0), bytes)) }
        });
    }

    /// Returns the beginning of successive pieces that have `length` bytes.
    fn pieces(&self, place: usize, length: usize) -> NonNull<u8> {
        assert!(length <= PIECES * PIECE_BYTES && place <= PIECES - length.div_ceil(PIECE_BYTES));
        self.piece(place, 0)
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

    /// Lets the process that holds a cell write a packet into it, at `offset`.
    ///
    /// # Panics
    /// If there is no such cell, or the packet exceeds it.
    #[inline]
    pub(crate) fn fill_cell(
        &self,
        number: usize,
        offset: usize,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) {
        let place = self.cell_bytes(number, offset, length).expect("the cell has room");
        // SAFETY:
        // - The bytes lie inside the mapping, which lives as long as the borrow.
        // - Processes access only cells that they hold, or packets that the holder has published.
        let packet = unsafe { SharedBytesMut::new(place, CELL_PACKET_OFFSET + length) };
        packet.put_u64(0, length as u64);
        fill(packet.part(CELL_PACKET_OFFSET, length));
    }

    /// Hands over the first lines of the packet at `offset` of a cell, which this process has
    /// written and published.
    #[inline]
    pub(crate) fn hand_over_in_cell(&self, number: usize, offset: usize, length: usize) {
        let Some(place) = self.cell_bytes(number, offset, length) else { return };
        let lines = (CELL_PACKET_OFFSET + length).div_ceil(LINE_BYTES);
        for line in 0..lines.min(CELL_LINES_HANDED_OVER_MAX) {
            memory::hand_over(place.as_ptr().wrapping_add(line * LINE_BYTES));
        }
    }

    /// Requests the first lines of a cell, in which the peer has written a packet of so many lines:
    /// they come while the packet is looked at.
    #[inline]
    pub(crate) fn request_cell(&self, number: usize, lines: usize) {
        let Some(place) = self.cell_bytes(number, 0, 0) else { return };
        for line in 0..lines.min(CELL_LINES_REQUESTED_MAX) {
            request(place.as_ptr().wrapping_add(line * LINE_BYTES));
        }
    }

    /// Lends the packet at `offset` of a cell to `take`. Returns its length; none if there is no
    /// such cell, or the packet exceeds it.
    #[inline]
    pub(crate) fn read_cell(
        &self,
        number: usize,
        offset: usize,
        take: impl FnOnce(SharedBytes<'_>),
    ) -> Option<usize> {
        let place = self.cell_bytes(number, offset, 0)?;
        // SAFETY:
        // - The bytes lie inside the mapping, which lives as long as the borrow.
        // - The writer published the packet with release after writing it, and the caller saw that
        //   with acquire. The writer does not write it again before it holds the cell again.
        let first = unsafe { SharedBytes::new(place, CELL_PACKET_OFFSET) };
        let length = usize::try_from(first.u64_at(0)).ok()?;
        let place = self.cell_bytes(number, offset, length)?;
        // SAFETY: as for the first bytes of the packet; this range was checked as well.
        let packet = unsafe { SharedBytes::new(place, CELL_PACKET_OFFSET + length) };
        take(packet.part(CELL_PACKET_OFFSET, length));
        Some(length)
    }

    /// Returns the words by which the users of a cell synchronize.
    ///
    /// # Panics
    /// If there is no such cell.
    #[inline]
    pub(crate) fn cell_words(&self, number: usize) -> &CellWords {
        assert!(number < LANES, "cell {number}");
        // SAFETY: the words lie inside the mapping, at the beginning of the cell, are aligned, and
        // are only accessed as atomics.
        unsafe { self.in_back(CELLS_OFFSET + number * CELL_STRIDE).cast().as_ref() }
    }

    #[inline]
    fn cell_bytes(&self, number: usize, offset: usize, length: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(CELL_PACKET_OFFSET)?.checked_add(length)?;
        // SAFETY: the cells lie inside the mapping, and the bytes were just checked to be some of
        // one of them.
        (number < LANES && end <= CELL_BYTES).then(|| unsafe {
            let cell = self.in_back(CELLS_OFFSET + number * CELL_STRIDE);
            cell.add(size_of::<CellWords>() + offset)
        })
    }

    /// Populates the pages of some pieces of the pool.
    fn populate_pieces(&self, pieces: Range<usize>) {
        let first = POOL_OFFSET - FRONT_BYTES + pieces.start * PIECE_BYTES;
        self.back.populate(first, pieces.len() * PIECE_BYTES);
    }

    #[inline]
    fn piece(&self, place: usize, length: usize) -> NonNull<u8> {
        assert!(place < PIECES && length <= PIECE_BYTES, "{length} bytes of piece {place}");
        self.in_back(POOL_OFFSET + place * PIECE_BYTES)
    }

    pub(crate) fn ring_memory(&self) -> NonNull<u8> {
        self.in_front(RING_OFFSET)
    }

    /// How many lines of the ring the owner has given back.
    fn ring_passed(&self) -> u64 {
        // SAFETY: the ring's memory lies inside the mapping.
        unsafe { ring::passed(self.ring_memory(), LINES) }
    }

    fn lane_memory(&self, number: usize) -> NonNull<u8> {
        assert!(number < LANES);
        self.in_back(LANES_OFFSET + number * LANE_BYTES)
    }

    /// Claims a free lane for a sender, until the owner forgets the sender. None if all lanes are
    /// claimed.
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
        if how != ON_WORD {
            // An owner that cannot be woken polls again after its timeout, or has ended.
            let _ = self.write_to_pipe();
        }
        if how != ON_PIPE {
            // Waking fails only for an invalid word, and this word is valid.
            let _ = futex::wake(self.header().bell.word(), i32::MAX);
        }
    }

    pub(crate) fn write_to_pipe(&self) -> io::Result<usize> {
        let open = || {
            let pipe = self.header().pipe.load(Ordering::Relaxed);
            // The pipe is opened for reading, too, so that writing never raises SIGPIPE.
            match self.owner.open_in_proc(pipe, |metadata| metadata.file_type().is_fifo()) {
                Ok(writer) => Some(WakingPipe::new(writer, None)),
                Err(_) => {
                    let mut passed = self.owner.request().ok()?;
                    WakingPipe::passed(passed.split_off(1))
                }
            }
        };
        let Some(pipe) = self.pipe.get_or_init(open) else { return Ok(0) };
        // If it is full, it is readable.
        (&pipe.writer).write(&[1])
    }

    fn arm(&self, how: u32) -> u32 {
        passing::answer_requests();
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

    /// A process without a thread for requests must look itself for peers that cannot open its
    /// descriptors.
    fn can_wait_beside(&self) -> bool {
        futex::can_wait_for_either() && (passing::has_thread() || process::is_traceable())
    }

    fn wait_beside(&self, ticket: u32, beside: (&AtomicU32, u32), timeout: Duration) {
        match futex::can_wait_for_either() {
            true => {
                futex::wait_for_either([(self.header().bell.word(), ticket), beside], timeout);
            }
            false => self.wait(ticket, timeout),
        }
    }

    fn ring(&self) {
        self.ring_if_armed();
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

    #[inline]
    fn wake_if(&self, is_meant: impl FnOnce() -> bool) {
        if self.fence_required {
            fence(Ordering::SeqCst);
        }
        if let Some(how) = self.segment.header().bell.ring_if(is_meant) {
            self.segment.wake(how);
        }
    }
}

impl fmt::Debug for PeerBell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bell(of process {})", self.segment.owner.pid)
    }
}
