//! The runtime: passes messages between the engine and the rails.

use std::cell::{Cell, OnceCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use base::{ContextId, GateId, RailId, RailProfile};
use driver::{Announcement, Doorbell, DriverError, Exposure, FetchEnd, ProgramState, Sink, When};
use drivers::{PeerBell, Rails};
use engine::{
    Completion, ContextSlot, Engine, IncomingMessage, MatchObserver, Members, MessageId, Outcome,
    Preferences, Receive, RequestDescription, RequestId, Send as SendCommand,
};
use memory::transfer::Fetch;
use memory::{Buffer, HeldBytes};
use message_queues::QueueTable;
use sys::teams;

use crate::configuration::Configuration;
use crate::fatal::Fatal;
use crate::gathering::{Gathering, GatheringDecision, TrafficClass};
use crate::instruments::Instruments;
use crate::instruments::journal::{EventKind, number_of};
use crate::other_jobs::JobId;
use crate::pushing::{FragmentPush, ShortPush};
use crate::rail_localities::{PreferredLocality, RailLocalities, RailPlace};
use crate::receiver::Deferred;
use crate::recording::{Recording, RecordingScope};
use crate::tracing::Trace;

mod connections;
mod failures;
mod flushing;
mod other_jobs;

pub use other_jobs::GateUses;

/// The engine of one process with its rails.
pub struct Runtime {
    own: GateId,
    engine: Engine,
    pub(crate) rails: Rails,
    deferred: Deferred,
    gathering: Gathering,
    /// The preferences of contexts for their messages, by context index; contexts past the end have
    /// none.
    traffic_classes: Vec<TrafficClass>,
    fatal: Fatal,
    instruments: Instruments,
    /// Whether the loss of a rail was reported to the user, and the recovery of all rails was not.
    warned: bool,
    /// Rails that were lost and must be reconnected.
    restoring: Vec<(GateId, RailId)>,
    /// Whether each message must be inspected before it may bypass the outbox: some may have to
    /// wait for others, or all are recorded.
    watches: bool,
    recording: Option<Box<Recording>>,
    trace: Option<Trace>,
    /// Where the rails are; determined on first use.
    rail_localities: OnceCell<Box<RailLocalities>>,
    /// The name of the job for other jobs; determined on first use.
    job_id: Option<JobId>,
}

/// An outbox with this many chunks is flushed even if its messages wait for more.
const GATHERED_MAX: usize = 256;

/// The most rounds that a call makes for the batches that the first round has left. Other traffic
/// must not keep the caller from what it waits for.
const ROUNDS_FOR_BATCHES_MAX: u32 = 4;

/// What is asked of the engine, and changes nothing.
impl Deref for Runtime {
    type Target = Engine;

    #[inline(always)]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Runtime {
    pub(crate) fn new(
        own: GateId,
        engine: Engine,
        rails: Rails,
        fatal: Fatal,
        instruments: Instruments,
    ) -> Self {
        let (deferred, gathering, traffic_classes) = Default::default();
        let (watches, own_rail) = (rails.has_networks(), rails.own_rail());
        let mut runtime = Self {
            own,
            engine,
            rails,
            deferred,
            gathering,
            traffic_classes,
            fatal,
            instruments,
            warned: false,
            restoring: Vec::new(),
            watches,
            recording: None,
            trace: None,
            rail_localities: OnceCell::new(),
            job_id: None,
        };
        runtime.engine.connect(own, &[own_rail]);
        runtime.engine.fetch_from(own);
        runtime
    }

    /// Opens a message context.
    pub fn open_context(&mut self, id: ContextId, rank: u32) -> ContextSlot {
        self.instruments.journal.note(EventKind::ContextOpened, &[number_of(id), rank.into()]);
        let slot = self.engine.open_context(id, rank);
        self.set_traffic_class(slot, TrafficClass::default());
        slot
    }

    /// Calls [`Engine::name_peers_by_gate`].
    pub fn name_peers_by_gate(&mut self, slot: ContextSlot) {
        self.engine.name_peers_by_gate(slot);
    }

    /// Calls [`Engine::set_members`].
    pub fn set_members(&mut self, slot: ContextSlot, members: Rc<dyn Members>) {
        self.engine.set_members(slot, members);
    }

    /// Closes a message context as soon as nothing is underway in it.
    pub fn close_context(&mut self, slot: ContextSlot) {
        let id = self.engine.context_id(slot);
        self.instruments.journal.note(EventKind::ContextClosed, &[number_of(id)]);
        self.engine.close_context(slot);
    }

    /// Sends a message. Returns `None` if it is sent already and the buffer may be reused.
    #[inline(always)]
    pub fn send(&mut self, send: SendCommand) -> Option<RequestId> {
        self.send_when(send, When::Now)
    }

    /// Sends a message for a program that does not wait at once: it may compute first. Returns
    /// `None` if the message is sent already.
    #[inline(always)]
    pub fn begin_send(&mut self, send: SendCommand) -> Option<RequestId> {
        self.send_when(send, When::Later)
    }

    /// Sends a message if it can go immediately. Returns whether it did, so that its buffer may be
    /// reused; if not, nothing has happened.
    #[inline(never)]
    pub fn try_send(&mut self, send: &SendCommand) -> bool {
        let push = ShortPush { rails: &mut self.rails, gate: send.gate };
        !self.watches && self.engine.send_short(send, push)
    }

    #[inline(always)]
    fn send_when(&mut self, send: SendCommand, when: When) -> Option<RequestId> {
        if self.watches && self.takes_the_long_way(&send) {
            return self.queue(send, when);
        }
        let push = ShortPush { rails: &mut self.rails, gate: send.gate };
        if self.engine.send_short(&send, push) || self.send_in_fragments(&send, when) {
            return None;
        }
        self.queue(send, when)
    }

    /// Adds a message to the outbox. Returns `None` if it joined a batch, so that its buffer may be
    /// reused. A batch saves packets between machines only.
    #[inline(always)]
    fn queue(&mut self, send: SendCommand, when: When) -> Option<RequestId> {
        let joins = self.watches && when == When::Later && self.join_batch(&send);
        (!joins).then(|| self.submit(send, when))
    }

    #[inline(never)]
    fn join_batch(&mut self, send: &SendCommand) -> bool {
        let gate = send.gate;
        let joins = self.leads_to_network(gate) && self.engine.join_batch(send);
        if joins && self.engine.waiting(gate) >= GATHERED_MAX {
            // Enough has gathered: the rail must check again whether it has room.
            self.progress();
        }
        joins
    }

    fn leads_to_network(&self, gate: GateId) -> bool {
        self.engine.is_connected(gate) && self.rails.is_network(self.engine.rails_of(gate)[0])
    }

    /// Sends a message of middle length in fragments, if that is possible at once.
    #[inline(never)]
    fn send_in_fragments(&mut self, send: &SendCommand, when: When) -> bool {
        let mut push = FragmentPush { rails: &mut self.rails, gate: send.gate, when };
        let is_sent = self.engine.send_in_fragments(send, &mut push);
        if is_sent {
            self.rails.end_fragments(send.gate, when);
        }
        is_sent
    }

    fn note_sent(&mut self, send: &SendCommand) {
        if let Some(recording) = &mut self.recording {
            recording.note(send.gate, send.buffer.len());
        }
        if let Some(trace) = &self.trace {
            let context = self.engine.context_id(send.context);
            trace.note_sent(context, (send.gate, send.tag), send.buffer.len());
        }
    }

    /// Reports all messages to `observer` when they are matched, from now on.
    pub fn observe_matches(&mut self, observer: Rc<dyn MatchObserver>) {
        self.engine.observe_matches(observer);
    }

    /// Records messages in `trace` from now on.
    pub fn trace(&mut self, trace: &Trace) {
        self.watches = true;
        self.engine.observe_matches(Rc::new(trace.clone()));
        spans::record(true);
        teams::observe(Some(spans::add_of_team));
        self.trace = Some(trace.clone());
    }

    /// Records a message, and returns whether it must use the outbox although it need not.
    fn takes_the_long_way(&mut self, send: &SendCommand) -> bool {
        self.note_sent(send);
        self.rails.has_networks() && self.waits_for_more(send.gate, send.context)
    }

    /// Starts to record how much is sent to each peer.
    pub(crate) fn record(&mut self, scope: RecordingScope) {
        self.recording = Some(Box::new(Recording::new(scope)));
        self.watches = true;
    }

    /// Whether all communication is recorded, so that all of it must use messages.
    pub fn records(&self) -> bool {
        self.recording.as_ref().is_some_and(|one| one.scope == RecordingScope::Everything)
    }

    /// Returns the record of what was sent to each peer, if recording was started.
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.as_deref()
    }

    /// Whether a message to a peer on another machine must wait, as more messages are likely to
    /// follow.
    fn waits_for_more(&mut self, gate: GateId, context: ContextSlot) -> bool {
        if !self.leads_to_network(gate) {
            return false;
        }
        let traffic_class = self.traffic_classes.get(context.index()).copied().unwrap_or_default();
        match self.gathering.note_with(gate, traffic_class) {
            GatheringDecision::Go => false,
            GatheringDecision::Wait => true,
            GatheringDecision::End => {
                self.progress();
                false
            }
        }
    }

    /// Submits a message to the outbox, and flushes the outbox as far as the rails have room.
    #[inline(never)]
    fn submit(&mut self, send: SendCommand, when: When) -> RequestId {
        let gate = send.gate;
        if send.synchronous && !self.watches {
            let push = ShortPush { rails: &mut self.rails, gate };
            if let Some(request) = self.engine.send_short_synchronous(&send, push) {
                return request;
            }
        }
        // The transfer may be deferred until the program waits only if the receiver can read the
        // data itself.
        let is_readable = send.buffer.is_contiguous() && self.rails.reaches_memory_of(gate);
        let when = if is_readable { when } else { When::Now };
        let request = self.hold_till(send, when);
        let flushed = self.flush_gate(gate);
        self.follow_announcement(gate, request, when);
        if !flushed && self.engine.waiting(gate) >= GATHERED_MAX {
            // Enough has gathered: the rail must check again whether it has room.
            self.progress();
        }
        self.leave_to_others();
        request
    }

    /// Submits a message and leaves it in the outbox. It goes with the next message to its gate, or
    /// in the next round of progress.
    pub fn hold(&mut self, send: SendCommand) -> RequestId {
        self.note_sent(&send);
        self.hold_till(send, When::Now)
    }

    fn hold_till(&mut self, send: SendCommand, when: When) -> RequestId {
        if !self.engine.is_connected(send.gate) {
            self.connect(send.gate);
        }
        let (gate, synchronous) = (send.gate, send.synchronous);
        let request = self.engine.send(send);
        let Self { engine, rails, .. } = self;
        let Some(data) = engine.wants_region(request) else { return request };
        let rail = engine.rails_of(gate)[0];
        let Some(driver) = rails.rendezvous(rail) else { return request };
        let (label, token) = (engine.label(request), request.to_u64());
        let may_end_early = !synchronous;
        match driver.announce(&Announcement { gate, data, token, label, may_end_early, when }) {
            Exposure::Ahead(region) => engine.expose_ahead(request, region),
            Exposure::Region(region) => engine.expose(request, region),
            Exposure::None => {}
        }
        request
    }

    /// Continues an announced message after its submission. Its data follows, if the receiver need
    /// not request it: now, or when the program waits. A receiver that cannot wait for that reads
    /// it.
    fn follow_announcement(&mut self, gate: GateId, request: RequestId, when: When) {
        let Self { engine, rails, deferred, fatal, instruments, .. } = self;
        let Some(&rail) = engine.rails_of(gate).first() else { return };
        let Some(driver) = rails.rendezvous(rail) else { return };
        if let Some((region, data)) = engine.exposed(request) {
            let (label, token) = (engine.label(request), request.to_u64());
            let message = Announcement { gate, data, token, label, may_end_early: false, when };
            driver.announced(&message, region);
        }
        match when {
            When::Now => _ = driver.serve(&mut deferred.receiver(engine, fatal, instruments)),
            When::Later if self.rails.is_in_machine(rail) => self.rails.end_fragments(gate, when),
            When::Later => {}
        }
    }

    /// Sends the peer behind `gate` the address of the buffer of a posted receive, so that it can
    /// write the message there. This requires that the peer can write to the buffer, and that its
    /// next message is the next one that this receive can match. Returns whether the address was
    /// sent.
    pub fn expect(&mut self, gate: GateId, request: RequestId, into: &Buffer) -> bool {
        if !self.engine.is_connected(gate) {
            return false;
        }
        let Self { engine, rails, deferred, fatal, instruments, .. } = self;
        let rail = engine.rails_of(gate)[0];
        let Some(driver) = rails.rendezvous(rail) else { return false };
        let Some(label) = engine.expected(request, gate) else { return false };
        let sink = deferred.receiver(engine, fatal, instruments);
        driver.expect(gate, label, into, request.to_u64(), &sink)
    }

    /// Posts a receive.
    #[inline(always)]
    pub fn receive(&mut self, receive: Receive) -> RequestId {
        let before = self.engine.submitted();
        let request = self.engine.receive(receive);
        // A message that had arrived before may have to be fetched or acknowledged.
        if self.engine.submitted() != before {
            self.follow_up();
            self.leave_to_others();
        }
        request
    }

    /// Removes the first arrived message that a receive with this selection would match from
    /// matching, and returns it.
    pub fn matched_probe(
        &mut self,
        context: ContextSlot,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Option<(MessageId, IncomingMessage)> {
        self.engine.matched_probe(context, source, tag)
    }

    /// Receives a message that a matched probe removed.
    pub fn receive_message(&mut self, message: MessageId, buffer: Buffer) -> Option<RequestId> {
        let request = self.engine.receive_message(message, buffer);
        self.follow_up();
        self.leave_to_others();
        request
    }

    /// Calls [`Engine::take_message`].
    pub fn take_message(&mut self, message: MessageId) -> Option<HeldBytes> {
        let before = self.engine.submitted();
        let taken = self.engine.take_message(message);
        if self.engine.submitted() != before {
            self.follow_up();
            self.leave_to_others();
        }
        taken
    }

    /// Cancels a request, if its transfer has not begun.
    pub fn cancel(&mut self, request: RequestId) {
        if !self.rails.stop_expecting(request.to_u64()) {
            // Its message is on its way.
            return;
        }
        self.engine.cancel(request);
        self.flush();
        self.leave_to_others();
    }

    /// Leaves unsent messages to the helper or a sleeping thread of this process, as the caller may
    /// leave to compute.
    fn leave_to_others(&self) {
        if self.engine.has_work() {
            self.rails.ring_own_doorbell();
        }
    }

    /// Publishes the addresses of the queues for debuggers. They stay valid as long as this value
    /// does not move.
    pub fn show_queues(&self, table: &QueueTable) {
        table.show_engine(std::ptr::from_ref(&self.engine).addr(), &Engine::layout());
    }

    /// Returns the posted receives of a context, and its unexpected messages.
    pub fn queues(&self, slot: ContextSlot) -> (Vec<RequestDescription>, Vec<IncomingMessage>) {
        (self.engine.posted(slot), self.engine.arrived(slot))
    }

    /// Returns the sends of a context that are not complete.
    pub fn sending(&self, slot: ContextSlot) -> Vec<RequestDescription> {
        self.engine.sending(slot)
    }

    /// Returns the outcome of a complete request and forgets the request.
    #[inline]
    pub fn take(&mut self, request: RequestId) -> Option<Outcome> {
        self.engine.take(request)
    }

    /// Does what [`take`](Self::take) does, but distinguishes a request that is not complete from
    /// one that does not exist.
    #[inline]
    pub fn settle(&mut self, request: RequestId) -> Completion {
        self.engine.settle(request)
    }

    /// Forgets a request that is complete without an error and not cancelled; returns whether it
    /// was.
    #[inline]
    pub fn forget_if_fine(&mut self, request: RequestId) -> bool {
        self.engine.forget_if_fine(request)
    }

    /// Detaches a request; it completes as before, and its outcome is dropped.
    pub fn detach(&mut self, request: RequestId) {
        self.engine.detach(request);
    }

    /// Whether any data of this process still waits to be sent.
    pub fn has_work(&self) -> bool {
        self.engine.has_work() || !self.rails.is_flushed()
    }

    /// Whether sent data arrives even if neither this process nor its peer makes progress.
    pub fn delivers_by_itself(&self) -> bool {
        self.rails.deliver_by_themselves()
    }

    /// Whether something is pending for which no doorbell rings.
    pub fn must_poll_again(&self) -> bool {
        self.rails.must_be_polled() || self.engine.has_work() && !self.rails.wakes_for_room()
    }

    /// Whether all that is pending without a doorbell is data that waits for room in a rail.
    pub fn awaits_only_room(&self) -> bool {
        !self.rails.must_be_polled()
    }

    /// Whether a transfer waits for the help of its sender, which may not come.
    pub fn awaits_senders(&self) -> bool {
        self.rails.awaits_senders()
    }

    /// Sets what the program does from now on while its messages arrive.
    pub fn set_program_state(&mut self, state: ProgramState) {
        self.rails.set_program_state(state);
    }

    /// Returns the doorbell to sleep on until something arrives.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub(crate) fn doorbell(&self) -> Result<Option<Arc<dyn Doorbell>>, DriverError> {
        self.rails.doorbell()
    }

    /// Makes progress: takes what has arrived, sends what can go. Returns whether there was
    /// anything to do.
    #[inline]
    pub fn progress(&mut self) -> bool {
        self.gathering.end();
        let (active, mut sent) = self.make_round();
        // What the program waits for may have left before messages of a batch, which no request
        // follows: the program need not make another round.
        for _ in 0..ROUNDS_FOR_BATCHES_MAX {
            if !sent || !self.engine.has_batches() {
                break;
            }
            (_, sent) = self.make_round();
        }
        active
    }

    /// Makes one round of progress. Returns whether there was anything to do, and whether anything
    /// was sent.
    #[inline]
    fn make_round(&mut self) -> (bool, bool) {
        let Self { rails, deferred, engine, fatal, instruments, .. } = self;
        let active = rails.poll(&mut deferred.receiver(engine, fatal, instruments));
        let sent = (active || self.engine.has_work_or_failures()) && self.follow_up();
        (active || sent, sent)
    }

    /// Handles the consequences of arrived packets; returns whether any packet could be sent.
    fn follow_up(&mut self) -> bool {
        if self.deferred.has_news {
            self.handle_news();
        }
        while let Some(region) = self.engine.next_revocation() {
            self.rails.withdraw(region);
        }
        while let Some(fetch) = self.engine.next_fetch() {
            self.begin_fetch(fetch);
        }
        self.engine.gates_with_work() > 0 && (self.flush() | self.end_revoked())
    }

    /// Connects peers that have sent something, and handles lost and restored rails.
    #[cold]
    fn handle_news(&mut self) {
        self.deferred.has_news = false;
        for (gate, packet) in self.deferred.early_packets() {
            if self.fatal.other_jobs.is_unused(gate) {
                continue;
            }
            self.connect(gate);
            let Self { engine, deferred, fatal, instruments, .. } = self;
            let Some(&rail) = engine.rails_of(gate).first() else { continue };
            let mut receiver = deferred.receiver(engine, fatal, instruments);
            receiver.packet(gate, usize::from(rail.0), (&packet).into());
        }
        for (gate, rail, why) in self.deferred.lost() {
            self.lose(gate, rail, &why);
        }
        for (gate, rail) in self.deferred.restored() {
            self.regain(gate, rail);
        }
    }

    /// Ends the requests of contexts that were revoked; returns whether there were any.
    #[inline]
    fn end_revoked(&mut self) -> bool {
        let Self { engine, rails, .. } = self;
        engine.has_revoked()
            && engine.end_revoked(&mut |request| rails.stop_expecting(request.to_u64()))
    }

    /// Calls [`Engine::revoke_context`].
    #[cold]
    pub fn revoke_context(&mut self, slot: ContextSlot) {
        self.engine.revoke_context(slot);
        self.end_revoked();
        self.flush();
        self.leave_to_others();
    }

    /// Calls [`Engine::watch_context`].
    pub fn watch_context(&mut self, slot: ContextSlot, watch: Rc<Cell<bool>>) {
        self.engine.watch_context(slot, watch);
    }

    /// Fetches the data of an announced message; in packets if its rail cannot fetch.
    fn begin_fetch(&mut self, fetch: Fetch) {
        let Self { engine, rails, deferred, fatal, instruments, .. } = self;
        let rail = engine.rails_of(fetch.gate).first().copied();
        let mut receiver = deferred.receiver(engine, fatal, instruments);
        match rail.and_then(|rail| rails.rendezvous(rail)) {
            Some(driver) => driver.fetch(fetch, &mut receiver),
            None => receiver.fetched(fetch.token, FetchEnd::Incomplete),
        }
    }

    /// Returns the doorbell of a peer with which memory can be shared; none for other peers.
    pub fn bell(&mut self, gate: GateId) -> Option<PeerBell> {
        self.connect(gate);
        self.rails.bell(gate)
    }

    /// Whether a peer is reached through shared memory, so that it fetches announced messages.
    pub fn is_near(&self, gate: GateId) -> bool {
        self.engine.is_connected(gate) && !self.rails.is_network(self.engine.rails_of(gate)[0])
    }

    /// Returns a peer on this machine whose process has ended, if there is one. Must be called
    /// rarely.
    pub fn ended_peer(&self) -> Option<GateId> {
        self.rails.ended_peer()
    }

    /// Applies those values of the configuration that a running process can change.
    pub fn reconfigure(&mut self, configuration: Configuration) {
        self.engine.set_strategy(configuration.create_strategy());
    }

    /// Returns how many items arrived over networks that were not of the job, or were duplicates.
    pub fn refused(&self) -> u64 {
        self.rails.refused()
    }

    /// Returns the number of posted receives.
    pub fn posted_receives(&self) -> u64 {
        self.engine.posted_receives() as u64
    }

    /// Returns the number of sends and receives whose requests still exist.
    pub fn requests(&self) -> u64 {
        self.engine.holdings().0 as u64
    }

    /// Sets the preference of a context for its messages.
    pub fn set_traffic_class(&mut self, context: ContextSlot, traffic_class: TrafficClass) {
        let index = context.index();
        if self.traffic_classes.len() <= index {
            if traffic_class == TrafficClass::default() {
                return;
            }
            self.traffic_classes.resize(index + 1, TrafficClass::default());
        }
        self.traffic_classes[index] = traffic_class;
    }

    /// Sets how the messages of a context travel.
    pub fn set_preferences(&mut self, context: ContextSlot, preferences: Preferences) {
        self.engine.set_preferences(context, preferences);
    }

    /// Returns the rail with this name, or the rail to an interface with this name.
    pub fn rail_named(&self, name: &str) -> Option<RailId> {
        let is_it = |rail: &RailProfile| rail.name == name || rail.interface() == Some(name);
        let found = self.engine.rails().iter().position(is_it)?;
        u8::try_from(found).ok().map(RailId)
    }

    pub(crate) fn set_rail_localities(&mut self, rail_localities: Box<RailLocalities>) {
        self.rail_localities = OnceCell::from(rail_localities);
    }

    /// Returns where the rails are.
    fn rail_localities(&self) -> &RailLocalities {
        let work_out = || match self.rails.has_networks() {
            true => Box::new(RailLocalities::of(self.engine.rails(), self.own.0)),
            false => Box::default(),
        };
        self.rail_localities.get_or_init(work_out)
    }

    /// Returns where a rail is; none if that is not known, or if the rail leads to no other
    /// machine.
    pub fn rail_place(&self, rail: RailId) -> Option<&RailPlace> {
        self.rail_localities().places.get(usize::from(rail.0))?.as_ref()
    }

    /// Returns the nearest rail of those whose place is known.
    pub fn nearest_rail(&self) -> Option<RailId> {
        self.rail_localities().nearest.map(|rail| RailId(rail as u8))
    }

    /// Returns where this process communicates, if that was determined and there is a choice.
    pub fn preferred_locality(&self) -> Option<&PreferredLocality> {
        self.rail_localities.get()?.preferred_locality.as_ref()
    }

    /// Returns the names of the rails, by number.
    pub fn rail_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.engine.rails().iter().map(|rail| rail.name.as_str())
    }

    /// Returns a description for users of how messages to `gate` travel: the rails, and how large
    /// messages are copied.
    pub fn transport(&mut self, gate: GateId) -> String {
        self.connect(gate);
        let rails = self.engine.rails_of(gate).iter();
        rails.map(|rail| self.rails.describe(gate, *rail)).collect::<Vec<_>>().join("+")
    }
}
