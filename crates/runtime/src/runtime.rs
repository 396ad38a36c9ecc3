//! The way of a message between the engine and the rails.

use std::sync::Arc;
use std::time::Instant;

use base::{ContextId, GateId, RailId, RailProfile};
use driver::{Doorbell, Driver, DriverError, Loopback, Sink};
use driver_shm::Shm;
use engine::strategy::{self, Strategy};
use engine::{
    ContextSlot, Engine, Incoming, MessageId, Outcome, Planned, Preferences, Receive, RequestId,
    Send as SendCommand,
};
use memory::Buffer;

use crate::configuration::Configuration;
use crate::copying::{Choice, Mechanism};
use crate::instruments::Instruments;
use crate::instruments::journal::{Kind, number_of};
use crate::receiver::Heard;
use crate::wire_up::Fatal;

/// The rail from the process to itself.
pub(crate) const LOOPBACK: RailId = RailId(0);
/// The rail between the processes of a machine.
pub(crate) const SHM: RailId = RailId(1);

/// One process's engine with its rails.
pub struct Runtime {
    own: GateId,
    engine: Engine,
    loopback: Loopback,
    shm: Shm,
    heard: Heard,
    copying: Choice,
    fatal: Fatal,
    instruments: Instruments,
}

impl Runtime {
    pub(crate) fn new(
        own: GateId,
        engine: Engine,
        loopback: Loopback,
        shm: Shm,
        fatal: Fatal,
        instruments: Instruments,
    ) -> Self {
        let (heard, copying) = (Heard::default(), Choice::default());
        let mut runtime = Self { own, engine, loopback, shm, heard, copying, fatal, instruments };
        runtime.engine.connect(own, &[LOOPBACK], true);
        runtime
    }

    /// Opens a message space.
    pub fn open_context(&mut self, id: ContextId, rank: u32) -> ContextSlot {
        self.instruments.journal.note(Kind::ContextOpened, &[number_of(id), rank.into()]);
        self.engine.open_context(id, rank)
    }

    /// Closes a message space as soon as nothing is underway in it.
    pub fn close_context(&mut self, slot: ContextSlot) {
        let id = self.engine.context_id(slot);
        self.instruments.journal.note(Kind::ContextClosed, &[number_of(id)]);
        self.engine.close_context(slot);
    }

    /// Sends a message. `None`: it is sent, and the buffer free.
    #[inline]
    pub fn send(&mut self, send: SendCommand) -> Option<RequestId> {
        let (loopback, shm) = (&mut self.loopback, &mut self.shm);
        let to_self = send.gate == self.own;
        let sent = self.engine.send_short(&send, |packet| {
            let (gate, length) = (send.gate, packet.packet_len());
            match to_self {
                true => loopback.push(length, |out| packet.write(out)),
                false => shm.push(gate, length, |out| packet.write(out)),
            }
        });
        if sent {
            return None;
        }
        Some(self.submit(send))
    }

    /// Submits a message to the outbox, which is flushed as far as the rails have room.
    fn submit(&mut self, send: SendCommand) -> RequestId {
        let request = self.hold(send);
        self.flush();
        request
    }

    /// Submits a message and leaves it in the outbox: it goes with what is sent next to its gate, or
    /// in the next round of progress.
    pub fn hold(&mut self, send: SendCommand) -> RequestId {
        if !self.engine.is_connected(send.gate) {
            self.connect(send.gate);
        }
        self.engine.send(send)
    }

    /// Posts a receive.
    #[inline]
    pub fn receive(&mut self, receive: Receive) -> RequestId {
        let request = self.engine.receive(receive);
        // A message that was here already may have to be fetched or acknowledged.
        if self.engine.has_work() {
            self.follow_up();
        }
        request
    }

    /// The first message that a receive with this selection would get, of those that have arrived.
    pub fn probe(
        &self,
        context: ContextSlot,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Option<Incoming> {
        self.engine.probe(context, source, tag)
    }

    /// Takes that message out of matching.
    pub fn matched_probe(
        &mut self,
        context: ContextSlot,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Option<(MessageId, Incoming)> {
        self.engine.matched_probe(context, source, tag)
    }

    /// Receives a message that a matched probe took.
    pub fn receive_message(&mut self, message: MessageId, buffer: Buffer) -> Option<RequestId> {
        let request = self.engine.receive_message(message, buffer);
        self.follow_up();
        request
    }

    /// Asks that a request ends without a transfer.
    pub fn cancel(&mut self, request: RequestId) {
        self.engine.cancel(request);
        self.flush();
    }

    /// Whether a request is complete.
    #[inline]
    pub fn is_complete(&self, request: RequestId) -> bool {
        self.engine.is_complete(request)
    }

    /// The outcome of a complete request, which is forgotten.
    #[inline]
    pub fn take(&mut self, request: RequestId) -> Option<Outcome> {
        self.engine.take(request)
    }

    /// The outcome of a complete request, which stays.
    pub fn outcome(&self, request: RequestId) -> Option<Outcome> {
        self.engine.outcome(request)
    }

    /// Gives a request up; it completes as it would have.
    pub fn detach(&mut self, request: RequestId) {
        self.engine.detach(request);
    }

    /// Whether anything of ours still waits to be handed to a rail.
    pub fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    /// What to sleep on until something arrives.
    pub fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        self.shm.doorbell()
    }

    /// Makes one round: takes what has arrived, hands out what can go. Returns whether there was
    /// anything to do.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let Self { engine, heard, fatal, .. } = self;
        let mut active = self.loopback.poll(&mut heard.receiver(engine, fatal, LOOPBACK));
        active |= self.shm.poll(&mut heard.receiver(engine, fatal, SHM));
        if active || self.engine.has_work() {
            active |= self.follow_up();
        }
        active
    }

    /// What follows from packets that arrived; returns whether any packet could go.
    fn follow_up(&mut self) -> bool {
        for (gate, packet) in self.heard.strangers() {
            self.connect(gate);
            let Self { engine, heard, fatal, .. } = self;
            heard.receiver(engine, fatal, SHM).packet(gate, 0, &packet);
        }
        for (gate, rail, why) in self.heard.lost() {
            self.lose(gate, rail, &why);
        }
        if self.copying.is_timing() {
            self.note_copied();
        }
        while let Some(fetch) = self.engine.next_fetch() {
            let engine::Fetch { gate, memory, length, into, request } = fetch;
            match self.copying.begin(request, length, Instant::now()) {
                Mechanism::Fetch => {
                    self.instruments.runtime.fetch_chosen.add(1);
                    let (length, token) = (length as usize, request.to_u64());
                    self.shm.fetch(driver::Fetch { gate, memory, length, into, token });
                }
                Mechanism::Stream => {
                    self.instruments.runtime.stream_chosen.add(1);
                    self.engine.decline_fetch(request);
                }
            }
        }
        self.flush()
    }

    /// Hands packets to the rails as long as there are any and the rails have room; returns whether
    /// any went.
    pub fn flush(&mut self) -> bool {
        let mut any = false;
        for _ in 0..self.engine.gates_with_work() {
            let Some(gate) = self.engine.gate_with_work() else { break };
            let rail = self.engine.rails_of(gate)[0];
            while self.flush_one(gate, rail) {
                any = true;
            }
        }
        any
    }

    /// Hands the next packet for `gate` to `rail`; returns whether it went.
    fn flush_one(&mut self, gate: GateId, rail: RailId) -> bool {
        let (loopback, shm) = (&mut self.loopback, &mut self.shm);
        let part = self.engine.send_part(gate, rail, |packet| match rail {
            LOOPBACK => loopback.push(packet.packet_len(), |out| packet.write(out)),
            _ => shm.push(gate, packet.packet_len(), |out| packet.write(out)),
        });
        if let Some(posted) = part {
            return posted;
        }
        let Planned::Packet(length) = self.engine.plan(gate, rail, &mut |_| 0) else {
            return false;
        };
        let engine = &mut self.engine;
        let write = |out: &mut [u8]| engine.write_packet(gate, rail, out);
        match rail {
            LOOPBACK => loopback.push(length, write),
            _ => shm.push(gate, length, write),
        }
    }

    /// Connects a peer; a failure ends the job, since messages to it or from it would be lost.
    #[cold]
    pub fn connect(&mut self, gate: GateId) {
        if self.engine.is_connected(gate) {
            return;
        }
        match self.shm.connect(gate) {
            Ok(reach) => self.connected(gate, reach.fetches),
            Err(error) => self.fatal.end(&cannot_reach(gate, &error)),
        }
    }

    fn connected(&mut self, gate: GateId, fetches: bool) {
        self.engine.connect(gate, &[SHM], fetches);
        self.instruments.runtime.peers.add(1);
        self.instruments.journal.note(Kind::PeerConnected, &[gate.0.into(), fetches.into()]);
    }

    /// Goes on without a rail to a peer, or ends the job if it was the last.
    #[cold]
    fn lose(&mut self, gate: GateId, rail: RailId, why: &DriverError) {
        if !self.engine.lose_rail(gate, rail) {
            self.fatal.end(&cannot_reach(gate, why));
        }
    }

    /// Takes the time of large messages that are complete.
    fn note_copied(&mut self) {
        let Self { copying, engine, instruments, .. } = self;
        copying.note_complete(
            |request| engine.is_complete(request),
            |bytes, faster| {
                instruments.runtime.copying_changes.add(1);
                let way = i64::from(faster == Mechanism::Stream);
                instruments.journal.note(Kind::CopyingChanged, &[bytes as i64, way]);
            },
        );
    }

    /// Takes over those values that a running process can change.
    pub fn reconfigure(&mut self, configuration: Configuration) {
        self.engine.set_strategy(strategy(configuration));
    }

    /// Bytes of messages sent at once, and of such received, since the start.
    pub fn eager_bytes(&self) -> (u64, u64) {
        self.engine.eager_bytes()
    }

    /// How many receives wait for their message.
    pub fn posted_receives(&self) -> u64 {
        self.engine.posted_receives() as u64
    }

    /// How many sends and receives were not given back yet.
    pub fn requests(&self) -> u64 {
        self.engine.holdings().0 as u64
    }

    /// Connects a peer now, to hear of it if that does not work.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn try_connect(&mut self, gate: GateId) -> Result<(), DriverError> {
        if !self.engine.is_connected(gate) {
            let reach = self.shm.connect(gate)?;
            self.connected(gate, reach.fetches);
        }
        Ok(())
    }

    /// Tells how the messages of a context shall travel.
    pub fn set_preferences(&mut self, context: ContextSlot, preferences: Preferences) {
        self.engine.set_preferences(context, preferences);
    }

    /// The rail with a name, or to an interface of that name.
    pub fn rail_named(&self, name: &str) -> Option<RailId> {
        let is_it = |rail: &RailProfile| {
            let interface = rail.name.split_once(':').map(|(_, interface)| interface);
            rail.name == name || interface == Some(name)
        };
        let found = self.engine.rails().iter().position(is_it)?;
        u8::try_from(found).ok().map(RailId)
    }

    /// How messages to `gate` travel, for people: the rail, and how large ones are copied.
    pub fn transport(&mut self, gate: GateId) -> &'static str {
        if gate == self.own {
            return "self";
        }
        self.connect(gate);
        if self.engine.fetches_from(gate) { "shm+single-copy" } else { "shm" }
    }
}

/// The strategy that the configuration asks for.
pub(crate) fn strategy(configuration: Configuration) -> Box<dyn Strategy> {
    let strategy = strategy::by_name(configuration.strategy());
    Box::new(strategy.expect("the table of variables has their names"))
}

pub(crate) fn cannot_reach(gate: GateId, error: &DriverError) -> String {
    format!("rank {} cannot be reached: {error}", gate.0)
}
