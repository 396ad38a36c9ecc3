//! One established connection: frames out, frames in.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::Instant;

use base::GateId;
use driver::{Label, Part, PartPlace, Sink};
use links::Quiet;
use memory::Buffer;

use crate::frame::{self, FrameKind, HEAD_BYTES, PACKET_BYTES_MAX, PART_HEAD_BYTES};
use crate::stream::{ByteStream, RailStream};

#[cfg(test)]
mod tests;

/// A connection to `gate` over the own rail `rail`.
pub(crate) struct TcpConnection<S = RailStream> {
    pub stream: S,
    pub gate: GateId,
    pub rail: usize,
    /// Whether something was posted since the last poll: what the engine submits now stays in its
    /// outbox.
    pub posted: bool,
    /// Whether the peer's last message says that it will send no more.
    pub departed: bool,
    /// Whether something was posted since the peer's goodbye, or the peer has sent none.
    pub awaited: bool,
    /// Whether the poller watches for room to write.
    pub watched: bool,
    /// For how long no segment has arrived.
    pub quiet: Quiet,
    /// Why writing fails. Data that arrived before is still to be read.
    pub failed: Option<io::Error>,
    /// What is not written yet, in order.
    outgoing: VecDeque<OutgoingPackets>,
    /// Bytes that were read and are no complete frame, or belong to the part that is arriving.
    held: Vec<u8>,
    arriving: Option<Arriving>,
    /// Whether the last frame was a part, and another one may follow: bytes that are read before
    /// their destination is known must be copied.
    amid_parts: bool,
    written: u64,
    /// Since when the rail has never been idle, and how many bytes had been carried by then.
    busy_since: Option<(Instant, u64)>,
    /// Whether bytes of parts or large packets may not have reached the peer's machine.
    large_underway: Cell<bool>,
}

enum OutgoingPackets {
    Bytes { data: Vec<u8>, at: usize },
    Part(Box<OutgoingPart>),
}

struct OutgoingPart {
    head: Vec<u8>,
    part: Part,
    /// The number of bytes written, of head and data.
    done: usize,
}

struct Arriving {
    label: Label,
    place: PartPlace,
    length: usize,
    done: usize,
}

/// The result of reading a part.
#[derive(Clone, Copy, Debug, Default)]
struct PartRead {
    /// How many bytes of the part were read.
    bytes: usize,
    /// How many bytes behind the part were read, if it is complete.
    behind: Option<usize>,
}

/// The results of writing.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// The tokens of parts whose memory is not read any more.
    pub sent: Vec<u64>,
    /// The number of bytes carried, and in how many nanoseconds.
    pub carried: Option<(u64, u64)>,
}

/// The result of reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    Nothing,
    Something,
    /// The part that begins to arrive was arriving on another rail, which must be given up before
    /// reading goes on.
    Instead(usize),
}

/// The number of bytes read at once where packets are expected.
const READ_BYTES: usize = 128 << 10;
/// The number of bytes read at once where a part may follow, or behind a part.
const READ_BYTES_AMID_PARTS: usize = 4 << 10;
/// The size of the buffer to read into.
pub(crate) const INBOX_BYTES: usize = READ_BYTES + PACKET_BYTES_MAX + PART_HEAD_BYTES;
/// The number of bytes of a part that are written at once. During one system call, the kernel does
/// not process what arrives on the connection, such as acknowledgements. It fills all available
/// room, which is more than the caches hold. This is also the number of bytes of a part that are
/// read before other connections get their turn.
const PART_BYTES_AT_ONCE: usize = 512 << 10;
/// The maximal number of reads per call, so that all connections get their turn.
const READS_MAX: usize = 8;
/// The length in bytes of pieces into which data in short runs is gathered.
const PIECE_BYTES: usize = 64 << 10;
/// Packets of this length in bytes are in flight long enough to ask the kernel how much of them is
/// left.
const LARGE_PACKET_BYTES: usize = 4 << 10;
/// Fewer bytes than this show nothing about a rail's speed.
const MEASURED_BYTES_MIN: u64 = 64 << 10;

impl<S: ByteStream> TcpConnection<S> {
    pub(crate) fn new(stream: S, gate: GateId, rail: usize) -> Self {
        Self {
            stream,
            gate,
            rail,
            posted: false,
            departed: false,
            awaited: true,
            watched: false,
            quiet: Quiet::default(),
            failed: None,
            outgoing: VecDeque::new(),
            held: Vec::new(),
            arriving: None,
            amid_parts: false,
            written: 0,
            busy_since: None,
            large_underway: Cell::new(false),
        }
    }

    /// Whether a packet or part can be posted now.
    pub(crate) fn has_room(&self) -> bool {
        !self.posted && self.outgoing.is_empty() && self.failed.is_none()
    }

    /// Whether something is not written yet.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether the peer's machine has received all that was written before the last goodbye, or
    /// will never receive it.
    pub(crate) fn has_delivered(&self) -> bool {
        let is_written = self.outgoing.is_empty() && self.unacknowledged() <= HEAD_BYTES as u64;
        is_written || self.failed.is_some()
    }

    /// Records that nothing can be written any more.
    pub(crate) fn fail(&mut self, error: io::Error) {
        self.outgoing.clear();
        self.failed = Some(error);
    }

    /// Returns the number of bytes of parts and of large packets that were posted and have not
    /// reached the peer's machine, including short packets between them. Short packets alone arrive
    /// before it would be worth asking the kernel.
    pub(crate) fn backlog(&self) -> u64 {
        if !self.large_underway.get() {
            return 0;
        }
        let waiting: usize = self.outgoing.iter().map(OutgoingPackets::left).sum();
        let backlog = waiting as u64 + self.unacknowledged();
        self.large_underway.set(backlog > 0);
        backlog
    }

    fn unacknowledged(&self) -> u64 {
        self.stream.unacknowledged()
    }

    /// Returns the number of bytes that have reached the peer's machine.
    fn carried(&self) -> u64 {
        self.written.saturating_sub(self.unacknowledged())
    }

    /// Writes a frame as far as there is room, and keeps the rest.
    pub(crate) fn post(&mut self, frame: &[u8]) -> io::Result<()> {
        self.posted = true;
        if frame.len() >= LARGE_PACKET_BYTES {
            self.large_underway.set(true);
        }
        let written = if self.outgoing.is_empty() { write_some(&self.stream, frame)? } else { 0 };
        self.written += written as u64;
        if written < frame.len() {
            let data = frame[written..].to_vec();
            self.outgoing.push_back(OutgoingPackets::Bytes { data, at: 0 });
        }
        Ok(())
    }

    /// Begins to write a part.
    pub(crate) fn post_part(&mut self, part: Part, written: &mut Written) -> io::Result<()> {
        self.posted = true;
        self.large_underway.set(true);
        let head = frame::part_head(&part.label, part.length, address_of(&part));
        let unacknowledged = self.unacknowledged();
        // As long as the kernel still holds bytes, the rail has not been idle.
        if self.busy_since.is_none() || unacknowledged == 0 {
            self.busy_since = Some((Instant::now(), self.written.saturating_sub(unacknowledged)));
        }
        let part = OutgoingPart { head, part, done: 0 };
        self.outgoing.push_back(OutgoingPackets::Part(Box::new(part)));
        self.flush(written)
    }

    /// Writes what is left, as far as there is room.
    pub(crate) fn flush(&mut self, written: &mut Written) -> io::Result<()> {
        while let Some(first) = self.outgoing.front_mut() {
            let count = first.write(&self.stream)?;
            if count == 0 {
                return Ok(());
            }
            self.written += count as u64;
            if first.left() == 0
                && let Some(OutgoingPackets::Part(part)) = self.outgoing.pop_front()
            {
                written.sent.push(part.part.token);
                written.carried = self.measured().or(written.carried);
            }
        }
        Ok(())
    }

    /// Returns what was carried since the last measurement, if it is enough for another one: bytes,
    /// and nanoseconds in which the rail was never idle.
    fn measured(&mut self) -> Option<(u64, u64)> {
        let (since, before) = self.busy_since?;
        let carried = self.carried();
        let bytes = carried.saturating_sub(before);
        if bytes < MEASURED_BYTES_MIN {
            return None;
        }
        let now = Instant::now();
        self.busy_since = Some((now, carried));
        Some((bytes, now.duration_since(since).as_nanos() as u64))
    }

    /// Reads a bounded amount of what has arrived, and reports it to `sink`.
    ///
    /// # Errors
    /// The connection is broken, or closed, or the bytes are no frame.
    pub(crate) fn receive(
        &mut self,
        inbox: &mut [u8],
        sink: &mut dyn Sink,
    ) -> io::Result<ReadOutcome> {
        let (mut heard, mut bytes, mut reads) = (ReadOutcome::Nothing, 0, 0);
        // The poller does not report bytes that are not in the socket any more.
        while reads < READS_MAX || self.stream.holds_bytes() {
            reads += 1;
            if self.arriving.is_some() {
                if !self.held.is_empty() {
                    heard = ReadOutcome::Something;
                    if let Some(other) = self.take_held(sink)? {
                        return Ok(ReadOutcome::Instead(other));
                    }
                    continue;
                }
                let read = self.read_part(inbox, sink)?;
                if read.bytes == 0 {
                    break;
                }
                heard = ReadOutcome::Something;
                bytes += read.bytes;
                if let Some(behind) = read.behind {
                    if let Some(other) = self.take_frames(&inbox[..behind], sink)? {
                        return Ok(ReadOutcome::Instead(other));
                    }
                    if behind < READ_BYTES_AMID_PARTS && self.arriving.is_none() {
                        break;
                    }
                }
                if bytes >= PART_BYTES_AT_ONCE && !self.stream.holds_bytes() {
                    break;
                }
                continue;
            }
            let start = self.held.len();
            let room = if self.amid_parts { READ_BYTES_AMID_PARTS } else { READ_BYTES };
            let count = read_some(&self.stream, &mut inbox[start..start + room])?;
            if count == 0 {
                break;
            }
            heard = ReadOutcome::Something;
            inbox[..start].copy_from_slice(&self.held);
            self.held.clear();
            if let Some(other) = self.take_frames(&inbox[..start + count], sink)? {
                return Ok(ReadOutcome::Instead(other));
            }
            if count < room && self.arriving.is_none() {
                break;
            }
        }
        Ok(heard)
    }

    /// Processes the frames in `bytes` and keeps an incomplete one. Returns the rail that must be
    /// given up before the part that begins may be written, if any.
    fn take_frames(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> io::Result<Option<usize>> {
        let mut rest = bytes;
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let (kind, length) = frame::parse_head(head).ok_or_else(|| {
                io::Error::new(
                    ErrorKind::InvalidData,
                    "it sent data that is not a frame of this version",
                )
            })?;
            match kind {
                FrameKind::Goodbye => {
                    (self.departed, self.awaited) = (true, false);
                    rest = after;
                }
                FrameKind::Packet => {
                    let Some((packet, after)) = after.split_at_checked(length) else { break };
                    self.departed = false;
                    sink.packet(self.gate, self.rail, packet.into());
                    self.amid_parts = false;
                    rest = after;
                }
                FrameKind::Part { padding } => {
                    let Some((label, after)) = after.split_first_chunk() else { break };
                    let Some(after) = after.get(usize::from(padding)..) else { break };
                    self.departed = false;
                    let place = sink.part(self.gate, self.rail, label, length);
                    let instead_of = match &place {
                        PartPlace::At { instead_of, .. } => *instead_of,
                        PartPlace::Nowhere => None,
                    };
                    self.arriving = Some(Arriving { label: *label, place, length, done: 0 });
                    self.amid_parts = true;
                    if instead_of.is_some() {
                        self.held = after.to_vec();
                        return Ok(instead_of.map(|rail| usize::from(rail.0)));
                    }
                    rest = &after[self.fill(after, sink)..];
                    if self.arriving.is_some() {
                        return Ok(None);
                    }
                }
            }
        }
        self.held.extend_from_slice(rest);
        Ok(None)
    }

    /// Copies the first of `bytes` to where the arriving part belongs. Returns how many were
    /// copied.
    fn fill(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> usize {
        let Some(arriving) = &mut self.arriving else { return 0 };
        let count = bytes.len().min(arriving.length - arriving.done);
        if let PartPlace::At { buffer, offset, .. } = &arriving.place {
            buffer.write(offset + arriving.done, &bytes[..count]);
        }
        self.advance(count, sink);
        count
    }

    /// Processes the bytes that were held until the rail was given up on which the arriving part
    /// was: its bytes, and the frames behind it. This must be done now, as possibly no further data
    /// arrives that would trigger it.
    fn take_held(&mut self, sink: &mut dyn Sink) -> io::Result<Option<usize>> {
        let held = std::mem::take(&mut self.held);
        let count = self.fill(&held, sink);
        if self.arriving.is_some() { Ok(None) } else { self.take_frames(&held[count..], sink) }
    }

    /// Records that `count` more bytes of the arriving part are here.
    fn advance(&mut self, count: usize, sink: &mut dyn Sink) {
        let Some(arriving) = &mut self.arriving else { return };
        arriving.done += count;
        if arriving.done == arriving.length
            && let Some(whole) = self.arriving.take()
            && let PartPlace::At { .. } = whole.place
        {
            sink.part_arrived(self.gate, self.rail, &whole.label, whole.length);
        }
    }

    /// Reads the next bytes of the arriving part directly to where they belong. If that is all of
    /// it, the bytes behind it are read to `inbox` by the same system call.
    fn read_part(&mut self, inbox: &mut [u8], sink: &mut dyn Sink) -> io::Result<PartRead> {
        let Some(Arriving { place, length, done, .. }) = &self.arriving else {
            return Ok(PartRead::default());
        };
        let whole = length - done;
        let left = whole.min(PART_BYTES_AT_ONCE);
        let count = match place {
            PartPlace::At { buffer, offset, .. } if buffer.is_worth_lending() => {
                let read = |slices: &mut [io::IoSliceMut<'_>]| match slices {
                    [run] if run.len() == whole => {
                        let run = io::IoSliceMut::new(run);
                        let rest = io::IoSliceMut::new(&mut inbox[..READ_BYTES_AMID_PARTS]);
                        read_outcome(self.stream.read_vectored(&mut [run, rest]))
                    }
                    _ => read_outcome(self.stream.read_vectored(slices)),
                };
                buffer.lend_mut(offset + done, left, read)?
            }
            _ => {
                let room = left.min(PIECE_BYTES);
                let count = read_some(&self.stream, &mut inbox[..room])?;
                let bytes = self.fill(&inbox[..count], sink);
                return Ok(PartRead { bytes, behind: None });
            }
        };
        let bytes = count.min(left);
        self.advance(bytes, sink);
        Ok(PartRead { bytes, behind: (bytes == whole).then_some(count - bytes) })
    }
}

impl OutgoingPackets {
    fn left(&self) -> usize {
        match self {
            OutgoingPackets::Bytes { data, at } => data.len() - at,
            OutgoingPackets::Part(part) => part.head.len() + part.part.length - part.done,
        }
    }

    /// Writes as much as there is room for; 0: there is no room.
    fn write(&mut self, stream: &impl ByteStream) -> io::Result<usize> {
        match self {
            OutgoingPackets::Bytes { data, at } => {
                let count = write_some(stream, &data[*at..])?;
                *at += count;
                Ok(count)
            }
            OutgoingPackets::Part(outgoing) => outgoing.write(stream),
        }
    }
}

impl OutgoingPart {
    fn write(&mut self, stream: &impl ByteStream) -> io::Result<usize> {
        let head = &self.head[self.done.min(self.head.len())..];
        let done = self.done.saturating_sub(self.head.len());
        let (offset, left) = (self.part.offset + done, self.part.length - done);
        let left = left.min(PART_BYTES_AT_ONCE);
        let count = if self.part.buffer.is_worth_lending() {
            let write = |slices: &[io::IoSlice<'_>]| outcome(stream.write_vectored(slices));
            self.part.buffer.lend(head, offset, left, write)?
        } else {
            write_some(stream, &gathered(head, &self.part.buffer, offset, left))?
        };
        self.done += count;
        Ok(count)
    }
}

/// Returns the address of the first byte of a part.
fn address_of(part: &Part) -> usize {
    let mut address = 0;
    part.buffer.runs(part.offset, part.length, &mut |run, _| {
        address = run;
        false
    });
    address
}

/// Returns the head and the next bytes of data that lies in short runs.
fn gathered(head: &[u8], buffer: &Buffer, offset: usize, left: usize) -> Vec<u8> {
    let mut piece = vec![0; head.len() + left.min(PIECE_BYTES)];
    piece[..head.len()].copy_from_slice(head);
    buffer.read(offset, &mut piece[head.len()..]);
    piece
}

fn write_some(stream: &impl ByteStream, bytes: &[u8]) -> io::Result<usize> {
    outcome(stream.write(bytes))
}

fn read_some(stream: &impl ByteStream, into: &mut [u8]) -> io::Result<usize> {
    read_outcome(stream.read(into))
}

/// Converts the result of reading: 0 if there is nothing to read now; the end of a connection is an
/// error.
fn read_outcome(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        other => outcome(other),
    }
}

/// Converts a result to 0 if nothing can be done now.
fn outcome(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        other => other,
    }
}
