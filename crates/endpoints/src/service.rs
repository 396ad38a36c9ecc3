//! The endpoints of a process: what a program asks of them.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::{Error, ErrorClass, GateId, Result};
use dynamic::PortSecret;
use engine::{ContextSlot, RequestId, Send};
use memory::Buffer;

use crate::batches::{BATCHED_BYTES_MAX, Batch};
use crate::blocked::BlockedGate;
use crate::connection::{Connection, ConnectionPeer, Outbox, Stage, cost};
use crate::endpoint::Endpoint;
use crate::event::EndpointEvent;
use crate::host::{EndpointHost, EndpointPort, EndpointWatcher};
use crate::keepalive::Keepalive;
use crate::message::{CONTROL, Control, Introduction, UNORDERED, Word};
use crate::slots::Slots;

/// All endpoints of a process, which make progress with it.
pub struct Endpoints<Process: EndpointHost = mpi::Process> {
    pub(crate) state: RefCell<ServiceState<Process>>,
    pub(crate) watcher: OnceCell<Process::Watcher>,
    /// Whether the process advances the endpoints.
    pub(crate) is_advanced: Cell<bool>,
    /// Whether processes meet.
    pub(crate) meets: Cell<bool>,
    /// For how many rounds a connection that has arrived is still looked at in each round.
    pub(crate) looks: Cell<u32>,
    /// How many threads wait until some time, and the interval of ticks that they need, in
    /// milliseconds.
    timed_waits: Cell<u32>,
    wait_tick: Cell<u32>,
}

pub(crate) struct ServiceState<Process: EndpointHost> {
    /// The message space of endpoints, once there was one.
    pub space: Option<ContextSlot>,
    pub endpoints: Slots<Endpoint<Process::Port>>,
    pub connections: Slots<Connection<Process::Target>>,
    pub meetings: Vec<Underway<Process>>,
    /// Searches that have not begun.
    pub waiting: VecDeque<Underway<Process>>,
    /// How many connections lead to each endpoint whose process was met.
    pub met: HashMap<Process::Target, u32>,
    /// The processes whose messages wait for an earlier one that is arriving.
    pub blocked: BTreeMap<GateId, BlockedGate>,
    /// The short messages that wait, by the process for which they are.
    pub batches: BTreeMap<GateId, Batch>,
    /// The connections at which messages are arriving.
    pub arriving: Vec<u32>,
    /// The sends whose memory belongs to the program.
    pub sends: Vec<LentSend>,
    /// The connections whose programs want to know when the peer is silent; some may have ended.
    pub kept_alive: Vec<u32>,
    /// The connections at which a message could not be sent because earlier ones had not left.
    pub held_up: Vec<u32>,
    /// How many failed processes were noted.
    pub failures_noted: usize,
    /// Whether an endpoint could not accept all that connect.
    pub is_refused: bool,
    /// When processes are next checked for whether they have ended.
    pub checks_next: Option<Instant>,
}

/// A connection whose processes meet.
pub(crate) enum Underway<Process: EndpointHost> {
    Search(u32, Process::Search, Introduction),
    Meeting(u32, Process::Meeting),
}

/// A send whose memory belongs to the program until it is complete.
#[derive(Debug)]
pub(crate) struct LentSend {
    pub connection: u32,
    pub request: RequestId,
    pub context: usize,
}

/// The options of an endpoint.
#[derive(Debug)]
pub struct EndpointOptions {
    /// The memory for messages that have arrived and were not returned, in bytes. It bounds the
    /// number of connections, too: each gets some of it.
    pub memory: u64,
    /// What all processes have that connect to the endpoint, or to which it connects. Its URI then
    /// contains no key.
    pub secret: Option<PortSecret>,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self { memory: 256 << 20, secret: None }
    }
}

/// A connection that a program wants.
#[derive(Clone, Copy, Debug)]
pub struct ConnectRequest<'a> {
    /// The URI of the other endpoint.
    pub uri: &'a str,
    /// Data for the other program, which decides whether it accepts: at most 1024 bytes.
    pub data: &'a [u8],
    /// The word that events of the connection contain.
    pub context: usize,
    /// How long the other program may take to answer.
    pub timeout: Duration,
}

/// A message that a program sends.
#[derive(Debug)]
pub struct EndpointSend {
    /// The bytes. Without `completion` they are used during the call only; otherwise until the
    /// event `Sent`, or the end of the connection.
    pub data: Buffer,
    /// The word of the event `Sent`, if the program wants the event. Not for unreliable messages,
    /// which may never arrive.
    pub completion: Option<usize>,
    /// Whether and in which order the message arrives.
    pub delivery: EndpointDelivery,
}

/// How a message is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointDelivery {
    /// Once, and after the messages that were sent before.
    Ordered,
    /// Once, and as soon as it is there, even if a longer message before it is not.
    Unordered,
    /// Like `Unordered`, or not at all: it is dropped if the peer must return messages first, or
    /// earlier messages have not left this process.
    Unreliable,
}

/// Unreliable messages are dropped while so many messages wait for room on the rails to the peer. A
/// batch is one.
const UNRELIABLE_WAITING_MAX: usize = 8;

/// The largest number of bytes that go with a request for a connection, or a rejection.
pub(crate) const REQUEST_BYTES_MAX: usize = 1024;

/// The longest message in bytes.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 1 << 30;

/// How long the peer may take to close its end of a connection.
pub(crate) const CLOSING_MAX: Duration = Duration::from_secs(10);

/// The longest interval of ticks for a wait, in milliseconds.
const TICK_MAX: u32 = 250;

/// How long [`Endpoints::close`] waits for the other ends.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

impl<Process: EndpointHost> Default for Endpoints<Process> {
    fn default() -> Self {
        let (state, watcher) = Default::default();
        let (is_advanced, meets, looks, timed_waits, wait_tick) = Default::default();
        Self { state, watcher, is_advanced, meets, looks, timed_waits, wait_tick }
    }
}

impl<Process: EndpointHost> Default for ServiceState<Process> {
    fn default() -> Self {
        let (endpoints, connections, meetings, waiting) = Default::default();
        let (met, blocked, batches, arriving, sends) = Default::default();
        let (kept_alive, held_up) = Default::default();
        Self {
            space: None,
            endpoints,
            connections,
            meetings,
            waiting,
            met,
            blocked,
            batches,
            arriving,
            sends,
            kept_alive,
            held_up,
            failures_noted: 0,
            is_refused: false,
            checks_next: None,
        }
    }
}

impl<Process: EndpointHost> Endpoints<Process> {
    /// Opens an endpoint, and returns its key. The process must have joined its job.
    ///
    /// # Errors
    /// `Other` if the system refuses a socket, a thread or random numbers.
    pub fn open(self: &Rc<Self>, process: &Process, options: EndpointOptions) -> Result<u32> {
        let refused = |cause: std::io::Error| {
            Error::new(ErrorClass::Other, format!("no endpoint can be opened: {cause}"))
        };
        let port = process.open_port(options.secret.as_ref()).map_err(refused)?;
        if self.watcher.get().is_none() {
            let started = process.start_watcher().map_err(refused)?;
            let _ = self.watcher.set(started);
        }
        if let Some(watcher) = self.watcher.get() {
            watcher.watch(&port).map_err(refused)?;
        }
        let mut state = self.state.borrow_mut();
        state.space.get_or_insert_with(|| process.open_endpoint_space());
        let opened = state.endpoints.insert(Endpoint::new(port, options.memory, options.secret));
        drop(state);
        if !self.is_advanced.replace(true) {
            process.keep_advancing(self);
        }
        opened.ok_or_else(too_many)
    }

    /// Returns the address of an endpoint.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint.
    pub fn uri(&self, endpoint: u32) -> Result<String> {
        self.with_endpoint(endpoint, |one| one.port.uri())
    }

    /// Returns how many connections were closed because their other sides did not prove that they
    /// have the key of the endpoint.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint.
    pub fn refused(&self, endpoint: u32) -> Result<u64> {
        self.with_endpoint(endpoint, |one| one.port.refused())
    }

    /// Returns the number of a descriptor that is readable while the endpoint has events.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint; `Other` if the system has no descriptors left.
    pub fn descriptor(&self, process: &Process, endpoint: u32) -> Result<i32> {
        let number = self.with_endpoint(endpoint, |one| one.descriptor(process))?;
        number.map_err(|cause| Error::new(ErrorClass::Other, cause.to_string()))
    }

    /// Returns the next event of an endpoint, if there is one after a round of progress.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint.
    pub fn poll(&self, process: &Process, endpoint: u32) -> Result<Option<EndpointEvent>> {
        if let Some(event) = self.with_endpoint(endpoint, Endpoint::pop)? {
            return Ok(Some(event));
        }
        if self.with_endpoint(endpoint, |one| one.has_descriptor())? {
            return self.poll_before_wait(process, endpoint);
        }
        process.progress();
        let event = self.with_endpoint(endpoint, Endpoint::pop)?;
        if event.is_none() {
            process.record_empty_poll();
        }
        Ok(event)
    }

    /// Polls for a program that waits for the descriptor if there is no event.
    fn poll_before_wait(&self, process: &Process, endpoint: u32) -> Result<Option<EndpointEvent>> {
        self.with_endpoint(endpoint, |one| one.set_polling(true))?;
        process.progress();
        let mut event = self.with_endpoint(endpoint, Endpoint::pop)?;
        if event.is_none() {
            process.prepare_to_be_woken();
            event = self.with_endpoint(endpoint, Endpoint::pop)?;
        }
        self.with_endpoint(endpoint, |one| one.set_polling(false))?;
        Ok(event)
    }

    /// Waits for the next event of an endpoint, if a `limit` is given at most so long.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint.
    pub fn wait(
        &self,
        process: &Process,
        endpoint: u32,
        limit: Option<Duration>,
    ) -> Result<Option<EndpointEvent>> {
        let mut found = self.with_endpoint(endpoint, Endpoint::pop);
        if !matches!(found, Ok(None)) {
            return found;
        }
        self.wait_at_most(process, limit, &mut || {
            if let Ok(None) = found {
                found = self.with_endpoint(endpoint, Endpoint::pop);
            }
            !matches!(found, Ok(None))
        });
        found
    }

    fn wait_at_most(
        &self,
        process: &Process,
        limit: Option<Duration>,
        done: &mut dyn FnMut() -> bool,
    ) {
        let deadline = limit.and_then(|limit| process.now().checked_add(limit));
        let Some((deadline, limit)) = deadline.zip(limit) else {
            return process.wait_until(done);
        };
        // Shorter waits are ended more precisely.
        let tick = (limit.as_millis() / 8).clamp(1, TICK_MAX.into()) as u32;
        let others = if self.timed_waits.get() > 0 { self.wait_tick.get() } else { tick };
        self.wait_tick.set(tick.min(others));
        self.timed_waits.set(self.timed_waits.get() + 1);
        self.set_tick();
        process.wait_until(&mut || done() || process.now() >= deadline);
        self.timed_waits.set(self.timed_waits.get() - 1);
    }

    /// Returns the interval of ticks that waiting threads need, in milliseconds.
    pub(crate) fn wait_tick(&self) -> Option<u32> {
        (self.timed_waits.get() > 0).then(|| self.wait_tick.get())
    }

    /// Begins to connect to another endpoint, and returns the key of the connection.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint; `Port` if the URI is none, or contains no key and the
    /// endpoint has no secret; `Count` if the data is too
    /// long; `NoSpace` if the endpoint has no memory for another connection.
    pub fn connect(
        &self,
        process: &Process,
        endpoint: u32,
        request: &ConnectRequest<'_>,
    ) -> Result<u32> {
        check_length(request.data)?;
        let mut state = self.state.borrow_mut();
        let owner = state.endpoints.get(endpoint).ok_or_else(unknown_endpoint)?;
        let search = process.search(request.uri, request.timeout, owner.secret.as_ref())?;
        let deadline = process.now().checked_add(request.timeout);
        let key = state.add_connection(endpoint, (Stage::Meeting, request.context), deadline)?;
        let introduction = state.introduction(key, request.data);
        if let Some(connection) = state.connections.get_mut(key) {
            connection.target = Some(process.target(&search));
        }
        state.waiting.push_back(Underway::Search(key, search, introduction));
        drop(state);
        self.look_again();
        process.progress();
        Ok(key)
    }

    /// Accepts a connection.
    ///
    /// # Errors
    /// `Arg` if no connection of this key waits for an answer: it was answered before, or the
    /// other process has ended or given up.
    pub fn accept(&self, process: &Process, key: u32, context: usize) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let connection = state.requested(key)?;
        (connection.stage, connection.context) = (Stage::Open, context);
        state.tell(process, key, &Word::Accepted);
        Ok(())
    }

    /// Rejects a connection, with data for the other program.
    ///
    /// # Errors
    /// Those of [`accept`](Self::accept); `Count` if the data is too long.
    pub fn reject(&self, process: &Process, key: u32, data: &[u8]) -> Result<()> {
        check_length(data)?;
        let mut state = self.state.borrow_mut();
        state.requested(key)?;
        state.tell(process, key, &Word::Rejected(data.to_vec()));
        state.remove(process, key);
        Ok(())
    }

    /// Closes this end of a connection: what was sent arrives, and what arrives is dropped. The
    /// event `Closed` follows, unless the connection waits for the answer of this program.
    ///
    /// # Errors
    /// `Arg` if there is no such connection.
    pub fn disconnect(&self, process: &Process, key: u32) -> Result<()> {
        let mut state = self.state.borrow_mut();
        state.connections.get(key).ok_or_else(|| unknown_connection(key))?;
        state.begin_closing(process, key);
        Ok(())
    }

    /// Reports the event `Silent` from now on when nothing arrives at a connection for `limit`,
    /// although the peer is asked for a sign of life; `None`: no longer.
    ///
    /// # Errors
    /// `Arg` if there is no such connection, or it is not open.
    pub fn set_keepalive(
        &self,
        process: &Process,
        key: u32,
        limit: Option<Duration>,
    ) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let connection = state.connections.get_mut(key).ok_or_else(|| unknown_connection(key))?;
        if connection.stage != Stage::Open {
            return Err(not_open(connection.stage));
        }
        let begin = |limit| Box::new(Keepalive::new(limit, process.now()));
        connection.keepalive = limit.map(begin);
        if limit.is_some() && !state.kept_alive.contains(&key) {
            state.kept_alive.push(key);
        }
        drop(state);
        self.set_tick();
        Ok(())
    }

    /// Puts the event `Woken` into the queue of an endpoint, unless it is there, and wakes the
    /// threads that wait.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint.
    pub fn wake(&self, process: &Process, endpoint: u32) -> Result<()> {
        self.with_endpoint(endpoint, Endpoint::push_wake)?;
        process.wake_other_threads();
        Ok(())
    }

    /// Sends a message. Returns false if the peer must return messages first: then the event
    /// `Writable` follows.
    ///
    /// # Errors
    /// `Arg` if there is no such connection, or it is not open; `Count` if the message is longer
    /// than 1 GiB.
    pub fn send(&self, process: &Process, key: u32, send: EndpointSend) -> Result<bool> {
        let EndpointSend { data, completion, delivery } = send;
        let bytes = data.len() as u64;
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let connection = state.connections.get_mut(key).ok_or_else(|| unknown_connection(key))?;
        let Some(peer) = connection.peer.filter(|_| connection.stage == Stage::Open) else {
            return Err(not_open(connection.stage));
        };
        if bytes > MESSAGE_BYTES_MAX {
            return Err(too_long(data.len()));
        }
        if delivery == EndpointDelivery::Unreliable {
            state.send_unreliable(process, key, &data);
            return Ok(true);
        }
        if delivery == EndpointDelivery::Ordered && connection.transfers.holds_messages() {
            connection.credit.is_awaited = true;
            return Ok(false);
        }
        let tag = tag_of(peer, delivery);
        if !state.has_room_for(process, key, cost(bytes)) {
            state.connections.get_mut(key).into_iter().for_each(|one| one.credit.is_awaited = true);
            return Ok(false);
        }
        let Some(space) = state.space else { return Err(unknown_connection(key)) };
        match completion {
            Some(context) => {
                let mut message = message_to(peer, space, tag, data);
                message.synchronous = true;
                state.send_batch(process, peer.gate);
                let request = process.send(message);
                let Some(connection) = state.connections.get_mut(key) else { return Ok(true) };
                connection.credit.take(cost(bytes));
                if let Some(request) = request {
                    connection.lent += 1;
                    state.sends.push(LentSend { connection: key, request, context });
                }
            }
            None => state.post(process, key, tag, &data),
        }
        Ok(true)
    }

    /// Returns how many unreliable messages of a connection were dropped at this end.
    ///
    /// # Errors
    /// `Arg` if there is no such connection.
    pub fn dropped(&self, key: u32) -> Result<u64> {
        let state = self.state.borrow();
        let connection = state.connections.get(key).ok_or_else(|| unknown_connection(key))?;
        Ok(connection.dropped)
    }

    /// Returns a copy of the bytes that an event has lent; `None` if there are none with this key.
    pub fn copy_of_lent(&self, endpoint: u32, lent: u32) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        Some(state.endpoints.get(endpoint)?.lent.get(lent)?.content.to_vec())
    }

    /// Whether nothing of a connection is left: no connection, meeting, message or send.
    pub fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        state.connections.is_empty()
            && state.meetings.is_empty()
            && state.waiting.is_empty()
            && state.blocked.is_empty()
            && state.batches.is_empty()
            && state.sends.is_empty()
            && state.met.is_empty()
    }

    /// Returns a message that an event has lent.
    ///
    /// # Errors
    /// `Arg` if the endpoint has lent no such message, or it was returned before.
    pub fn give_back(&self, process: &Process, endpoint: u32, lent: u32) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let owner = state.endpoints.get_mut(endpoint).ok_or_else(unknown_endpoint)?;
        let message = owner.lent.remove(lent).ok_or_else(|| {
            let detail = "contains no message that must be returned: it was returned before, or is \
                          not of this endpoint";
            Error::new(ErrorClass::Arg, detail)
        })?;
        let report = state
            .connections
            .get_mut(message.connection)
            .and_then(|connection| connection.holdings.give_back(message.cost));
        if let Some(bytes) = report {
            state.tell(process, message.connection, &Word::Returned(bytes));
        }
        Ok(())
    }

    /// Returns a connection of which the program holds so many messages that its peer may be unable
    /// to send; `None` if none is known.
    pub fn exhausted_connection(&self, endpoint: u32) -> Option<u32> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let owner = state.endpoints.get_mut(endpoint)?;
        let connection = state.connections.get(owner.exhausted?);
        if !connection.is_some_and(|one| one.holdings.is_exhausted()) {
            owner.exhausted = None;
        }
        owner.exhausted
    }

    /// Closes an endpoint and its connections. Its events and the messages that it has lent are
    /// dropped. Waits a short time for the other ends.
    ///
    /// # Errors
    /// `Arg` if there is no such endpoint.
    pub fn close(&self, process: &Process, endpoint: u32) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let closed = state.endpoints.remove(endpoint).ok_or_else(unknown_endpoint)?;
        if let Some(watcher) = self.watcher.get() {
            watcher.forget(&closed.port);
        }
        closed.end(process);
        let keys = state.connections.keys_where(|one| one.endpoint == Some(endpoint));
        for key in &keys {
            if let Some(connection) = state.connections.get_mut(*key) {
                connection.endpoint = None;
            }
            state.begin_closing(process, *key);
        }
        drop(state);
        self.wait_at_most(process, Some(CLOSE_WAIT_MAX), &mut || {
            let state = self.state.borrow();
            !keys.iter().any(|key| state.connections.get(*key).is_some())
        });
        // Peers that do not answer are given up.
        let mut state = self.state.borrow_mut();
        for key in keys {
            if state.connections.get(key).is_some() {
                state.remove(process, key);
            }
        }
        Ok(())
    }

    fn with_endpoint<T>(
        &self,
        endpoint: u32,
        inspect: impl FnOnce(&mut Endpoint<Process::Port>) -> T,
    ) -> Result<T> {
        let mut state = self.state.borrow_mut();
        state.endpoints.get_mut(endpoint).map(inspect).ok_or_else(unknown_endpoint)
    }
}

impl<Process: EndpointHost> ServiceState<Process> {
    /// Adds a connection of an endpoint, with stage and word of the program.
    pub fn add_connection(
        &mut self,
        endpoint: u32,
        start: (Stage, usize),
        deadline: Option<Instant>,
    ) -> Result<u32> {
        let owner = self.endpoints.get_mut(endpoint).ok_or_else(unknown_endpoint)?;
        let window = owner.grant_window().ok_or_else(too_many)?;
        let mut added = Connection::new(start, window, deadline);
        added.endpoint = Some(endpoint);
        self.connections.insert(added).ok_or_else(too_many)
    }

    /// Returns what a new connection sends first.
    pub fn introduction(&self, key: u32, data: &[u8]) -> Introduction {
        let window = self.connections.get(key).map_or(0, |one| one.holdings.window());
        Introduction { key, window, data: data.to_vec() }
    }

    fn requested(&mut self, key: u32) -> Result<&mut Connection<Process::Target>> {
        let found = self.connections.get_mut(key).filter(|one| one.stage == Stage::Requested);
        found.ok_or_else(|| {
            let detail = "does not wait for an answer: it was answered before, or the other process \
                          has given up or ended";
            Error::new(ErrorClass::Arg, detail)
        })
    }

    /// Sends a message about a connection to its other end.
    pub fn tell(&mut self, process: &Process, key: u32, word: &Word) {
        let peer = self.connections.get(key).and_then(|one| one.peer);
        let Some((peer, space)) = peer.zip(self.space) else { return };
        self.send_batch(process, peer.gate);
        let Some(connection) = self.connections.get_mut(key) else { return };
        let bytes = Control::encode(peer.key, word);
        let buffer = Buffer::zeroed(bytes.len());
        buffer.write(0, &bytes);
        let message = message_to(peer, space, CONTROL, buffer);
        send_owned(process, message, (&mut connection.outbox, 0));
    }

    /// Sends an unreliable message, or drops it.
    fn send_unreliable(&mut self, process: &Process, key: u32, data: &Buffer) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(peer) = connection.peer else { return };
        let (cost, window) = (cost(data.len() as u64), connection.credit.window());
        let is_complete = |send| process.is_complete(send);
        let has_room = connection.credit.has_room_for(cost)
            && process.waiting(peer.gate) < UNRELIABLE_WAITING_MAX
            && connection.outbox.has_room_for(window, cost, is_complete);
        if has_room {
            self.post(process, key, tag_of(peer, EndpointDelivery::Unreliable), data);
        } else {
            connection.dropped += 1;
        }
    }

    /// Sends bytes to the other end of a connection, which are used during the call only, and takes
    /// their cost from its window.
    pub fn post(&mut self, process: &Process, key: u32, tag: i32, data: &Buffer) {
        let connection = self.connections.get_mut(key);
        let Some((connection, space)) = connection.zip(self.space) else { return };
        let Some(peer) = connection.peer else { return };
        let cost = cost(data.len() as u64);
        connection.credit.take(cost);
        let mut message = message_to(peer, space, tag, data.clone());
        let has_batch = self.has_batch(peer.gate);
        if !has_batch && process.try_send(&message) {
            return;
        }
        let waits = has_batch || process.waiting(peer.gate) > 0;
        if waits && data.len() <= BATCHED_BYTES_MAX {
            return self.add_to_batch(process, peer.gate, (tag, data), (key, cost));
        }
        self.send_batch(process, peer.gate);
        let Some(connection) = self.connections.get_mut(key) else { return };
        message.buffer = copy_of(data);
        send_owned(process, message, (&mut connection.outbox, cost));
    }

    /// Whether a message of this cost can be sent.
    pub fn has_room_for(&mut self, process: &Process, key: u32, cost: u64) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if !connection.credit.has_room_for(cost) {
            return false;
        }
        let window = connection.credit.window();
        let is_complete = |send| process.is_complete(send);
        let has_room = connection.outbox.has_room_for(window, cost, is_complete);
        if !has_room && !self.held_up.contains(&key) {
            self.held_up.push(key);
        }
        has_room
    }

    /// Continues at connections that had no room, although their peers have returned everything,
    /// because the messages had not left this process.
    pub fn resume(&mut self, process: &Process) -> bool {
        let mut active = false;
        for key in std::mem::take(&mut self.held_up) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let window = connection.credit.window();
            if connection.outbox.is_free(window, |send| process.is_complete(send)) {
                active = true;
                self.pump(process, key);
                self.note_room(key);
            } else {
                self.held_up.push(key);
            }
        }
        active
    }
}

/// Returns the tag of messages to this end.
pub(crate) fn tag_of(peer: ConnectionPeer, delivery: EndpointDelivery) -> i32 {
    let tag = peer.key as i32;
    if delivery == EndpointDelivery::Ordered { tag } else { tag | UNORDERED }
}

fn message_to(peer: ConnectionPeer, space: ContextSlot, tag: i32, buffer: Buffer) -> Send {
    let gate = peer.gate;
    Send { gate, peer: gate.0, context: space, tag, synchronous: false, buffer }
}

/// Sends a message whose memory belongs to the library.
fn send_owned(process: &impl EndpointHost, message: Send, (outbox, cost): (&mut Outbox, u64)) {
    if let Some(request) = process.send(message) {
        process.detach(request);
        outbox.add(request, cost, |send| process.is_complete(send));
    }
}

/// Copies bytes of the program.
pub(crate) fn copy_of(data: &Buffer) -> Buffer {
    let copy = Buffer::zeroed(data.len());
    data.copy_to(&copy);
    copy
}

#[cold]
pub(crate) fn too_long(bytes: usize) -> Error {
    let detail = format!("is {bytes}, but a message may have {MESSAGE_BYTES_MAX} bytes");
    Error::new(ErrorClass::Count, detail)
}

fn check_length(data: &[u8]) -> Result<()> {
    if data.len() <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("is {}, but may be {REQUEST_BYTES_MAX} at most", data.len());
    Err(Error::new(ErrorClass::Count, detail))
}

#[cold]
pub(crate) fn unknown_endpoint() -> Error {
    Error::new(ErrorClass::Arg, "names no endpoint: it was closed, or never opened")
}

#[cold]
pub(crate) fn unknown_connection(key: u32) -> Error {
    let detail = format!("is {key:#x}, which names no connection: it has ended, or never existed");
    Error::new(ErrorClass::Arg, detail)
}

#[cold]
pub(crate) fn not_open(stage: Stage) -> Error {
    let why = match stage {
        Stage::Meeting | Stage::Awaiting => "is not accepted yet: wait for the event CONNECTED",
        Stage::Introduced | Stage::Requested => "is not accepted yet: call combray_accept first",
        Stage::Closing => "was closed by this program",
        Stage::Open | Stage::Closed => "was closed by the other program",
    };
    Error::new(ErrorClass::Arg, why)
}

#[cold]
fn too_many() -> Error {
    let detail = "has no memory left for another connection: close connections, or open the \
                  endpoint with a larger value of \"memory\"";
    Error::new(ErrorClass::NoSpace, detail)
}

impl<Process: EndpointHost> fmt::Debug for Endpoints<Process> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoints({:?})", self.watcher)
    }
}
