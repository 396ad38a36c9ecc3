//! A process and its bytes: it sends its runs in each domain to the aggregator, then sends or
//! receives the bytes, window by window.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use base::Error;
use memory::{Buffer, LentBuffer};

use super::aggregator::Aggregator;
use super::pieces::RunWriter;
use super::{DomainFault, MemberLink, TransferContext, TransferMessage};
use crate::transfer::Direction;
use crate::view::View;

/// The size of the first message about a domain: the length of the list of runs, and its beginning.
pub(crate) const HEAD_BYTES: usize = 1024;

/// The number of windows of a domain underway at the same time.
const WINDOWS_UNDERWAY_MAX: usize = 3;

/// The bytes of this process.
pub(crate) struct MemberPart<P> {
    view: Arc<View>,
    /// The range of the stream that is in memory.
    stream: Range<u64>,
    memory: LentBuffer,
    parts: Vec<DomainPart<P>>,
    fault: Option<DomainFault>,
}

/// The bytes of this process in one domain.
struct DomainPart<P> {
    /// The index of the domain.
    index: usize,
    aggregator: u32,
    /// The messages with the list of runs, until they are sent.
    telling: Vec<Option<P>>,
    next_window: u64,
    windows: u64,
    /// The number of this process's packed bytes before the next window.
    cursor: u64,
    underway: VecDeque<DataMessage<P>>,
    verdict: Option<(P, Buffer)>,
    is_begun: bool,
    is_over: bool,
}

/// The message with the bytes of one window.
struct DataMessage<P> {
    id: Option<P>,
    /// Where received bytes must be copied: the buffer that received them, and the packed offset in
    /// memory.
    unpack: Option<(Buffer, usize)>,
}

impl<P: Copy> MemberPart<P> {
    pub fn new(
        shared: &TransferContext,
        view: Arc<View>,
        stream: Range<u64>,
        memory: LentBuffer,
    ) -> Self {
        let domains = &shared.domains;
        let mine = &shared.wishes[shared.rank as usize];
        let involved =
            (0..domains.aggregators.len()).filter(|index| domains.involves(*index, mine));
        let parts = involved.map(|index| DomainPart {
            index,
            aggregator: domains.aggregators[index],
            telling: Vec::new(),
            next_window: 0,
            windows: domains.window_count(index),
            cursor: 0,
            underway: VecDeque::new(),
            verdict: None,
            is_begun: false,
            is_over: false,
        });
        let parts = parts.collect();
        Self { view, stream, memory, parts, fault: None }
    }

    /// Returns the number of packed bytes of memory that lie before an offset in the file.
    fn before(&self, offset: u64) -> u64 {
        self.view.position_within(offset, self.stream.clone()) - self.stream.start
    }

    /// Returns the encoded list of the runs of this process in a range of the file.
    fn told(&self, range: &Range<u64>) -> Vec<u8> {
        let (start, end) = (self.before(range.start), self.before(range.end));
        let mut writer = RunWriter::default();
        self.view.runs(self.stream.start + start, end - start, &mut |offset, length| {
            writer.add(offset, length);
            true
        });
        writer.into_bytes()
    }

    /// Makes progress as far as possible in one round; returns whether any was possible.
    pub fn advance(
        &mut self,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
        mut own: Option<&mut Aggregator<P>>,
    ) -> bool {
        let mut has_moved = false;
        let mut parts = std::mem::take(&mut self.parts);
        for part in parts.iter_mut().filter(|part| !part.is_over) {
            if part.aggregator == shared.rank {
                // This process copies its bytes when it has the window; nothing is sent.
                let Some(own) = own.as_deref_mut() else { continue };
                if !part.is_begun {
                    own.hear(shared.rank, self.told(&shared.domains.domain(part.index)));
                    (part.is_begun, has_moved) = (true, true);
                }
                if own.is_over() {
                    self.note(own.fault().cloned());
                    (part.is_over, has_moved) = (true, true);
                }
                continue;
            }
            if !part.is_begun {
                self.tell(part, shared, link);
                has_moved = true;
            }
            has_moved |= self.advance_part(part, shared, link);
        }
        self.parts = parts;
        has_moved
    }

    /// Sends the list of the runs of this process in a domain.
    fn tell(
        &mut self,
        part: &mut DomainPart<P>,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
    ) {
        let domain = shared.domains.domain(part.index);
        let told = self.told(&domain);
        let head = Buffer::zeroed(HEAD_BYTES);
        head.write(0, &(told.len() as u64).to_le_bytes());
        let (first, rest) = told.split_at(told.len().min(HEAD_BYTES - 8));
        head.write(8, first);
        part.telling.push(link.send(part.aggregator, shared.tag(TransferMessage::Head), head));
        if !rest.is_empty() {
            let message = Buffer::zeroed(rest.len());
            message.write(0, rest);
            part.telling.push(link.send(
                part.aggregator,
                shared.tag(TransferMessage::Rest),
                message,
            ));
        }
        let room = DomainFault::room();
        let id = link.receive(part.aggregator, shared.tag(TransferMessage::Verdict), room.clone());
        part.verdict = Some((id, room));
        part.cursor = self.before(domain.start);
        part.is_begun = true;
    }

    fn advance_part(
        &mut self,
        part: &mut DomainPart<P>,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
    ) -> bool {
        let before = (part.telling.len(), part.next_window, part.underway.len());
        part.telling.retain(|id| id.is_some_and(|id| !self.is_over_now(link, id)));
        while part.underway.len() < WINDOWS_UNDERWAY_MAX && part.next_window < part.windows {
            let window = shared.domains.window(part.index, part.next_window);
            let (start, end) = (part.cursor, self.before(window.end));
            part.next_window += 1;
            part.cursor = end;
            if end > start {
                let message = self.begin_window(part, shared, link, start as usize, end as usize);
                part.underway.push_back(message);
            }
        }
        let mut left = VecDeque::new();
        for message in std::mem::take(&mut part.underway) {
            if message.id.is_some_and(|id| !self.is_over_now(link, id)) {
                left.push_back(message);
            } else if let Some((from, at)) = message.unpack {
                let mut bytes = vec![0; from.len()];
                from.read(0, &mut bytes);
                self.memory.write(at, &bytes);
            }
        }
        part.underway = left;
        let is_moved = part.next_window == part.windows && part.underway.is_empty();
        if is_moved
            && part.telling.is_empty()
            && let Some((id, room)) = &part.verdict
            && self.is_over_now(link, *id)
        {
            self.note(DomainFault::told(room));
            part.is_over = true;
        }
        part.is_over || before != (part.telling.len(), part.next_window, part.underway.len())
    }

    fn begin_window(
        &self,
        part: &DomainPart<P>,
        shared: &TransferContext,
        link: &impl MemberLink<Pending = P>,
        start: usize,
        end: usize,
    ) -> DataMessage<P> {
        let tag = shared.tag(TransferMessage::Data);
        let direct = self.memory.program_part(start, end - start);
        match (shared.direction, direct) {
            (Direction::Write, direct) => {
                let data = direct.unwrap_or_else(|| self.copied(start, end));
                DataMessage { id: link.send(part.aggregator, tag, data), unpack: None }
            }
            (Direction::Read, Some(direct)) => {
                let id = Some(link.receive(part.aggregator, tag, direct));
                DataMessage { id, unpack: None }
            }
            (Direction::Read, None) => {
                let room = Buffer::zeroed(end - start);
                let id = Some(link.receive(part.aggregator, tag, room.clone()));
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

    /// Copies this process's bytes in a window of its own domain to the window, or from it.
    pub fn copy_own(&self, window: &Range<u64>, place: &Buffer, direction: Direction) {
        let (start, end) = (self.before(window.start) as usize, self.before(window.end) as usize);
        match (self.memory.program_part(start, end - start), direction) {
            (Some(part), Direction::Write) => {
                part.copy_to(place);
            }
            (Some(part), Direction::Read) => {
                place.copy_to(&part);
            }
            (None, Direction::Write) => {
                self.copied(start, end).copy_to(place);
            }
            (None, Direction::Read) => {
                let mut bytes = vec![0; place.len().min(end - start)];
                place.read(0, &mut bytes);
                self.memory.write(start, &bytes);
            }
        }
    }

    /// Whether a message is complete; a failed peer is recorded as a fault.
    fn is_over_now(&mut self, link: &impl MemberLink<Pending = P>, id: P) -> bool {
        match link.take(id) {
            None => false,
            Some(Ok(())) => true,
            Some(Err(error)) => {
                self.note(Some(of_message(&error)));
                true
            }
        }
    }

    /// Keeps the fault with the lowest offset in the file.
    fn note(&mut self, fault: Option<DomainFault>) {
        let Some(fault) = fault else { return };
        if self.fault.as_ref().is_none_or(|known| fault.offset < known.offset) {
            self.fault = Some(fault);
        }
    }

    pub fn is_over(&self) -> bool {
        self.parts.iter().all(|part| part.is_over)
    }

    pub fn into_outcome(self) -> (LentBuffer, u64, Option<DomainFault>) {
        let bytes = match &self.fault {
            None => self.stream.end - self.stream.start,
            Some(fault) => self.before(fault.offset),
        };
        (self.memory, bytes, self.fault)
    }
}

/// Returns a failed message as a fault at the beginning of the file.
pub(crate) fn of_message(error: &Error) -> DomainFault {
    DomainFault { class: error.class, offset: 0, reason: error.detail.to_string() }
}
