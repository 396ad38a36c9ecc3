//! The records: representation, encoding, checked parsing.

use std::fmt;

use base::{ContextId, RegionToken};
use memory::{SharedBytes, SharedBytesMut};

use crate::layout::*;
use crate::{ALIGNED_HEADER_BYTES, MESSAGE_HEADER_BYTES, padded};

/// The flow to which a record belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowLabel {
    /// The number that the receiver has assigned to the flow.
    Agreed(u32),
    /// The receiver has not assigned a number yet: the full name of the flow.
    New {
        /// The message space.
        context: ContextId,
        /// The sender's rank in it.
        source: u32,
    },
}

/// The properties of a message that matching needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The flow.
    pub flow: FlowLabel,
    /// The tag.
    pub tag: i32,
    /// The message's number in its flow, counted from 0, modulo 2^32.
    pub sequence: u32,
}

/// In the place of a sender's request: the send is complete, and its data is in the announced
/// region.
pub const NO_REQUEST: u64 = u64::MAX;

/// One record of a packet. Requests are named by numbers that have a meaning only to the process
/// that made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A whole eager message.
    Message {
        /// The envelope.
        envelope: Envelope,
        /// The sender's request, if it waits until the message is matched.
        synchronous: Option<u64>,
        /// The data.
        payload: SharedBytes<'a>,
    },
    /// The beginning of an eager message; fragments with the rest follow in the next packets to
    /// that process.
    FirstFragment {
        /// The envelope.
        envelope: Envelope,
        /// The message's length in bytes.
        length: u64,
        /// The first data.
        payload: SharedBytes<'a>,
    },
    /// The next bytes of the message that began in an earlier packet.
    Fragment {
        /// The data.
        payload: SharedBytes<'a>,
    },
    /// A message whose data stays with the sender until the receiver fetches or grants it.
    Announce {
        /// The envelope.
        envelope: Envelope,
        /// The sender's request; [`NO_REQUEST`] if the data was sent ahead, and no reply is
        /// expected.
        request: u64,
        /// The message's length in bytes.
        length: u64,
        /// The region from which the receiver can fetch the data, if it can.
        region: Option<RegionToken>,
    },
    /// The receiver is ready for the data of an announced message.
    Grant {
        /// The sender's request.
        request: u64,
        /// The receiver's request, which the data records must name.
        receiver: u64,
        /// The number of requested bytes, from the first on.
        length: u64,
    },
    /// A part of a granted message.
    Data {
        /// The receiver's request.
        receiver: u64,
        /// The offset of the part in the message, in bytes.
        offset: u64,
        /// The data.
        payload: SharedBytes<'a>,
    },
    /// The receiver needs nothing more of a message: it was fetched, or, if synchronous, matched.
    Finished {
        /// The sender's request.
        request: u64,
    },
    /// The receiver has consumed eager data, so that the sender may send as much again.
    Credit {
        /// The number of bytes.
        bytes: u32,
    },
    /// The receiver assigns a number to a flow.
    Flow {
        /// The message space. The flow goes from the process that gets this record to the one that
        /// sends it.
        context: ContextId,
        /// The rank in the space of the process that sends this record.
        rank: u32,
        /// The number.
        number: u32,
    },
    /// The sender requests to withdraw a message.
    Cancel {
        /// The sender's request.
        request: u64,
    },
    /// The reply to `Cancel`.
    CancelReply {
        /// The sender's request.
        request: u64,
        /// Whether the message was withdrawn; otherwise it had been matched.
        withdrawn: bool,
    },
    /// The number of the packet that it opens, counted per direction between two processes that
    /// several rails connect, modulo 2^32.
    Number {
        /// The number.
        number: u32,
        /// The acknowledgement: everything that the other process sent with lower numbers has
        /// arrived.
        received: u32,
    },
    /// All packets and parts with lower numbers have arrived.
    Received {
        /// The first number that has not arrived.
        below: u32,
    },
    /// The last record between two processes of different jobs: the sender of this record sends
    /// no more messages, only replies that the other process waits for before it sends this
    /// record. It forgets the connection when the other process has sent this record, too.
    Close,
}

/// Writes the header of a message with an agreed flow to `out`, which the payload follows. The
/// length of `out` is [`MESSAGE_HEADER_BYTES`] or [`ALIGNED_HEADER_BYTES`].
#[inline]
pub fn message_header(out: SharedBytesMut<'_>, flow: u32, tag: i32, sequence: u32, payload: usize) {
    let flags = if out.len() == ALIGNED_HEADER_BYTES { FLAG_ALIGNED } else { 0 };
    put_header(out, KIND_MESSAGE, flags, payload, [flow, tag as u32, sequence]);
}

/// A message with an agreed flow whose send is complete: the most frequent record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneMessage<'a> {
    /// The number of the flow.
    pub flow: u32,
    /// The tag.
    pub tag: i32,
    /// The message's number in its flow.
    pub sequence: u32,
    /// The data.
    pub payload: SharedBytes<'a>,
}

impl<'a> LoneMessage<'a> {
    /// Parses a packet that consists of a [`message_header`] and a payload; `None` for any other.
    #[inline]
    pub fn parse(packet: impl Into<SharedBytes<'a>>) -> Option<Self> {
        let packet = packet.into();
        let header = RecordHeader::read(packet)?;
        let payload = header.payload_len();
        if header.kind_and_flags() != (KIND_MESSAGE, 0)
            || padded(MESSAGE_HEADER_BYTES, payload) != packet.len()
        {
            return Self::parse_aligned(packet, header);
        }
        let [flow, tag, sequence] = header.words();
        let payload = packet.part(MESSAGE_HEADER_BYTES, payload);
        Some(Self { flow, tag: tag as i32, sequence, payload })
    }

    #[inline(never)]
    fn parse_aligned(packet: SharedBytes<'a>, header: RecordHeader) -> Option<Self> {
        let payload = header.payload_len();
        if header.kind_and_flags() != (KIND_MESSAGE, FLAG_ALIGNED)
            || padded(ALIGNED_HEADER_BYTES, payload) != packet.len()
        {
            return None;
        }
        let [flow, tag, sequence] = header.words();
        let payload = packet.part(ALIGNED_HEADER_BYTES, payload);
        Some(Self { flow, tag: tag as i32, sequence, payload })
    }
}

impl Record<'_> {
    /// Returns the length of the header, before the payload, in bytes.
    pub fn header_len(&self) -> usize {
        let flow_bytes = |envelope: &Envelope| match envelope.flow {
            FlowLabel::Agreed(_) => 0,
            FlowLabel::New { .. } => NEW_FLOW_BYTES,
        };
        MESSAGE_HEADER_BYTES
            + match self {
                Record::Message { envelope, synchronous, .. } => {
                    flow_bytes(envelope) + synchronous.map_or(0, |_| SYNCHRONOUS_BYTES)
                }
                Record::FirstFragment { envelope, .. } => {
                    flow_bytes(envelope) + ALIGNED_HEADER_BYTES - MESSAGE_HEADER_BYTES
                }
                Record::Fragment { .. } => ALIGNED_HEADER_BYTES - MESSAGE_HEADER_BYTES,
                Record::Announce { envelope, .. } => flow_bytes(envelope) + ANNOUNCE_BYTES,
                Record::Grant { .. } => 16,
                Record::Data { .. } | Record::Flow { .. } => 8,
                _ => 0,
            }
    }

    /// Returns the length of the record in a packet, in bytes.
    pub fn buffer_len(&self) -> usize {
        padded(self.header_len(), self.payload().len())
    }

    /// Writes the record to the beginning of `out`. Returns its length in bytes.
    ///
    /// # Panics
    /// If `out` is shorter than [`Record::buffer_len`] or the payload longer than
    /// [`crate::PAYLOAD_BYTES_MAX`].
    pub fn emit<'a>(&self, out: impl Into<SharedBytesMut<'a>>) -> usize {
        let (out, payload) = (out.into(), self.payload());
        let header = self.emit_header(out, payload.len());
        out.part(header, payload.len()).copy_from(payload);
        self.buffer_len()
    }

    /// Writes everything except the payload, whose length is `payload` bytes. Returns the offset of
    /// the payload, which the caller fills in place.
    pub fn emit_header(&self, out: SharedBytesMut<'_>, payload: usize) -> usize {
        assert!(payload <= crate::PAYLOAD_BYTES_MAX, "a payload of {payload} bytes is too long");
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        match *self {
            Record::Message { envelope, synchronous, .. } => {
                let flags = synchronous.map_or(0, |_| FLAG_SYNCHRONOUS);
                let mut at = put_envelope(out, KIND_MESSAGE, flags, payload, envelope);
                if let Some(request) = synchronous {
                    out.put_u64(at, request);
                    at += SYNCHRONOUS_BYTES;
                }
                at
            }
            Record::FirstFragment { envelope, length, .. } => {
                let at = put_envelope(out, KIND_MESSAGE, FLAG_FRAGMENTED, payload, envelope);
                out.put_u64(at, length);
                at + ALIGNED_HEADER_BYTES - MESSAGE_HEADER_BYTES
            }
            Record::Fragment { .. } => {
                put_header(out, KIND_FRAGMENT, 0, payload, [0; 3]);
                ALIGNED_HEADER_BYTES
            }
            Record::Announce { envelope, request, length, region } => {
                let flags = region.map_or(0, |_| FLAG_FETCHABLE);
                let at = put_envelope(out, KIND_ANNOUNCE, flags, 0, envelope);
                let region = region.unwrap_or(RegionToken::NONE);
                out.put_u64(at, request);
                out.put_u64(at + 8, length);
                out.put_u64(at + 16, region.place);
                out.put_u64(at + 24, region.secret);
                at + ANNOUNCE_BYTES
            }
            Record::Grant { request, receiver, length } => {
                let [low, high] = halves(request);
                put_header(out, KIND_GRANT, 0, 0, [low, high, 0]);
                out.put_u64(16, receiver);
                out.put_u64(24, length);
                32
            }
            Record::Data { receiver, offset, .. } => {
                let [low, high] = halves(receiver);
                put_header(out, KIND_DATA, 0, payload, [low, high, 0]);
                out.put_u64(16, offset);
                24
            }
            _ => self.emit_control(out),
        }
    }

    /// Writes a control record.
    fn emit_control(&self, out: SharedBytesMut<'_>) -> usize {
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        match *self {
            Record::Finished { request } => {
                let [low, high] = halves(request);
                put_header(out, KIND_FINISHED, 0, 0, [low, high, 0]);
                16
            }
            Record::Credit { bytes } => {
                put_header(out, KIND_CREDIT, 0, 0, [bytes, 0, 0]);
                16
            }
            Record::Flow { context, rank, number } => {
                let [low, high] = halves(context.0);
                put_header(out, KIND_FLOW, 0, 0, [low, high, number]);
                out.put_u64(16, u64::from(rank));
                24
            }
            Record::Cancel { request } => {
                let [low, high] = halves(request);
                put_header(out, KIND_CANCEL, 0, 0, [low, high, 0]);
                16
            }
            Record::CancelReply { request, withdrawn } => {
                let [low, high] = halves(request);
                let flags = if withdrawn { FLAG_WITHDRAWN } else { 0 };
                put_header(out, KIND_CANCEL_REPLY, flags, 0, [low, high, 0]);
                16
            }
            Record::Number { number, received } => {
                put_header(out, KIND_NUMBER, 0, 0, [number, received, 0]);
                16
            }
            Record::Received { below } => {
                put_header(out, KIND_RECEIVED, 0, 0, [below, 0, 0]);
                16
            }
            Record::Close => {
                put_header(out, KIND_CLOSE, 0, 0, [0; 3]);
                16
            }
            _ => unreachable!("the other records have bodies or payloads of their own"),
        }
    }

    fn payload(&self) -> SharedBytes<'_> {
        match self {
            Record::Message { payload, .. }
            | Record::FirstFragment { payload, .. }
            | Record::Fragment { payload }
            | Record::Data { payload, .. } => *payload,
            _ => SharedBytes::default(),
        }
    }
}

fn put_envelope(
    out: SharedBytesMut<'_>,
    kind: u8,
    flags: u8,
    payload: usize,
    envelope: Envelope,
) -> usize {
    let words = |flow| [flow, envelope.tag as u32, envelope.sequence];
    match envelope.flow {
        FlowLabel::Agreed(number) => {
            put_header(out, kind, flags, payload, words(number));
            MESSAGE_HEADER_BYTES
        }
        FlowLabel::New { context, source } => {
            put_header(out, kind, flags | FLAG_NEW_FLOW, payload, words(0));
            out.put_u64(MESSAGE_HEADER_BYTES, context.0);
            out.put_u64(MESSAGE_HEADER_BYTES + 8, u64::from(source));
            MESSAGE_HEADER_BYTES + NEW_FLOW_BYTES
        }
    }
}

/// A packet that no Combray engine of this version has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The position in the packet, in bytes.
    pub offset: usize,
    /// The error at that position.
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed packet: {} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for Malformed {}

/// Parses the records of a packet one after another; ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    packet: SharedBytes<'a>,
    at: usize,
}

impl<'a> Records<'a> {
    /// Makes the parser of `packet`.
    #[inline]
    pub fn new(packet: impl Into<SharedBytes<'a>>) -> Self {
        Self { packet: packet.into(), at: 0 }
    }

    /// Returns the next record and its length in bytes, if it is a message whose data directly
    /// follows a [`message_header`].
    #[inline]
    pub fn peek_message(&self) -> Option<(LoneMessage<'a>, usize)> {
        let rest = self.packet.rest(self.at);
        let header = RecordHeader::read(rest)?;
        let length = padded(MESSAGE_HEADER_BYTES, header.payload_len());
        if header.kind_and_flags() != (KIND_MESSAGE, 0) || length > rest.len() {
            return None;
        }
        let [flow, tag, sequence] = header.words();
        let payload = rest.part(MESSAGE_HEADER_BYTES, header.payload_len());
        Some((LoneMessage { flow, tag: tag as i32, sequence, payload }, length))
    }

    /// Skips the record that [`peek_message`](Self::peek_message) returned with this length.
    #[inline]
    pub fn pass_over(&mut self, length: usize) {
        self.at += length;
    }

    #[inline]
    fn parse(&mut self) -> Result<Record<'a>, Malformed> {
        let rest = self.packet.rest(self.at);
        let wrong = |what| Malformed { offset: self.at, what };
        let header = RecordHeader::read(rest).ok_or_else(|| wrong(CUT))?;
        let (record, before) = match header.kind_and_flags() {
            (KIND_MESSAGE, _) => parse_message(rest, header),
            (KIND_ANNOUNCE, _) => parse_announce(rest, header),
            _ => parse_control(rest, header),
        }
        .map_err(wrong)?;
        self.at += padded(before, header.payload_len());
        if self.at > self.packet.len() {
            return Err(Malformed { offset: self.at, what: CUT });
        }
        Ok(record)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.packet.len() {
            return None;
        }
        let record = self.parse();
        if record.is_err() {
            self.at = self.packet.len();
        }
        Some(record)
    }
}

type Parsed<'a> = Result<(Record<'a>, usize), &'static str>;

const CUT: &str = "a record is cut short";

#[inline]
fn parse_envelope(
    rest: SharedBytes<'_>,
    header: RecordHeader,
) -> Result<(Envelope, usize), &'static str> {
    let [flow, tag, sequence] = header.words();
    let (tag, (_, flags)) = (tag as i32, header.kind_and_flags());
    if flags & FLAG_NEW_FLOW == 0 {
        let flow = FlowLabel::Agreed(flow);
        return Ok((Envelope { flow, tag, sequence }, MESSAGE_HEADER_BYTES));
    }
    let name = rest.get(MESSAGE_HEADER_BYTES, NEW_FLOW_BYTES).ok_or(CUT)?;
    let context = ContextId(name.u64_at(0));
    let source = u32::try_from(name.u64_at(8)).map_err(|_| "a rank is too large")?;
    let flow = FlowLabel::New { context, source };
    Ok((Envelope { flow, tag, sequence }, MESSAGE_HEADER_BYTES + NEW_FLOW_BYTES))
}

#[inline]
fn parse_message(rest: SharedBytes<'_>, header: RecordHeader) -> Parsed<'_> {
    let (envelope, mut at) = parse_envelope(rest, header)?;
    let mut synchronous = None;
    let (_, flags) = header.kind_and_flags();
    if flags & FLAG_FRAGMENTED != 0 {
        let length = rest.get(at, size_of::<u64>()).ok_or(CUT)?.u64_at(0);
        at += ALIGNED_HEADER_BYTES - MESSAGE_HEADER_BYTES;
        let payload = rest.get(at, header.payload_len()).ok_or(CUT)?;
        return Ok((Record::FirstFragment { envelope, length, payload }, at));
    }
    if flags & FLAG_SYNCHRONOUS != 0 {
        let bytes = rest.get(at, SYNCHRONOUS_BYTES).ok_or(CUT)?;
        synchronous = Some(bytes.u64_at(0));
        at += SYNCHRONOUS_BYTES;
    }
    if flags & FLAG_ALIGNED != 0 {
        at += ALIGNED_HEADER_BYTES - MESSAGE_HEADER_BYTES;
    }
    let payload = rest.get(at, header.payload_len()).ok_or(CUT)?;
    Ok((Record::Message { envelope, synchronous, payload }, at))
}

fn parse_announce(rest: SharedBytes<'_>, header: RecordHeader) -> Parsed<'_> {
    let (envelope, at) = parse_envelope(rest, header)?;
    let body = rest.get(at, ANNOUNCE_BYTES).ok_or(CUT)?;
    let (_, flags) = header.kind_and_flags();
    let region = RegionToken { place: body.u64_at(16), secret: body.u64_at(24) };
    let region = (flags & FLAG_FETCHABLE != 0).then_some(region);
    let (request, length) = (body.u64_at(0), body.u64_at(8));
    Ok((Record::Announce { envelope, request, length, region }, at + ANNOUNCE_BYTES))
}

fn parse_control(rest: SharedBytes<'_>, header: RecordHeader) -> Parsed<'_> {
    let (kind, flags) = header.kind_and_flags();
    let ([first, second, third], request) = (header.words(), header.long_word());
    let body = |length| rest.get(MESSAGE_HEADER_BYTES, length).ok_or(CUT);
    let record = match kind {
        KIND_GRANT => {
            let body = body(16)?;
            let (receiver, length) = (body.u64_at(0), body.u64_at(8));
            return Ok((Record::Grant { request, receiver, length }, 32));
        }
        KIND_DATA => {
            let offset = body(8)?.u64_at(0);
            let payload = rest.get(24, header.payload_len()).ok_or(CUT)?;
            return Ok((Record::Data { receiver: request, offset, payload }, 24));
        }
        KIND_FRAGMENT => {
            let payload = rest.get(ALIGNED_HEADER_BYTES, header.payload_len()).ok_or(CUT)?;
            return Ok((Record::Fragment { payload }, ALIGNED_HEADER_BYTES));
        }
        KIND_FINISHED => Record::Finished { request },
        KIND_CREDIT => Record::Credit { bytes: first },
        KIND_FLOW => {
            let rank = u32::try_from(body(8)?.u64_at(0)).map_err(|_| "a rank is too large")?;
            let (context, number) = (ContextId(request), third);
            return Ok((Record::Flow { context, rank, number }, 24));
        }
        KIND_CANCEL => Record::Cancel { request },
        KIND_CANCEL_REPLY => {
            Record::CancelReply { request, withdrawn: flags & FLAG_WITHDRAWN != 0 }
        }
        KIND_NUMBER => Record::Number { number: first, received: second },
        KIND_RECEIVED => Record::Received { below: first },
        KIND_CLOSE => Record::Close,
        _ => return Err("an unknown kind of record"),
    };
    if header.payload_len() != 0 {
        return Err("a control record has a payload");
    }
    Ok((record, MESSAGE_HEADER_BYTES))
}
