//! What endpoints do in each round of progress.

use std::collections::HashSet;
use std::time::Duration;

use base::{Error, ErrorClass, GateId};
use dynamic::PortSide;
use engine::{IncomingMessage, MessageId};
use memory::{Buffer, HeldBytes, SharedBytes};
use wire::Codec;

use crate::batches::messages_of;
use crate::connection::{Arrival, ConnectionPeer, Credit, Stage, cost};
use crate::endpoint::{CONNECTION_WINDOW_MAX, LentContent};
use crate::event::{EndpointEvent, EndpointEventKind, EventBody};
use crate::host::{EndpointHost, EndpointPort, EndpointWatcher};
use crate::message::{BATCH, Control, Introduction, MemoryAccess, UNORDERED, Word};
use crate::service::{Endpoints, MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX, ServiceState, Underway};
use crate::transfers::Announced;

/// How many messages are taken in a round of progress.
const MESSAGES_MAX: usize = 256;

/// How many connections are made at a time.
const SEARCHES_MAX: usize = 64;

/// How long a process that connects may take for a step of the meeting.
const STEP_MAX: Duration = Duration::from_secs(30);

/// How often processes are checked for whether they have ended.
const END_CHECK_PERIOD: Duration = Duration::from_millis(250);

/// For how many rounds of progress a connection that has arrived is looked at in each round.
const ARRIVAL_ROUNDS: u32 = 1024;

/// The intervals of ticks in milliseconds: while processes meet, and while there are connections.
const TICK_MEETING: u32 = 1;
const TICK_CONNECTED: u32 = END_CHECK_PERIOD.as_millis() as u32;

/// Why connections with processes end that do not keep to the rules.
const READS_TOO_MUCH: &str = "the other process reads too much at a time";
const SENDS_TOO_MUCH: &str = "the other process has sent more than this one allows, without waiting \
                              until messages were returned";
const TAKES_NOTHING: &str =
    "the other process receives nothing that this one sends, but causes it to send more";

/// A message that its connection takes.
#[derive(Debug)]
struct Admission {
    /// The connection.
    key: u32,
    /// What the message is, if not a message of the program.
    announced: Option<Announced>,
    is_ordered: bool,
    /// Whether it need not wait for what is before it.
    is_next: bool,
}

/// The connection to which a peer has sent a message that it may not send, and why not.
type RefusedMessage = (u32, &'static str);

impl<Process: EndpointHost> Endpoints<Process> {
    /// Does in a round of progress what there is to do. Returns whether there was anything.
    pub fn advance_all(&self, process: &Process) -> bool {
        let mut active = false;
        let has_news = self.watcher.get().is_some_and(|watcher| watcher.take_news());
        // The watcher does not report the sockets of processes that meet, so they are looked at in
        // each round, and a process that sleeps looks at each tick. A connection that has arrived
        // may be one of a stranger: it is waited for during a few rounds, and then at each tick.
        if has_news && self.watcher.get().is_some_and(|watcher| watcher.take_arrivals()) {
            self.looks.set(if self.state.borrow().is_crowded() { 0 } else { ARRIVAL_ROUNDS });
        }
        let looks_left = self.looks.get();
        self.looks.set(looks_left.saturating_sub(1));
        let has_news = has_news || looks_left > 0 || self.meets.get();
        if has_news {
            active |= self.serve_sockets(process);
        }
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        active |= state.take_messages(process);
        active |= state.deliver_arrived(process);
        active |= state.complete_sends(process);
        active |= state.send_batches(process);
        active |= state.resume(process);
        active |= state.note_failures(process);
        // After what has arrived was taken.
        active |= has_news && state.look_after_peers(process, process.now());
        active
    }

    /// Handles what sockets and time have brought. Returns whether there was anything.
    fn serve_sockets(&self, process: &Process) -> bool {
        let mut state = self.state.borrow_mut();
        let mut active = state.accept_links(process);
        active |= state.advance_meetings(process);
        active |= state.note_silence(process);
        state.check_for_ends(process);
        drop(state);
        self.set_tick();
        active
    }

    /// Sets how often time must be looked at.
    pub(crate) fn set_tick(&self) {
        let state = self.state.borrow();
        self.meets.set(!state.meetings.is_empty() || !state.waiting.is_empty());
        let tick = state.tick();
        drop(state);
        let tick = match self.wait_tick() {
            Some(of_waits) if tick == 0 => of_waits,
            Some(of_waits) => tick.min(of_waits),
            None => tick,
        };
        self.watcher.get().into_iter().for_each(|watcher| watcher.set_tick(tick));
    }

    /// Looks at sockets and time in the next round of progress.
    pub(crate) fn look_again(&self) {
        self.watcher.get().into_iter().for_each(|watcher| watcher.look_again());
        self.set_tick();
    }
}

impl<Process: EndpointHost> ServiceState<Process> {
    /// Returns the interval of ticks in milliseconds; 0: none.
    fn tick(&self) -> u32 {
        let of_keepalive = self.keepalive_tick();
        let is_meeting = !self.meetings.is_empty()
            || !self.waiting.is_empty()
            || !self.endpoints.keys_where(|one| one.port.must_be_polled()).is_empty();
        match (is_meeting, self.is_refused || !self.connections.is_empty()) {
            (true, _) => TICK_MEETING,
            (false, true) => TICK_CONNECTED.min(of_keepalive),
            (false, false) => 0,
        }
    }

    /// Whether a look at what has arrived takes long, because many strangers connect.
    fn is_crowded(&self) -> bool {
        !self.endpoints.keys_where(|one| one.port.is_crowded()).is_empty()
    }

    /// Accepts the connections of processes that have proved that they have the key of an endpoint.
    fn accept_links(&mut self, process: &Process) -> bool {
        let mut active = false;
        self.is_refused = false;
        for endpoint in self.endpoints.keys_where(|_| true) {
            while let Some(one) = self.endpoints.get(endpoint) {
                match process.poll_accept(&one.port, STEP_MAX) {
                    Ok(Some(link)) => {
                        active = true;
                        self.meet(process, endpoint, link);
                    }
                    Ok(None) => break,
                    // The system has no descriptors left, for example. What waits is not reported
                    // again, so the next tick tries again.
                    Err(_) => {
                        self.is_refused = true;
                        break;
                    }
                }
            }
        }
        active
    }

    /// Meets a process that connects. If that is impossible, its link is closed.
    fn meet(&mut self, process: &Process, endpoint: u32, link: Process::Link) {
        // The link has a limit for each step of the meeting.
        let Ok(key) = self.add_connection(endpoint, (Stage::Meeting, 0), None) else { return };
        let own = self.introduction(key, &[]).to_bytes();
        match process.meet(link, PortSide::Accepts, &own) {
            Ok(meeting) => self.meetings.push(Underway::Meeting(key, meeting)),
            Err(_) => self.remove(process, key),
        }
    }

    fn advance_meetings(&mut self, process: &Process) -> bool {
        let mut active = false;
        self.begin_searches();
        for underway in std::mem::take(&mut self.meetings) {
            match underway {
                Underway::Search(key, mut search, own) => match process.poll_search(&mut search) {
                    Ok(None) => self.meetings.push(Underway::Search(key, search, own)),
                    Ok(Some(link)) => {
                        active = true;
                        match process.meet(link, PortSide::Connects, &own.to_bytes()) {
                            Ok(meeting) => self.meetings.push(Underway::Meeting(key, meeting)),
                            Err(error) => self.reject(process, key, EventBody::Error(error)),
                        }
                    }
                    Err(error) => {
                        active = true;
                        self.reject(process, key, EventBody::Error(error));
                    }
                },
                Underway::Meeting(key, mut meeting) => match process.poll_meeting(&mut meeting) {
                    Ok(None) => self.meetings.push(Underway::Meeting(key, meeting)),
                    Ok(Some(peer)) => {
                        active = true;
                        self.note_met(process, key, peer.gate, &peer.words);
                    }
                    Err(error) => {
                        active = true;
                        process.abandon(meeting);
                        self.note_unmet(process, key, error);
                    }
                },
            }
        }
        active
    }

    /// Begins searches that were waiting. The first connection to an endpoint is made alone, so
    /// that the next ones find its gates and use them.
    fn begin_searches(&mut self) {
        let mut alone: HashSet<Process::Target> =
            self.meetings.iter().filter_map(|one| self.target_of(one)).collect();
        for _ in 0..self.waiting.len().min(SEARCHES_MAX) {
            if self.meetings.len() >= SEARCHES_MAX {
                return;
            }
            let Some(next) = self.waiting.pop_front() else { return };
            let target = self.target_of(&next);
            let may_begin =
                target.is_none_or(|one| self.met.contains_key(&one) || alone.insert(one));
            match may_begin {
                true => self.meetings.push(next),
                false => self.waiting.push_back(next),
            }
        }
    }

    fn target_of(&self, underway: &Underway<Process>) -> Option<Process::Target> {
        let (Underway::Search(key, ..) | Underway::Meeting(key, _)) = underway;
        self.connections.get(*key)?.target
    }

    /// Handles that two processes have met.
    fn note_met(&mut self, process: &Process, key: u32, gate: GateId, words: &[u8]) {
        let theirs = Introduction::from_bytes(words);
        let Some(connection) = self.connections.get_mut(key) else {
            return process.release_peer(gate);
        };
        let Some(Introduction { key: theirs, window, data }) =
            theirs.filter(|one| one.data.len() <= REQUEST_BYTES_MAX)
        else {
            process.release_peer(gate);
            return self.remove(process, key);
        };
        connection.peer = Some(ConnectionPeer { gate, key: theirs });
        connection.credit = Credit::new(window.min(CONNECTION_WINDOW_MAX));
        let was_met = std::mem::take(&mut connection.met_by).contains(&gate);
        let was_ended = std::mem::take(&mut connection.ended_by).contains(&gate);
        match connection.target {
            Some(target) => {
                connection.stage = Stage::Awaiting;
                *self.met.entry(target).or_default() += 1;
            }
            None => {
                (connection.stage, connection.request) = (Stage::Introduced, data);
                connection.deadline = process.now().checked_add(STEP_MAX);
            }
        }
        if was_ended {
            return self.note_end(process, key);
        }
        // The failure may have been noted while this process did not know that it concerns the
        // connection.
        if process.has_failed(gate) {
            return self.lose_failed(process, key);
        }
        match self.connections.get(key).map(|one| one.stage) {
            Some(Stage::Awaiting) => self.tell(process, key, &Word::Met),
            Some(_) if was_met => self.request(key),
            _ => {}
        }
    }

    /// Asks the program whether it accepts a connection. The connecting process has met this one:
    /// what this one sends from now on does not come before the end of the meeting there.
    fn request(&mut self, key: u32) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        (connection.stage, connection.deadline) = (Stage::Requested, None);
        let data = std::mem::take(&mut connection.request);
        let data = self.lend_data(key, &data);
        self.push(key, EndpointEventKind::ConnectRequest, data);
    }

    /// Handles that two processes could not meet.
    fn note_unmet(&mut self, process: &Process, key: u32, error: Error) {
        match self.connections.get(key) {
            Some(connection) if connection.target.is_some() => {
                self.reject(process, key, EventBody::Error(error));
            }
            _ => self.remove(process, key),
        }
    }

    /// Checks from time to time whether processes at the other ends have ended.
    fn check_for_ends(&mut self, process: &Process) {
        let now = process.now();
        if self.checks_next.is_some_and(|at| now < at) {
            return;
        }
        self.checks_next = Some(now + END_CHECK_PERIOD);
        let mut gates: Vec<GateId> = Vec::new();
        for key in self.connections.keys_where(|one| one.peer.is_some()) {
            gates.extend(self.connections.get(key).and_then(|one| one.peer).map(|peer| peer.gate));
        }
        gates.sort_unstable();
        gates.dedup();
        gates.into_iter().for_each(|gate| process.notice_end(gate));
    }

    /// Takes the messages of all connections that have arrived.
    fn take_messages(&mut self, process: &Process) -> bool {
        let Some(space) = self.space else { return false };
        let mut taken = self.take_blocked(process, MESSAGES_MAX);
        while taken < MESSAGES_MAX {
            let found = process.next_message(space);
            let Some((message, incoming)) = found else { break };
            taken += match self.blocked.get_mut(&incoming.gate) {
                Some(blocked) => {
                    blocked.add(message, incoming);
                    1
                }
                None => self.take_next(process, message, &incoming),
            };
        }
        taken > 0
    }

    /// Takes a message of a connection, or begins to receive it.
    pub fn take_message(
        &mut self,
        process: &Process,
        message: MessageId,
        incoming: &IncomingMessage,
    ) {
        let (from, bytes) = (incoming.gate, incoming.bytes);
        let admission = match self.admit(process, (from, incoming.tag), bytes) {
            Ok(admission) => admission,
            Err(refusal) => {
                discard(process, message);
                return self.end_refused(process, refusal);
            }
        };
        let Admission { key, announced, is_ordered, is_next } = admission;
        if let Some(bytes) = is_next.then(|| process.take_message(message)).flatten() {
            return self.take_arrived(process, key, LentContent::Held(bytes), announced);
        }
        let buffer = match bytes {
            0 => Buffer::empty(),
            bytes => Buffer::zeroed(bytes as usize),
        };
        let request = process.receive_message(message, buffer.clone());
        let Some(request) = request else { return };
        if is_next && process.is_complete(request) {
            return match process.finish(request) {
                Ok(()) => {
                    self.take_arrived(process, key, LentContent::Received(buffer), announced);
                }
                Err(_) => self.lose_failed(process, key),
            };
        }
        if is_ordered {
            return self.add_arrival(key, Arrival::Message(request, buffer, announced));
        }
        if let Some(connection) = self.connections.get_mut(key) {
            if connection.has_all() {
                self.arriving.push(key);
            }
            connection.unordered.push((request, buffer));
        }
    }

    /// Notes what has begun to arrive at a connection.
    fn add_arrival(&mut self, key: u32, arrival: Arrival) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.has_all() {
            self.arriving.push(key);
        }
        connection.arriving.push_back(arrival);
    }

    /// Takes the messages of a batch; returns their number.
    fn take_batch(&mut self, process: &Process, from: GateId, batch: SharedBytes<'_>) -> usize {
        let mut taken = 0;
        for (tag, data) in messages_of(batch) {
            taken += 1;
            match self.admit(process, (from, tag), data.len() as u64) {
                Ok(Admission { key, announced, is_next, .. }) => {
                    let content = LentContent::Held(HeldBytes::copy_of(data));
                    match is_next {
                        true => self.take_arrived(process, key, content, announced),
                        false => self.add_arrival(key, Arrival::Here(content, announced)),
                    }
                }
                Err(refusal) => self.end_refused(process, refusal),
            }
        }
        taken
    }

    /// Finds the connection of a message that has begun to arrive, and checks whether the peer may
    /// send it.
    fn admit(
        &mut self,
        process: &Process,
        (from, tag): (GateId, i32),
        bytes: u64,
    ) -> std::result::Result<Admission, Option<RefusedMessage>> {
        let is_ordered = tag & UNORDERED == 0;
        let key = (tag & !UNORDERED) as u32;
        let found = self.connections.get_mut(key);
        let found = found.filter(|one| one.peer.is_some_and(|peer| peer.gate == from));
        let connection = found.filter(|one| one.stage == Stage::Open).ok_or(None)?;
        if connection.outbox.overflows(|send| process.is_complete(send)) {
            return Err(Some((key, TAKES_NOTHING)));
        }
        // Announcements are of ordered messages.
        let announced = match is_ordered {
            true => connection.transfers.announced.pop_front(),
            false => None,
        };
        let is_allowed = connection.holdings.add(cost(bytes));
        if !is_allowed || bytes > MESSAGE_BYTES_MAX {
            return Err(Some((key, SENDS_TOO_MUCH)));
        }
        let is_next = connection.arriving.is_empty() || !is_ordered;
        Ok(Admission { key, announced, is_ordered, is_next })
    }

    /// Ends the connection of a message that was refused, if it has one.
    fn end_refused(&mut self, process: &Process, refusal: Option<RefusedMessage>) {
        if let Some((key, detail)) = refusal {
            self.break_off(process, key, detail);
        }
    }

    /// Handles a message that has arrived completely.
    fn take_arrived(
        &mut self,
        process: &Process,
        key: u32,
        content: LentContent,
        announced: Option<Announced>,
    ) {
        let Some(announced) = announced else { return self.deliver(process, key, content) };
        let buffer = content.into_buffer();
        if self.take_announced(process, key, announced, &buffer) {
            return self.deliver(process, key, LentContent::Received(buffer));
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        if let Some(bytes) = connection.holdings.give_back(cost(buffer.len() as u64)) {
            self.tell(process, key, &Word::Returned(bytes));
        }
    }

    /// Ends the connection with a process that does not keep to the rules.
    fn break_off(&mut self, process: &Process, key: u32, detail: &'static str) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.failure = Some(Error::new(ErrorClass::Port, detail));
        }
        self.begin_closing(process, key);
    }

    /// Puts a message into the queue of its endpoint.
    fn deliver(&mut self, process: &Process, key: u32, content: LentContent) {
        let Some(connection) = self.connections.get(key) else { return };
        let context = connection.context;
        let endpoint = connection.endpoint.and_then(|one| self.endpoints.get_mut(one));
        let Some(endpoint) = endpoint else { return };
        if connection.holdings.is_exhausted() {
            endpoint.exhausted = Some(key);
        }
        let cost = cost(content.len() as u64);
        match endpoint.lend(key, cost, content) {
            Some(body) => endpoint.push(EndpointEvent {
                kind: EndpointEventKind::Received,
                connection: key,
                context,
                body,
            }),
            None => {
                let detail = "the program holds a million messages: return them";
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.failure = Some(Error::new(ErrorClass::NoSpace, detail));
                }
                self.begin_closing(process, key);
            }
        }
    }

    /// Lends data that came with a request or a rejection to the program.
    fn lend_data(&mut self, key: u32, data: &[u8]) -> EventBody {
        let endpoint = self.connections.get(key).and_then(|one| one.endpoint);
        let endpoint = endpoint.and_then(|one| self.endpoints.get_mut(one));
        let Some(endpoint) = endpoint.filter(|_| !data.is_empty()) else {
            return EventBody::Nothing;
        };
        let content = LentContent::Held(HeldBytes::copy_of(data.into()));
        endpoint.lend(key, 0, content).unwrap_or(EventBody::Nothing)
    }

    /// Returns how many messages a batch had.
    pub fn take_arrived_control(
        &mut self,
        process: &Process,
        (from, tag): (GateId, i32),
        bytes: SharedBytes<'_>,
    ) -> usize {
        if tag == BATCH {
            return self.take_batch(process, from, bytes);
        }
        if let Some((key, word)) = Control::decode(&bytes.to_vec()) {
            self.take_word(process, (key, from), word);
        }
        0
    }

    /// Handles what the process behind a gate says of a connection.
    fn take_word(&mut self, process: &Process, (key, from): (u32, GateId), word: Word) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.peer.is_none() {
            connection.remember(from, &word);
        }
        if connection.peer.is_none_or(|peer| peer.gate != from) {
            return;
        }
        match word {
            Word::Met if connection.stage == Stage::Introduced => self.request(key),
            Word::Accepted if connection.stage == Stage::Awaiting => {
                (connection.stage, connection.deadline) = (Stage::Open, None);
                self.push(key, EndpointEventKind::Connected, EventBody::Nothing);
            }
            Word::Rejected(data) if connection.stage == Stage::Awaiting => {
                let data = self.lend_data(key, &data);
                self.reject(process, key, data);
            }
            // What has no meaning now comes from a peer that is wrong, and changes nothing.
            Word::Met | Word::Accepted | Word::Rejected(_) => {}
            Word::Returned(bytes) => {
                connection.credit.give_back(bytes);
                self.pump(process, key);
                self.note_room(key);
            }
            Word::Write(access) => self.announce(process, key, Announced::Write(access)),
            Word::Piece(number, offset) => {
                self.announce(process, key, Announced::Piece(number, offset));
            }
            Word::Following(number) => self.announce(process, key, Announced::Following(number)),
            Word::Read(_)
                if connection.stage == Stage::Open
                    && connection.outbox.overflows(|send| process.is_complete(send)) =>
            {
                self.break_off(process, key, TAKES_NOTHING);
            }
            Word::Read(_) if connection.has_many_arrivals() => {
                self.break_off(process, key, READS_TOO_MUCH);
            }
            Word::Read(access) if connection.stage == Stage::Open => {
                match connection.arriving.is_empty() {
                    true => self.answer_read(process, key, access),
                    false => connection.arriving.push_back(Arrival::Read(access)),
                }
            }
            Word::Ask
                if connection.stage == Stage::Open
                    && !connection.outbox.overflows(|send| process.is_complete(send)) =>
            {
                self.tell(process, key, &Word::Here);
            }
            Word::Read(_) | Word::Ask | Word::Here => {}
            Word::Done(number, refused) => self.note_done(process, key, number, refused),
            Word::Closed if connection.has_all() => self.note_end(process, key),
            Word::Closed => connection.arriving.push_back(Arrival::End),
        }
    }

    /// Notes what the next message to a connection is.
    fn announce(&mut self, process: &Process, key: u32, announced: Announced) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.stage == Stage::Open && !connection.transfers.announce(announced) {
            let detail = "the other process has announced messages that it has not sent";
            self.break_off(process, key, detail);
        }
    }

    fn answer_read(&mut self, process: &Process, key: u32, access: MemoryAccess) {
        if !self.take_read(process, key, access) {
            self.break_off(process, key, READS_TOO_MUCH);
        }
    }

    /// Delivers the messages that have arrived completely.
    fn deliver_arrived(&mut self, process: &Process) -> bool {
        let mut active = false;
        for key in std::mem::take(&mut self.arriving) {
            active |= self.deliver_unordered(process, key);
            while let Some(connection) = self.connections.get_mut(key)
                && connection.arriving.front().is_some_and(|first| match first {
                    Arrival::End => connection.unordered.is_empty(),
                    first => first.receive().is_none_or(|one| process.is_complete(one)),
                })
            {
                active = true;
                match connection.arriving.pop_front() {
                    Some(Arrival::Message(request, buffer, announced)) => {
                        match process.finish(request) {
                            Ok(()) => {
                                let content = LentContent::Received(buffer);
                                self.take_arrived(process, key, content, announced);
                            }
                            // The peer has failed while its message arrived. What has arrived
                            // behind it must not be delivered.
                            Err(_) => self.lose_failed(process, key),
                        }
                    }
                    Some(Arrival::Here(content, announced)) => {
                        self.take_arrived(process, key, content, announced);
                    }
                    Some(Arrival::Read(access)) => self.answer_read(process, key, access),
                    Some(Arrival::End) => self.note_end(process, key),
                    None => {}
                }
            }
            if self.connections.get(key).is_some_and(|one| !one.has_all()) {
                self.arriving.push(key);
            }
        }
        active
    }

    /// Delivers the messages that need not be in order and have arrived completely, although others
    /// before them have not.
    fn deliver_unordered(&mut self, process: &Process, key: u32) -> bool {
        let mut active = false;
        while let Some(connection) = self.connections.get_mut(key)
            && let Some(place) =
                connection.unordered.iter().position(|(one, _)| process.is_complete(*one))
        {
            active = true;
            let (request, buffer) = connection.unordered.remove(place);
            match process.finish(request) {
                Ok(()) => self.deliver(process, key, LentContent::Received(buffer)),
                // The peer has failed: the end of the connection, which may have arrived, must not
                // be reported as if all messages had.
                Err(_) => self.lose_failed(process, key),
            }
        }
        active
    }

    /// Tells the program of sends that are complete.
    fn complete_sends(&mut self, process: &Process) -> bool {
        if self.sends.is_empty() {
            return false;
        }
        let done: Vec<_> =
            self.sends.extract_if(.., |send| process.is_complete(send.request)).collect();
        for send in &done {
            let is_sent = process.finish(send.request).is_ok();
            let Some(connection) = self.connections.get_mut(send.connection) else { continue };
            connection.lent -= 1;
            let endpoint = connection.endpoint.and_then(|one| self.endpoints.get_mut(one));
            if is_sent && let Some(endpoint) = endpoint {
                endpoint.push(EndpointEvent {
                    kind: EndpointEventKind::Sent,
                    connection: send.connection,
                    context: send.context,
                    body: EventBody::Nothing,
                });
            }
            self.end_if_done(process, send.connection);
        }
        !done.is_empty()
    }
}

/// Drops a message that has arrived.
pub(crate) fn discard(process: &impl EndpointHost, message: MessageId) {
    if let Some(request) = process.receive_message(message, Buffer::empty()) {
        process.detach(request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_acceptance_is_tried_again() {
        let mut state = ServiceState::<mpi::Process>::default();
        assert_eq!(state.tick(), 0);
        state.is_refused = true;
        assert_eq!(state.tick(), TICK_CONNECTED);
    }
}
