//! What endpoints need of the process that they belong to: messages of its engine, meetings with
//! other processes, and the time. `sim` implements it with engines under a virtual clock, so that
//! it runs the code of the other modules itself, not a model of it.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{GateId, RegionToken, Result};
use dynamic::{MetPeer, PairMeeting, Port, PortSearch, PortSecret, PortSide, PortTarget, RootLink};
use engine::{ContextSlot, IncomingMessage, MessageId, RequestId, Send};
use memory::{Buffer, HeldBytes};
use mpi::{ActiveOperation, Process, RegionAccess, RegionError, Step};
use rustix::fd::OwnedFd;

use crate::service::Endpoints;
use crate::signal::Watcher;

/// The outcome of copying from or to a region of another process.
pub type RegionCopy = std::result::Result<(), RegionError>;

/// A process that can have endpoints.
pub trait EndpointHost: Sized {
    /// The port of an endpoint, at which other processes arrive.
    type Port: EndpointPort;
    /// A connection between two processes that have proved to each other that they have the key of
    /// a port.
    type Link;
    /// A search for a port.
    type Search: fmt::Debug;
    /// A number that is equal for all searches for one port.
    type Target: Copy + Eq + std::hash::Hash + fmt::Debug;
    /// The meeting of this process with another one over a link.
    type Meeting: fmt::Debug;
    /// What notices arriving connections and the passing of time.
    type Watcher: EndpointWatcher<Self::Port>;

    /// Returns the time.
    fn now(&self) -> Instant;

    /// Opens a port. Only processes with `secret` prove themselves there, if it is given.
    ///
    /// # Errors
    /// The system has no socket or random numbers.
    fn open_port(&self, secret: Option<&PortSecret>) -> io::Result<Self::Port>;
    /// Returns the next connection that has proved itself, if there is one. Each step of its
    /// meeting may take so long.
    ///
    /// # Errors
    /// The system cannot accept it.
    fn poll_accept(&self, port: &Self::Port, step_max: Duration) -> Result<Option<Self::Link>>;

    /// Begins the search for the port of a URI. Its process must answer within `limit`.
    ///
    /// # Errors
    /// `Port` if it is not the URI of a port, or contains no key and none is given.
    fn search(&self, uri: &str, limit: Duration, key: Option<&PortSecret>) -> Result<Self::Search>;
    /// Returns what the search is for.
    fn target(&self, search: &Self::Search) -> Self::Target;
    /// Advances a search; returns the connection once both processes have proved themselves.
    ///
    /// # Errors
    /// `Port` if the port is not found.
    fn poll_search(&self, search: &mut Self::Search) -> Result<Option<Self::Link>>;

    /// Begins a meeting. `words` is data for the other process.
    ///
    /// # Errors
    /// `Other` if the system has no random numbers.
    fn meet(&self, link: Self::Link, side: PortSide, words: &[u8]) -> Result<Self::Meeting>;
    /// Advances a meeting; returns the other process once both are ready for messages.
    ///
    /// # Errors
    /// `Port` if the connection is lost, or the other process sends nonsense.
    fn poll_meeting(&self, meeting: &mut Self::Meeting) -> Result<Option<MetPeer>>;
    /// Ends a meeting that has failed, or that is not needed any more.
    fn abandon(&self, meeting: Self::Meeting);
    /// Lets the gate of a process that was met be closed, unless something else uses it.
    fn release_peer(&self, gate: GateId);

    /// Starts what notices arriving connections.
    ///
    /// # Errors
    /// The system has no descriptor or thread.
    fn start_watcher(&self) -> io::Result<Self::Watcher>;
    /// Calls [`Endpoints::advance_all`] in each round of progress from now on.
    fn keep_advancing(&self, endpoints: &Rc<Endpoints<Self>>);
    /// Makes a round of progress.
    fn progress(&self);
    /// Makes progress until `done` returns true.
    fn wait_until(&self, done: &mut dyn FnMut() -> bool);
    /// Wakes the threads that wait for progress.
    fn wake_other_threads(&self);
    /// Prepares that the program waits for a descriptor.
    fn prepare_to_be_woken(&self);
    /// Counts a poll that has found nothing.
    fn record_empty_poll(&self);
    /// Makes an epoll descriptor readable when something arrives for this process.
    ///
    /// # Errors
    /// The system refuses it.
    fn watch_doorbell(&self, epoll: &Arc<OwnedFd>) -> io::Result<()>;

    /// Opens the message space of endpoints.
    fn open_endpoint_space(&self) -> ContextSlot;
    /// Sends a message if it can leave immediately; nothing has happened otherwise.
    fn try_send(&self, message: &Send) -> bool;
    /// Sends a message. Returns `None` if it has left already.
    fn send(&self, message: Send) -> Option<RequestId>;
    /// Returns how many messages wait for room on the rails to a process.
    fn waiting(&self, gate: GateId) -> usize;
    /// Takes the next message of a space from matching.
    fn next_message(&self, space: ContextSlot) -> Option<(MessageId, IncomingMessage)>;
    /// Returns the bytes of a message if all of them are here.
    fn take_message(&self, message: MessageId) -> Option<HeldBytes>;
    /// Receives a message into memory.
    fn receive_message(&self, message: MessageId, buffer: Buffer) -> Option<RequestId>;
    /// Lets a request complete without anybody asking for its outcome.
    fn detach(&self, request: RequestId);
    /// Whether a request is complete.
    fn is_complete(&self, request: RequestId) -> bool;
    /// Returns a number that changes with each message that arrives from a process in a space.
    fn arrived_from(&self, space: ContextSlot, gate: GateId) -> u32;
    /// Returns how many bytes of a long message have arrived, or were passed to rails; 0 before
    /// and after its transfer.
    fn bytes_moved(&self, request: RequestId) -> u64;
    /// Releases a complete request.
    ///
    /// # Errors
    /// Why the transfer has failed.
    fn finish(&self, request: RequestId) -> Result<()>;

    /// Returns how many processes have failed.
    fn failures(&self) -> usize;
    /// Returns the processes that have failed.
    fn failed(&self) -> Vec<GateId>;
    /// Whether a process has failed.
    fn has_failed(&self, gate: GateId) -> bool;
    /// Whether a process has failed for this one because something between both has changed
    /// encrypted data.
    fn was_tampered_with(&self, _gate: GateId) -> bool {
        false
    }
    /// Records that the process behind a gate has failed, if it has ended.
    fn notice_end(&self, gate: GateId);

    /// Lets the processes of this machine access memory; `None` if they cannot.
    fn declare_region(&self, buffer: &Buffer, access: RegionAccess) -> Option<RegionToken>;
    /// Ends the accesses to a region.
    fn revoke_region(&self, region: RegionToken);
    /// Whether this process accesses regions of another one.
    fn reaches_regions_of(&self, gate: GateId) -> bool;
    /// Reads a region of another process from `offset` on.
    ///
    /// # Errors
    /// Why that is impossible.
    fn read_region(&self, place: (GateId, RegionToken), offset: u64, into: &Buffer) -> RegionCopy;
    /// Writes a region of another process from `offset` on.
    ///
    /// # Errors
    /// Why that is impossible.
    fn write_region(&self, place: (GateId, RegionToken), offset: u64, from: &Buffer) -> RegionCopy;
}

/// The port of an endpoint.
pub trait EndpointPort: fmt::Debug {
    /// Returns its address.
    fn uri(&self) -> String;
    /// Returns how many connections were closed because they did not prove themselves.
    fn refused(&self) -> u64;
    /// Whether a look at the connections that have arrived takes long.
    fn is_crowded(&self) -> bool {
        false
    }
    /// Whether a connection that has arrived must be looked at again after a short time.
    fn must_be_polled(&self) -> bool;
}

/// Notices arriving connections and the passing of time.
pub trait EndpointWatcher<Port>: fmt::Debug {
    /// Notices connections at a port from now on.
    ///
    /// # Errors
    /// The system refuses it.
    fn watch(&self, port: &Port) -> io::Result<()>;
    /// Stops noticing them.
    fn forget(&self, port: &Port);
    /// Whether a connection has arrived, or time has passed, since this was called last.
    fn take_news(&self) -> bool;
    /// Whether a connection has arrived at a port since this was called last.
    fn take_arrivals(&self) -> bool {
        false
    }
    /// Makes [`take_news`](Self::take_news) return true once more.
    fn look_again(&self);
    /// Sets the interval in milliseconds after which there is news; 0: never.
    fn set_tick(&self, milliseconds: u32);
}

impl EndpointHost for Process {
    type Port = Port;
    type Link = RootLink;
    type Search = Box<PortSearch>;
    type Target = PortTarget;
    type Meeting = PairMeeting;
    type Watcher = Watcher;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn open_port(&self, secret: Option<&PortSecret>) -> io::Result<Port> {
        Port::for_many(secret)
    }

    fn poll_accept(&self, port: &Port, step_max: Duration) -> Result<Option<RootLink>> {
        port.poll_accept(step_max)
    }

    fn search(
        &self,
        uri: &str,
        limit: Duration,
        secret: Option<&PortSecret>,
    ) -> Result<Box<PortSearch>> {
        PortSearch::of_uri(uri, limit, secret).map(Box::new)
    }

    fn target(&self, search: &Box<PortSearch>) -> PortTarget {
        search.target()
    }

    fn poll_search(&self, search: &mut Box<PortSearch>) -> Result<Option<RootLink>> {
        search.poll()
    }

    fn meet(&self, link: RootLink, side: PortSide, words: &[u8]) -> Result<PairMeeting> {
        PairMeeting::new(self, link, side, words)
    }

    fn poll_meeting(&self, meeting: &mut PairMeeting) -> Result<Option<MetPeer>> {
        meeting.poll(self)
    }

    fn abandon(&self, meeting: PairMeeting) {
        meeting.abandon(self);
    }

    fn release_peer(&self, gate: GateId) {
        dynamic::release_peer(self, gate);
    }

    fn start_watcher(&self) -> io::Result<Watcher> {
        let doorbell = self.doorbell().map(Arc::clone);
        Watcher::start(move || doorbell.iter().for_each(|bell| bell.ring()))
    }

    fn keep_advancing(&self, endpoints: &Rc<Endpoints>) {
        self.keep_advancing(Rc::clone(endpoints) as _);
    }

    fn progress(&self) {
        self.progress();
    }

    fn wait_until(&self, done: &mut dyn FnMut() -> bool) {
        self.wait_until(&mut |_| done());
    }

    fn wake_other_threads(&self) {
        self.wake_other_threads();
    }

    fn prepare_to_be_woken(&self) {
        self.prepare_to_be_woken();
    }

    fn record_empty_poll(&self) {
        self.record_empty_poll();
    }

    fn watch_doorbell(&self, epoll: &Arc<OwnedFd>) -> io::Result<()> {
        self.doorbell().map_or(Ok(()), |bell| bell.watch(epoll))
    }

    fn open_endpoint_space(&self) -> ContextSlot {
        self.open_endpoint_space()
    }

    fn try_send(&self, message: &Send) -> bool {
        self.runtime().try_send(message)
    }

    fn send(&self, message: Send) -> Option<RequestId> {
        self.runtime().send(message)
    }

    fn waiting(&self, gate: GateId) -> usize {
        self.runtime().waiting(gate)
    }

    fn next_message(&self, space: ContextSlot) -> Option<(MessageId, IncomingMessage)> {
        self.runtime().matched_probe(space, None, None)
    }

    fn take_message(&self, message: MessageId) -> Option<HeldBytes> {
        self.runtime().take_message(message)
    }

    fn receive_message(&self, message: MessageId, buffer: Buffer) -> Option<RequestId> {
        self.runtime().receive_message(message, buffer)
    }

    fn detach(&self, request: RequestId) {
        self.runtime().detach(request);
    }

    fn is_complete(&self, request: RequestId) -> bool {
        (**self).is_complete(request)
    }

    fn arrived_from(&self, space: ContextSlot, gate: GateId) -> u32 {
        self.runtime().next_arrival(space, gate)
    }

    fn bytes_moved(&self, request: RequestId) -> u64 {
        self.runtime().bytes_moved(request)
    }

    fn finish(&self, request: RequestId) -> Result<()> {
        (**self).finish(request)
    }

    fn failures(&self) -> usize {
        self.runtime().failed().len()
    }

    fn failed(&self) -> Vec<GateId> {
        self.runtime().failed().to_vec()
    }

    fn has_failed(&self, gate: GateId) -> bool {
        self.runtime().failed().contains(&gate)
    }

    fn was_tampered_with(&self, gate: GateId) -> bool {
        self.runtime().was_tampered_with(gate)
    }

    fn notice_end(&self, gate: GateId) {
        self.runtime().notice_end(gate);
    }

    fn declare_region(&self, buffer: &Buffer, access: RegionAccess) -> Option<RegionToken> {
        // Only messages can be recorded.
        if self.runtime().records() {
            return None;
        }
        self.runtime().regions().declare(buffer, access)
    }

    fn revoke_region(&self, region: RegionToken) {
        let revoked = self.runtime().regions().revoke(region);
        debug_assert!(revoked.is_ok(), "it was declared when the memory was registered");
    }

    fn reaches_regions_of(&self, gate: GateId) -> bool {
        self.runtime().reaches_regions_of(gate)
    }

    fn read_region(
        &self,
        (gate, region): (GateId, RegionToken),
        offset: u64,
        into: &Buffer,
    ) -> std::result::Result<(), RegionError> {
        let mut runtime = self.runtime();
        runtime.regions().read_region(gate, region, offset as usize, into.len(), into, 0)
    }

    fn write_region(
        &self,
        (gate, region): (GateId, RegionToken),
        offset: u64,
        from: &Buffer,
    ) -> std::result::Result<(), RegionError> {
        let mut runtime = self.runtime();
        runtime.regions().write_region(gate, region, offset as usize, from.len(), from, 0)
    }
}

impl EndpointPort for Port {
    fn is_crowded(&self) -> bool {
        self.is_crowded()
    }

    fn uri(&self) -> String {
        self.uri()
    }

    fn refused(&self) -> u64 {
        self.refused()
    }

    fn must_be_polled(&self) -> bool {
        self.must_be_polled()
    }
}

impl EndpointWatcher<Port> for Watcher {
    fn watch(&self, port: &Port) -> io::Result<()> {
        self.watch(port.socket())
    }

    fn forget(&self, port: &Port) {
        self.forget(port.socket());
    }

    fn take_news(&self) -> bool {
        self.take_news()
    }

    fn take_arrivals(&self) -> bool {
        self.take_arrivals()
    }

    fn look_again(&self) {
        self.look_again();
    }

    fn set_tick(&self, milliseconds: u32) {
        self.set_tick(milliseconds);
    }
}

impl ActiveOperation for Endpoints {
    fn noun(&self) -> &'static str {
        "the endpoints of the program"
    }

    fn advance(&self, process: &Process) -> Step {
        // Without endpoints, too: a send of a peer that waits for its receipt ends only when this
        // process takes the message.
        if self.advance_all(process) { Step::Active } else { Step::Idle }
    }
}
