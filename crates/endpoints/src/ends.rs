//! How connections end.

use std::collections::BTreeMap;
use std::time::Instant;

use base::{Error, ErrorClass, GateId};

use crate::connection::{Arrival, Connection, Silence, Stage};
use crate::event::{EndpointEvent, EndpointEventKind, EventBody};
use crate::host::EndpointHost;
use crate::keepalive::{KeepaliveStep, Traffic};
use crate::message::Word;
use crate::service::{ServiceState, Underway};

impl<Process: EndpointHost> ServiceState<Process> {
    /// Puts an event of a connection into the queue of its endpoint.
    pub fn push(&mut self, key: u32, kind: EndpointEventKind, body: EventBody) {
        let Some(connection) = self.connections.get(key) else { return };
        let context = connection.context;
        let endpoint = connection.endpoint.and_then(|one| self.endpoints.get_mut(one));
        if let Some(endpoint) = endpoint {
            endpoint.push(EndpointEvent { kind, connection: key, context, body });
        }
    }

    /// Removes a connection, and lets its peer go.
    pub fn remove(&mut self, process: &Process, key: u32) {
        self.end_meeting(process, key);
        let Some(ended) = self.connections.remove(key) else { return };
        if let Some(endpoint) = ended.endpoint.and_then(|one| self.endpoints.get_mut(one)) {
            endpoint.memory_left += ended.holdings.window();
        }
        ended.receives().for_each(|request| process.detach(request));
        for send in self.sends.extract_if(.., |send| send.connection == key) {
            process.detach(send.request);
        }
        if let Some(peer) = ended.peer {
            // Its gate may be closed soon.
            let has_failed = process.has_failed(peer.gate);
            if has_failed {
                self.batches.remove(&peer.gate);
            } else {
                self.send_batch(process, peer.gate);
            }
            if let Some(target) = ended.target
                && let Some(count) = self.met.get_mut(&target)
            {
                *count -= 1;
                if *count == 0 {
                    self.met.remove(&target);
                }
            }
            process.release_peer(peer.gate);
        }
    }

    fn end_meeting(&mut self, process: &Process, key: u32) {
        let is_it = |one: &mut Underway<Process>| matches!(one, Underway::Search(of, ..) | Underway::Meeting(of, _) if *of == key);
        self.waiting.retain_mut(|one| !is_it(one));
        for underway in self.meetings.extract_if(.., is_it) {
            if let Underway::Meeting(_, meeting) = underway {
                process.abandon(meeting);
            }
        }
    }

    /// Removes a connection that was not made, and reports the reason to the program.
    pub fn reject(&mut self, process: &Process, key: u32, body: EventBody) {
        self.push(key, EndpointEventKind::Rejected, body);
        self.remove(process, key);
    }

    /// Removes a connection whose peer has failed.
    pub fn lose(&mut self, process: &Process, key: u32, why: Error) {
        let Some(connection) = self.connections.get(key) else { return };
        let kind = match connection.stage {
            // The program does not know it.
            Stage::Introduced => return self.remove(process, key),
            Stage::Meeting | Stage::Awaiting => EndpointEventKind::Rejected,
            _ => EndpointEventKind::Lost,
        };
        self.push(key, kind, EventBody::Error(why));
        self.remove(process, key);
    }

    /// Removes the connections with a process that has failed.
    pub fn lose_peer(&mut self, process: &Process, gate: GateId) {
        if let Some(blocked) = self.blocked.remove(&gate) {
            blocked.discard(process);
        }
        let lost = self.connections.keys_where(|one| one.peer.is_some_and(|one| one.gate == gate));
        lost.into_iter().for_each(|key| self.lose_failed(process, key));
    }

    /// Removes a connection with a process that has failed.
    pub fn lose_failed(&mut self, process: &Process, key: u32) {
        if let Some(peer) = self.connections.get(key).and_then(|one| one.peer) {
            self.lose(process, key, peer_failed(process, peer.gate));
        }
    }

    /// Closes this end.
    pub fn begin_closing(&mut self, process: &Process, key: u32) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        match connection.stage {
            Stage::Meeting | Stage::Awaiting if connection.target.is_some() => {
                self.tell(process, key, &Word::Closed);
                self.push(key, EndpointEventKind::Closed, EventBody::Nothing);
                self.remove(process, key);
            }
            Stage::Meeting | Stage::Awaiting => self.remove(process, key),
            Stage::Introduced | Stage::Requested => {
                self.tell(process, key, &Word::Rejected(Vec::new()));
                self.remove(process, key);
            }
            Stage::Open => {
                connection.stage = Stage::Closing;
                connection.deadline = process.now().checked_add(connection.closing_max());
                connection.receives().for_each(|request| process.detach(request));
                connection.unordered.clear();
                connection.arriving.retain(|arrival| matches!(arrival, Arrival::End));
                let has_ended = connection.arriving.pop_front().is_some();
                self.tell(process, key, &Word::Closed);
                if has_ended {
                    self.note_end(process, key);
                }
            }
            Stage::Closing | Stage::Closed => {}
        }
    }

    /// Handles that the peer has closed its end, and all of its messages were delivered.
    pub fn note_end(&mut self, process: &Process, key: u32) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        match connection.stage {
            Stage::Introduced => return self.remove(process, key),
            Stage::Requested => {
                let detail = "the other program has given up before this one has answered";
                return self.lose(process, key, Error::new(ErrorClass::Port, detail));
            }
            Stage::Awaiting | Stage::Meeting => {
                let detail = "the other endpoint was closed";
                let why = EventBody::Error(Error::new(ErrorClass::Port, detail));
                return self.reject(process, key, why);
            }
            Stage::Open => {
                connection.stage = Stage::Closed;
                self.tell(process, key, &Word::Closed);
            }
            Stage::Closing => connection.stage = Stage::Closed,
            Stage::Closed => return,
        }
        self.end_if_done(process, key);
    }

    /// Removes a connection that both ends have closed, once no send uses memory of the program.
    pub fn end_if_done(&mut self, process: &Process, key: u32) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.stage != Stage::Closed || connection.lent > 0 {
            return;
        }
        let (kind, body) = match connection.failure.take() {
            Some(error) => (EndpointEventKind::Lost, EventBody::Error(error)),
            None => (EndpointEventKind::Closed, EventBody::Nothing),
        };
        self.push(key, kind, body);
        self.remove(process, key);
    }

    /// Ends the connections with processes that have failed.
    pub fn note_failures(&mut self, process: &Process) -> bool {
        if process.failures() == self.failures_noted {
            return false;
        }
        let failed: Vec<GateId> = process.failed();
        let known = std::mem::replace(&mut self.failures_noted, failed.len());
        failed.into_iter().skip(known).for_each(|gate| self.lose_peer(process, gate));
        true
    }

    /// Returns the interval of ticks for connections whose programs want to know when the peer is
    /// silent, in milliseconds.
    pub fn keepalive_tick(&self) -> u32 {
        let connections = self.kept_alive.iter().filter_map(|key| self.connections.get(*key));
        let ticks = connections.filter_map(|one| one.keepalive.as_ref()).map(|one| one.tick());
        ticks.min().unwrap_or(u32::MAX)
    }

    /// Returns what is underway, over all connections, between this process and each process whose
    /// silence a program wants to know.
    fn traffic(&self, process: &Process) -> BTreeMap<GateId, Traffic> {
        let gate_of = |one: &Connection<Process::Target>| one.peer.map(|peer| peer.gate);
        let mut traffic = BTreeMap::new();
        let kept = self.kept_alive.iter().filter_map(|key| self.connections.get(*key));
        for gate in kept.filter_map(gate_of) {
            traffic.entry(gate).or_insert_with(|| Traffic {
                arrived: self.space.map_or(0, |space| process.arrived_from(space, gate)),
                bytes_moved: 0,
                waiting: process.waiting(gate),
            });
        }
        for connection in self.connections.iter() {
            if let Some(traffic) = gate_of(connection).and_then(|gate| traffic.get_mut(&gate)) {
                let underway = connection.receives().chain(connection.outbox.sends());
                traffic.bytes_moved += underway.map(|one| process.bytes_moved(one)).sum::<u64>();
            }
        }
        for send in &self.sends {
            let gate = self.connections.get(send.connection).and_then(gate_of);
            if let Some(traffic) = gate.and_then(|gate| traffic.get_mut(&gate)) {
                traffic.bytes_moved += process.bytes_moved(send.request);
            }
        }
        traffic
    }

    /// Asks peers that are silent for a sign of life, and reports those that give none. Returns
    /// whether there were any.
    pub fn look_after_peers(&mut self, process: &Process, now: Instant) -> bool {
        if self.kept_alive.is_empty() {
            return false;
        }
        let mut active = false;
        let traffic = self.traffic(process);
        for key in std::mem::take(&mut self.kept_alive) {
            let connection = self.connections.get(key).filter(|one| one.stage == Stage::Open);
            let kept = connection.filter(|one| one.keepalive.is_some());
            let Some(gate) = kept.and_then(|one| one.peer).map(|peer| peer.gate) else { continue };
            let connection = self.connections.get_mut(key);
            let Some(keepalive) = connection.and_then(|one| one.keepalive.as_mut()) else {
                continue;
            };
            keepalive.note_traffic(traffic.get(&gate).copied().unwrap_or_default());
            let step = keepalive.look(now);
            self.kept_alive.push(key);
            match step {
                KeepaliveStep::Nothing => continue,
                KeepaliveStep::Ask => self.tell(process, key, &Word::Ask),
                KeepaliveStep::Report => {
                    self.push(key, EndpointEventKind::Silent, EventBody::Nothing);
                }
            }
            active = true;
        }
        active
    }

    /// Ends the connections whose peers have not answered in time.
    pub fn note_silence(&mut self, process: &Process) -> bool {
        let now = process.now();
        let late = self.connections.keys_where(|one| one.deadline.is_some_and(|at| at <= now));
        for key in &late {
            let Some(connection) = self.connections.get_mut(*key) else { continue };
            match connection.after_silence() {
                Silence::Closed => {
                    connection.stage = Stage::Closed;
                    self.end_if_done(process, *key);
                }
                Silence::Rejected => {
                    let detail = "the other program has not accepted the connection in time";
                    let why = Error::new(ErrorClass::Port, detail);
                    self.tell(process, *key, &Word::Closed);
                    self.reject(process, *key, EventBody::Error(why));
                }
                Silence::Removed => self.remove(process, *key),
                Silence::Ignored => connection.deadline = None,
            }
        }
        !late.is_empty()
    }
}

/// Why connections with a process that has failed end.
#[cold]
fn peer_failed(process: &impl EndpointHost, gate: GateId) -> Error {
    if process.was_tampered_with(gate) {
        let detail = "encrypted data from the other process was changed, repeated or left out on its \
                      way: something between both processes tampers with it";
        return Error::new(ErrorClass::Access, detail);
    }
    let detail = "the process at the other end has ended, or cannot be reached any more";
    Error::new(ErrorClass::ProcFailed, detail)
}
