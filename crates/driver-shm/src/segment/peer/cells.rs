//! Cells: memory that two processes pass to each other, with a message in it each time.
//!
//! A process writes a message into the cell out of which it has read the last one. So it writes
//! lines that are in its own cache already: each line crosses once per message. The lines of a lane
//! cross twice, as the sender must take them back before it can write them again.
//!
//! There are two cells for each pair of processes, one behind each lane. At first the sender of the
//! lane holds its cell. Afterwards the receiver of the last message in a cell holds it, and no
//! other process accesses it. A process that holds none sends in its lane. So cells are used while
//! two processes answer each other, and rest otherwise.
//!
//! Why: docs/internals/decisions/0097-a-cell-goes-back-with-the-answer.md

use std::hint;
use std::mem;
use std::sync::atomic::Ordering;

use driver::DriverError;
use memory::{SharedBytes, SharedBytesMut};
use queues::lane::REFERENCE_BYTES;
use queues::ring::LINE_BYTES;

use super::PeerSegment;
use crate::middle::{SenderState, now_ns};
use crate::segment::{CellWords, MappedSegment};
use crate::sizes::CELL_PACKET_OFFSET;

/// The segment in which a cell lies, as one of its two users sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellPlace {
    /// In this process's segment, behind the lane of the peer.
    Own,
    /// In the peer's segment, behind the lane of this process.
    Peer,
}

/// A message in a cell, as the reference in the lane describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CellMessage {
    place: CellPlace,
    /// In how many packets it is.
    packets: u32,
    /// Whether the receiver reports when it reads the message.
    is_reported: bool,
    /// How many lines a message of one packet takes.
    lines: u32,
}

impl CellMessage {
    /// Returns the words of the reference.
    fn words(self) -> [u64; REFERENCE_BYTES / 8] {
        let Self { place, packets, is_reported, lines } = self;
        let flags = u64::from(place == CellPlace::Own) | u64::from(is_reported) << 1;
        [flags, u64::from(packets) | u64::from(lines) << 32]
    }

    /// Reads a reference of the peer; none if it has another length than a reference.
    fn received(reference: SharedBytes<'_>) -> Option<Self> {
        if reference.len() != REFERENCE_BYTES {
            return None;
        }
        let [flags, numbers] = [0, 8].map(|at| reference.u64_at(at));
        let place = if flags & 1 == 0 { CellPlace::Own } else { CellPlace::Peer };
        let [packets, lines] = [numbers as u32, (numbers >> 32) as u32];
        Some(Self { place, packets, is_reported: flags & 2 != 0, lines })
    }
}

/// Returns the place of the reports about messages of this process in a cell.
fn reports_of_sender(place: CellPlace) -> usize {
    usize::from(place == CellPlace::Peer)
}

/// Returns the place of the reports about messages of the peer.
fn reports_of_receiver(place: CellPlace) -> usize {
    usize::from(place == CellPlace::Own)
}

/// A message that is being written or read, packet by packet.
#[derive(Clone, Copy, Debug)]
struct CellTransfer {
    message: CellMessage,
    /// How many packets are done, and where the next one begins.
    done: u32,
    offset: usize,
    /// When the receiver has begun to read it, if it reports that.
    begun: u64,
}

impl CellTransfer {
    fn new(message: CellMessage) -> Self {
        Self { message, done: 0, offset: 0, begun: 0 }
    }

    /// Returns the state after a packet of `length` bytes.
    fn after(self, length: usize) -> Self {
        let offset = self.offset + (CELL_PACKET_OFFSET + length).next_multiple_of(LINE_BYTES);
        Self { done: self.done + 1, offset, ..self }
    }
}

/// The cells that a process shares with a peer.
#[derive(Debug, Default)]
pub(super) struct Cells {
    /// Those that this process holds; the last one was used last.
    held: Vec<CellPlace>,
    /// The number of this process's lane, and so of the cell behind it, in the peer's segment.
    own_lane: Option<usize>,
    /// The number of the peer's lane in the own segment.
    peer_lane: Option<usize>,
    outgoing: Option<CellTransfer>,
    incoming: Option<CellTransfer>,
    /// The cell of a message of this process about whose reading no report has come yet.
    reported: Option<CellPlace>,
    /// Whether this process chooses when both use cells. The other answers in them.
    leads: bool,
    /// The bytes in the cell of the last message received, and how many messages of this process
    /// may still answer it.
    unanswered: Option<(usize, u8)>,
    /// The bytes in the cell of the last message received, and how many such messages of about that
    /// length came without another one that was announced between them.
    received: (usize, u64),
}

/// So many messages of a process that exchanges messages with its peer answer one in a cell: the
/// first one has a cell, but its peer has none left. Then both have one again.
const ANSWERS: u8 = 2;

impl Cells {
    /// Creates those of a process that `leads` its peer, or follows it.
    pub(super) fn new(leads: bool) -> Self {
        Self { leads, ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn leads(&self) -> bool {
        self.leads
    }

    /// Whether a message of `length` bytes answers one of about that length that came in a cell,
    /// from a peer that chooses for both. Cells are fast only while both processes use them, as a
    /// cell must come back: what one of them finds by trials in which the other does not join says
    /// nothing.
    #[inline]
    pub(super) fn takes_answer(&mut self, length: usize, sender: SenderState) -> bool {
        let Some((received, left)) = self.unanswered.take() else { return false };
        if sender == SenderState::Exchanges && left > 1 {
            self.unanswered = Some((received, left - 1));
        }
        !self.leads && is_about(received, length)
    }

    /// Whether this process holds a cell.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether a message is being written into a cell.
    #[inline]
    pub(super) fn is_filling(&self) -> bool {
        self.outgoing.is_some()
    }

    /// This process has claimed a lane, and holds the cell behind it.
    pub(super) fn claimed(&mut self, own_lane: usize) {
        self.own_lane = Some(own_lane);
        self.held.push(CellPlace::Peer);
    }

    /// Returns the segment in which a cell lies, and the cell's number there.
    fn locate<'a>(
        &self,
        place: CellPlace,
        own: &'a MappedSegment,
        peer: &'a MappedSegment,
    ) -> Option<(&'a MappedSegment, usize)> {
        match place {
            CellPlace::Own => Some((own, self.peer_lane?)),
            CellPlace::Peer => Some((peer, self.own_lane?)),
        }
    }
}

/// Sending.
impl PeerSegment {
    /// Pushes a packet that is written into the cell held last. Requires a cell. `follows` is
    /// whether other packets were pushed just before, and the process has received nothing since.
    pub(super) fn push_in_cell(
        &mut self,
        length: usize,
        follows: impl FnOnce() -> bool,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> bool {
        let Some(lane) = &mut self.lane else { return false };
        if !lane.has_room(1, REFERENCE_BYTES) {
            return false;
        }
        self.begin_cell(1, false);
        let is_pushed = self.push_to_cell(length, fill);
        let Self { cells, own, bell, .. } = self;
        if let Some(transfer) = cells.outgoing.take()
            && is_pushed
            && !follows()
            && let Some((segment, number)) =
                cells.locate(transfer.message.place, own, &bell.segment)
        {
            segment.hand_over_in_cell(number, 0, length);
        }
        is_pushed
    }

    /// Begins a message of so many packets in the cell held last. If requested, the receiver
    /// reports when it has read the message.
    pub(super) fn begin_cell(&mut self, packets: usize, is_reported: bool) {
        let Cells { held, outgoing, .. } = &mut self.cells;
        let packets = packets as u32;
        let message = held.pop().map(|place| CellMessage { place, packets, is_reported, lines: 0 });
        *outgoing = message.map(CellTransfer::new);
    }

    /// Writes the next packet of the outgoing message into the cell. A message of several packets
    /// is pushed to the lane as a reference before the first, so that the receiver is ready when it
    /// is written; one of a single packet afterwards.
    pub(super) fn push_to_cell(
        &mut self,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) -> bool {
        let Self { cells, own, bell, lane: Some(lane), .. } = self else { return false };
        let Some(transfer) = cells.outgoing else { return false };
        let CellTransfer { message, offset, .. } = transfer;
        let place = cells.locate(message.place, own, &bell.segment);
        let Some((segment, number)) = place else { return false };
        let words = segment.cell_words(number);
        if message.packets > 1 && transfer.done == 0 {
            words.written.store(0, Ordering::Relaxed);
            if !lane.push_reference(message.words()) {
                return false;
            }
        }
        segment.fill_cell(number, offset, length, fill);
        let transfer = transfer.after(length);
        cells.outgoing = Some(transfer);
        if message.packets > 1 {
            words.written.store(transfer.done, Ordering::Release);
            return true;
        }
        let lines = (transfer.offset / LINE_BYTES) as u32;
        lane.push_reference(CellMessage { lines, ..message }.words())
    }

    /// Ends the outgoing message.
    pub(super) fn end_cell(&mut self) {
        let outgoing = self.cells.outgoing.take().filter(|_| self.middle.end_in_cell());
        if let Some(CellTransfer { message, .. }) = outgoing {
            self.cells.reported = Some(message.place);
        }
    }

    /// Looks for the report about the last message in a cell that is timed, before another one
    /// begins. So its sender need not wait for it.
    #[inline]
    pub(super) fn look_for_report(&mut self) {
        if let Some(place) = self.cells.reported {
            self.note_report(place);
        }
    }

    #[cold]
    fn note_report(&mut self, place: CellPlace) {
        let Self { cells, own, bell, middle, .. } = self;
        let Some((segment, number)) = cells.locate(place, own, &bell.segment) else { return };
        let report = &segment.cell_words(number).reports[reports_of_sender(place)];
        let ended = report.ended.load(Ordering::Acquire);
        if middle.note_report([report.begun.load(Ordering::Relaxed), ended]) {
            cells.reported = None;
        }
    }
}

/// Receiving.
impl PeerSegment {
    /// The peer has announced a message of `length` bytes. Returns how many of its last messages
    /// were about as long and came in cells.
    pub(crate) fn end_of_cells(&mut self, length: usize) -> u64 {
        let (received, messages) = mem::take(&mut self.cells.received);
        if is_about(received, length) { messages } else { 0 }
    }

    /// Begins to take a message that the peer writes into a cell, as a reference in its lane with
    /// this number describes.
    ///
    /// # Errors
    /// The reference is wrong: the peer does not follow the protocol.
    pub(crate) fn begin_taking(
        &mut self,
        lane: usize,
        reference: SharedBytes<'_>,
    ) -> Result<(), DriverError> {
        let cells = &mut self.cells;
        cells.peer_lane = Some(lane);
        let message = CellMessage::received(reference).filter(|message| message.packets > 0);
        let message = message.ok_or_else(|| wrong("described a message in a cell wrongly"))?;
        if cells.held.contains(&message.place) {
            return Err(wrong("sent in a cell that it did not hold"));
        }
        if message.packets == 1
            && let Some((segment, number)) =
                cells.locate(message.place, &self.own, &self.bell.segment)
        {
            segment.request_cell(number, message.lines as usize);
        }
        let begun = if message.is_reported { now_ns() } else { 0 };
        cells.incoming = Some(CellTransfer { begun, ..CellTransfer::new(message) });
        Ok(())
    }

    /// Passes to `take` the packets of the incoming message that have been written. Returns whether
    /// the message has ended.
    ///
    /// # Errors
    /// The peer does not follow the protocol.
    pub(crate) fn take_from_cell(
        &mut self,
        mut take: impl FnMut(SharedBytes<'_>),
    ) -> Result<bool, DriverError> {
        let Self { cells, own, bell, .. } = self;
        let Some(mut transfer) = cells.incoming else { return Ok(true) };
        let message = transfer.message;
        let place = cells.locate(message.place, own, &bell.segment);
        let (segment, number) =
            place.ok_or_else(|| wrong("sent in a cell that it never received"))?;
        let words = segment.cell_words(number);
        while transfer.done < message.packets && is_written(words, transfer) {
            let length = segment.read_cell(number, transfer.offset, &mut take);
            let length = length.ok_or_else(|| wrong("sent a packet that exceeds its cell"))?;
            transfer = transfer.after(length);
        }
        let is_over = transfer.done == message.packets;
        cells.incoming = (!is_over).then_some(transfer);
        if is_over {
            cells.held.push(message.place);
            cells.unanswered = Some((transfer.offset, ANSWERS));
            let (received, messages) = cells.received;
            let before = if is_about(received, transfer.offset) { messages } else { 0 };
            cells.received = (transfer.offset, before + 1);
            if message.is_reported {
                let report = &words.reports[reports_of_receiver(message.place)];
                report.begun.store(transfer.begun, Ordering::Relaxed);
                report.ended.store(now_ns(), Ordering::Release);
            }
        }
        Ok(is_over)
    }
}

/// Whether a message of `length` bytes is about as long as one of `other` bytes.
fn is_about(other: usize, length: usize) -> bool {
    other / 2 < length && length < 2 * other
}

/// Whether the next packet of a message has been written. Its sender copies it at this moment, so
/// this looks several times.
fn is_written(words: &CellWords, transfer: CellTransfer) -> bool {
    let is_there = || words.written.load(Ordering::Acquire) > transfer.done;
    let look_again = || {
        hint::spin_loop();
        is_there()
    };
    transfer.message.packets == 1 || is_there() || (1..LOOKS).any(|_| look_again())
}

/// So many looks take about as long as the copy of a packet.
const LOOKS: usize = 16;

fn wrong(what: &str) -> DriverError {
    DriverError { message: format!("because it {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::middle::MiddleChoice;
    use crate::segment::own::OwnSegment;
    use crate::sizes::CELL_BYTES;

    /// Returns the error with which a message is refused whose reference has these bytes.
    fn refused(reference: &[u8]) -> Option<String> {
        let own = OwnSegment::create().unwrap();
        let (card, choice) = (&own.card, MiddleChoice::default());
        let mut peer = PeerSegment::open(card, 1, false, &choice, &own.segment).unwrap();
        own.segment.fill_cell(0, 0, 8, |out| out.fill(1));
        let begun = peer.begin_taking(0, SharedBytes::from(reference));
        let taken = begun.and_then(|()| peer.take_from_cell(|_| {}));
        taken.err().map(|error| error.message)
    }

    #[test]
    fn references_that_no_sender_writes_are_refused() {
        let bytes = |words: [u64; 2]| words.map(u64::to_le_bytes).concat();
        let says = |reference: &[u8], what: &str| {
            let error = refused(reference).unwrap_or_default();
            assert!(error.contains(what), "{error:?}: {what}");
        };
        assert_eq!(refused(&bytes([0, 1])), None);
        says(&[1; 8], "wrongly");
        says(&bytes([0, 0]), "wrongly");
        // The peer has received no cell, so it can send in none of its own segment.
        says(&bytes([1, 1]), "never received");
    }

    #[test]
    fn packets_exceed_no_cell() {
        let own = OwnSegment::create().unwrap();
        let read = |number, offset| own.segment.read_cell(number, offset, |_| {});
        own.segment.fill_cell(7, 0, 100, |out| out.fill(1));
        assert_eq!(read(7, 0), Some(100));
        assert_eq!([read(8, 0), read(7, CELL_BYTES), read(7, usize::MAX)], [None; 3]);
        // A sender that breaks the protocol writes a longer length than there is room for.
        own.segment.fill_cell(7, CELL_BYTES - 128, 64, |out| out.fill(255));
        assert_eq!(read(7, CELL_BYTES - 128 + CELL_PACKET_OFFSET), None);
    }

    #[test]
    fn the_words_of_a_reference_mean_the_other_place_to_the_receiver() {
        for (place, other) in [(CellPlace::Own, CellPlace::Peer), (CellPlace::Peer, CellPlace::Own)]
        {
            let message = CellMessage { place, packets: 17, is_reported: true, lines: 3 };
            let bytes = message.words().map(u64::to_le_bytes).concat();
            let received = CellMessage::received(SharedBytes::from(&bytes));
            assert_eq!(received, Some(CellMessage { place: other, ..message }));
        }
    }
}
