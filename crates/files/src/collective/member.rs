//! A process and its bytes: it sends its runs in each domain to the aggregator, then sends or
//! receives the bytes, window by window.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use memory::{Buffer, LentBuffer};
use wire::Codec;

use super::MemberBytes;
use super::domains::FileDomain;
use super::messages::{ExchangeMessages, HEAD_BYTES, PostedMessage, TransferMessage};
use super::pieces::RunWriter;
use crate::fault::Fault;
use crate::storage::Direction;
use crate::transfer::Progress;
use crate::view::View;

/// The number of windows of a domain underway at the same time.
const WINDOWS_UNDERWAY_MAX: usize = 3;

/// The bytes of this process.
pub(crate) struct MemberPart {
    direction: Direction,
    view: Arc<View>,
    /// The range of the stream that is in memory.
    stream: Range<u64>,
    memory: LentBuffer,
    parts: Vec<DomainPart>,
    fault: Option<Fault>,
}

/// The bytes of this process in one domain.
struct DomainPart {
    domain: FileDomain,
    /// The messages with the list of runs, until they are sent.
    list: Vec<PostedMessage>,
    next_window: u64,
    /// The number of this process's packed bytes before the next window.
    cursor: u64,
    underway: VecDeque<DataMessage>,
    /// The message with the outcome, once the list is sent.
    fault_report: Option<(PostedMessage, Buffer)>,
    is_over: bool,
}

/// The message with the bytes of one window.
struct DataMessage {
    id: PostedMessage,
    /// Where received bytes must be copied: the buffer that received them, and the packed offset in
    /// memory.
    unpack: Option<(Buffer, usize)>,
}

impl MemberPart {
    pub fn new(
        direction: Direction,
        domains: impl Iterator<Item = FileDomain>,
        bytes: MemberBytes,
    ) -> Self {
        let MemberBytes { view, position, length, memory } = bytes;
        let parts = domains.map(|domain| DomainPart {
            domain,
            list: Vec::new(),
            next_window: 0,
            cursor: 0,
            underway: VecDeque::new(),
            fault_report: None,
            is_over: false,
        });
        let (parts, stream) = (parts.collect(), position..position + length);
        Self { direction, view, stream, memory, parts, fault: None }
    }

    /// Returns the number of packed bytes of memory that lie before an offset in the file.
    fn before(&self, offset: u64) -> u64 {
        self.view.position_within(offset, self.stream.clone()) - self.stream.start
    }

    /// Returns the encoded list of the runs of this process in a range of the file.
    fn runs_in(&self, range: &Range<u64>) -> Vec<u8> {
        let (start, end) = (self.before(range.start), self.before(range.end));
        let mut writer = RunWriter::default();
        self.view.runs(self.stream.start + start, end - start, &mut |offset, length| {
            writer.add(offset, length);
            true
        });
        writer.into_bytes()
    }

    /// Makes progress as far as possible in one round; returns whether any was possible.
    pub fn advance(&mut self, messages: &mut ExchangeMessages<'_>) -> bool {
        let mut has_moved = false;
        let mut parts = std::mem::take(&mut self.parts);
        for part in parts.iter_mut().filter(|part| !part.is_over) {
            if part.fault_report.is_none() {
                self.send_list(part, messages);
                has_moved = true;
            }
            has_moved |= self.advance_part(part, messages);
        }
        self.parts = parts;
        has_moved
    }

    /// Sends the list of the runs of this process in a domain.
    fn send_list(&self, part: &mut DomainPart, messages: &mut ExchangeMessages<'_>) {
        let aggregator = part.domain.aggregator;
        let list = self.runs_in(&part.domain.range);
        let mut head = list.len().to_bytes();
        let (first, rest) = list.split_at(list.len().min(HEAD_BYTES - head.len()));
        head.extend(first);
        let message = Buffer::zeroed(HEAD_BYTES);
        message.write(0, &head);
        part.list.push(messages.send(aggregator, TransferMessage::Head, message));
        if !rest.is_empty() {
            let message = Buffer::zeroed(rest.len());
            message.write(0, rest);
            part.list.push(messages.send(aggregator, TransferMessage::Rest, message));
        }
        let room = Fault::room();
        let id = messages.receive(aggregator, TransferMessage::FaultReport, room.clone());
        part.fault_report = Some((id, room));
        part.cursor = self.before(part.domain.range.start);
    }

    fn advance_part(&mut self, part: &mut DomainPart, messages: &mut ExchangeMessages<'_>) -> bool {
        let before = (part.list.len(), part.next_window, part.underway.len());
        part.list.retain(|id| !self.is_over_now(messages, *id));
        let windows = part.domain.window_count();
        while part.underway.len() < WINDOWS_UNDERWAY_MAX && part.next_window < windows {
            let window = part.domain.window(part.next_window);
            let (start, end) = (part.cursor, self.before(window.end));
            part.next_window += 1;
            part.cursor = end;
            if end > start {
                let message = self.begin_window(part, messages, start as usize, end as usize);
                part.underway.push_back(message);
            }
        }
        part.underway.retain(|message| {
            let is_over = self.is_over_now(messages, message.id);
            if is_over && let Some((from, at)) = &message.unpack {
                let mut bytes = vec![0; from.len()];
                from.read(0, &mut bytes);
                self.memory.write(*at, &bytes);
            }
            !is_over
        });
        let is_moved = part.next_window == windows && part.underway.is_empty();
        if is_moved
            && part.list.is_empty()
            && let Some((id, room)) = &part.fault_report
            && self.is_over_now(messages, *id)
        {
            if let Some(fault) = Fault::of_verdict(room) {
                Fault::note(&mut self.fault, fault);
            }
            part.is_over = true;
        }
        part.is_over || before != (part.list.len(), part.next_window, part.underway.len())
    }

    fn begin_window(
        &self,
        part: &DomainPart,
        messages: &mut ExchangeMessages<'_>,
        start: usize,
        end: usize,
    ) -> DataMessage {
        let (peer, kind) = (part.domain.aggregator, TransferMessage::Data);
        let direct = self.memory.program_part(start, end - start);
        match (self.direction, direct) {
            (Direction::Write, direct) => {
                let data = direct.unwrap_or_else(|| self.copied(start, end));
                DataMessage { id: messages.send(peer, kind, data), unpack: None }
            }
            (Direction::Read, Some(direct)) => {
                DataMessage { id: messages.receive(peer, kind, direct), unpack: None }
            }
            (Direction::Read, None) => {
                let room = Buffer::zeroed(end - start);
                let id = messages.receive(peer, kind, room.clone());
                DataMessage { id, unpack: Some((room, start)) }
            }
        }
    }

    fn copied(&self, start: usize, end: usize) -> Buffer {
        let mut bytes = vec![0; end - start];
        self.memory.read(start, &mut bytes);
        let copy = Buffer::zeroed(bytes.len());
        copy.write(0, &bytes);
        copy
    }

    /// Whether a message is complete; a failed peer is recorded as a fault.
    fn is_over_now(&mut self, messages: &ExchangeMessages<'_>, id: PostedMessage) -> bool {
        let outcome = messages.take(id);
        if let Some(Err(error)) = &outcome {
            Fault::note(&mut self.fault, Fault::of_message(error));
        }
        outcome.is_some()
    }

    pub fn is_over(&self) -> bool {
        self.parts.iter().all(|part| part.is_over)
    }

    pub fn into_outcome(self) -> (LentBuffer, Progress) {
        let bytes = match &self.fault {
            None => self.stream.end - self.stream.start,
            Some(fault) => self.before(fault.offset),
        };
        (self.memory, Progress { bytes, fault: self.fault })
    }
}
