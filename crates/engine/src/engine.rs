//! The engine's state and its commands.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use base::{ContextId, GateId, PeerTable, RailId, RailProfile, RegionToken, limits};
use memory::transfer::Fetch;
use memory::{Buffer, HeldBytes};
use wire::Records;

use crate::arrivals::GrantedMessages;
use crate::batches::Batches;
use crate::counters::{Counters, MatchObserver, Observer};
use crate::failure::FailedGates;
use crate::flow::{ContextSlot, InFlow, OBSERVED, OutFlow, PeerNames};
use crate::gate::{Chunk, EagerFunding, Gate, WaitingChunk};
use crate::gates::Gates;
use crate::matching::{Matching, Selector};
use crate::members::Members;
use crate::model::{RailFigures, RailModel};
use crate::numbering::SparePackets;
use crate::preferences::Preferences;
use crate::request::{
    ANY_SOURCE, ANY_TAG, CancelOutcome, Completion, Outcome, Request, RequestId, Revoked,
    SendCompletion, Transition,
};
use crate::requests::Requests;
use crate::slab::{NONE, Slab};
use crate::strategy::{PacketPlan, Strategy};
use crate::unexpected::{
    IncomingMessage, MessageId, Unexpected, UnexpectedContent, UnexpectedMessages,
};

/// A message to send.
#[derive(Clone, Debug)]
pub struct Send {
    /// The peer process.
    pub gate: GateId,
    /// The peer's rank in the context.
    pub peer: u32,
    /// The message space.
    pub context: ContextSlot,
    /// The tag: any number except the lowest.
    pub tag: i32,
    /// Whether the send completes only when the receiver has matched the message.
    pub synchronous: bool,
    /// The data.
    pub buffer: Buffer,
}

/// A receive to post.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The message space.
    pub context: ContextSlot,
    /// The sender's rank in the context; `None`: any.
    pub source: Option<u32>,
    /// The tag; `None`: any.
    pub tag: Option<i32>,
    /// The destination of the data.
    pub buffer: Buffer,
}

/// The protocol engine of one process: its side of all communication.
///
/// The order of calls: [`connect`](Self::connect) a gate before anything is sent to it or arrives
/// from it, and [`open_context`](Self::open_context) before the context is used. Then
/// - commands: [`send`](Self::send) (with [`wants_region`](Self::wants_region)),
///   [`receive`](Self::receive), probes, [`cancel`](Self::cancel);
/// - inputs: [`handle_packet`](Self::handle_packet), [`begin_part`](Self::begin_part) and
///   [`end_part`](Self::end_part), [`handle_sent`](Self::handle_sent),
///   [`handle_fetched`](Self::handle_fetched), [`lose_rail`](Self::lose_rail);
/// - outputs, to be polled after commands and inputs: [`next_fetch`](Self::next_fetch), and, as
///   long as rails have room, [`gate_with_work`](Self::gate_with_work) with [`plan`](Self::plan),
///   and [`write_packet`](Self::write_packet) or [`take_part`](Self::take_part);
/// - queries: [`is_complete`](Self::is_complete), [`take`](Self::take).
#[derive(Debug)]
pub struct Engine {
    pub(crate) own: GateId,
    pub(crate) rails: Vec<RailProfile>,
    pub(crate) models: Vec<RailModel>,
    pub(crate) gates: Gates,
    pub(crate) contexts: Slab<Context>,
    pub(crate) contexts_by_id: HashMap<ContextId, ContextSlot>,
    pub(crate) requests: Requests,
    pub(crate) unexpected: UnexpectedMessages,
    pub(crate) batches: Batches,
    pub(crate) in_flows: Slab<InFlow>,
    /// Records that arrived for contexts that are not open in this process yet.
    pub(crate) orphans: HashMap<ContextId, Vec<Orphan>>,
    /// Which bytes of granted messages have arrived.
    pub(crate) arrivals: GrantedMessages,
    pub(crate) fetches: VecDeque<Fetch>,
    /// Regions that are to be revoked: their data is not needed any more.
    pub(crate) revocations: Vec<RegionToken>,
    /// The number of chunks and fetches made so far.
    pub(crate) submitted: u64,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) plan: PacketPlan,
    /// The number of contexts with preferences.
    pub(crate) preferring: usize,
    /// Whether the present plan is to post something again that was lost with its rail.
    pub(crate) posts_again: bool,
    /// Memory for packets that are kept until they have arrived.
    pub(crate) spares: SparePackets,
    /// The number of each flow's first message.
    pub(crate) first_sequence: u32,
    /// Gates whose processes have failed.
    pub(crate) failed: FailedGates,
    /// Contexts that were revoked and are not closed.
    pub(crate) revoked: Vec<ContextSlot>,
    /// How many entries of the list of gates with work have nothing to send: one per failed gate,
    /// and one if there are revoked contexts.
    pub(crate) listed_idle: usize,
    pub(crate) counters: Arc<Counters>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) match_observers: Vec<Rc<dyn MatchObserver>>,
    /// The eager bytes that may be underway to each process of this job, and the number of these
    /// processes.
    job_credit: (usize, u32),
}

/// A record that cannot be delivered yet, with the peer that sent it.
pub(crate) type Orphan = (GateId, Box<[u8]>);

/// A page of flows is 256 bytes long.
const FLOWS_PER_PAGE: usize = 32;

/// One message space in this process.
#[derive(Debug)]
pub(crate) struct Context {
    pub matching: Matching,
    /// The sending ends, by the receiver's rank in the context, or by its gate.
    pub out_flows: PeerTable<OutFlow, FLOWS_PER_PAGE>,
    pub peer_names: PeerNames,
    /// The receiving ends, by the sender.
    pub in_flows: HashMap<GateId, u32>,
    /// Requests that are not complete, and messages that a matched probe took.
    pub active: usize,
    /// Whether the context is to be closed as soon as nothing is active.
    pub closing: bool,
    /// The processes of the message space, if receives must end when one of them fails.
    pub members: Option<Rc<dyn Members>>,
    /// The preferred strategy, priority and rails of its messages.
    pub preferences: Preferences,
    /// The number of each flow's first message.
    pub first_sequence: u32,
    /// The number of acknowledged failures: the first so many in the engine's list do not interrupt
    /// receives from any source.
    pub acknowledged: usize,
    /// Set when an unexpected message arrives.
    pub watch: Option<Rc<Cell<bool>>>,
}

impl Engine {
    /// Makes an engine for the process `own` with the rails described by `rails`, none connected
    /// yet.
    pub fn new(own: GateId, rails: Vec<RailProfile>, strategy: Box<dyn Strategy>) -> Self {
        Self {
            own,
            models: rails.iter().map(RailModel::new).collect(),
            rails,
            gates: Gates::new(),
            contexts: Slab::new(),
            contexts_by_id: HashMap::new(),
            requests: Requests::new(),
            unexpected: Slab::new(),
            batches: Batches::new(),
            in_flows: Slab::new(),
            orphans: HashMap::new(),
            arrivals: GrantedMessages::default(),
            fetches: VecDeque::new(),
            revocations: Vec::new(),
            submitted: 0,
            strategy,
            plan: PacketPlan::default(),
            preferring: 0,
            posts_again: false,
            spares: SparePackets::default(),
            first_sequence: 0,
            failed: FailedGates::default(),
            revoked: Vec::new(),
            listed_idle: 0,
            counters: Arc::default(),
            observer: None,
            match_observers: Vec::new(),
            job_credit: (limits::EAGER_CREDIT_BYTES, 0),
        }
    }

    /// Sets how many eager bytes may be underway to each process of this job, whose gates have the
    /// numbers below `processes`, before it has consumed them: at least
    /// [`base::limits::EAGER_CREDIT_BYTES`], which other gates have, as there may be any number of
    /// them. To be called before all other methods. The receiver need not have the number.
    pub fn set_eager_credit(&mut self, bytes: usize, processes: u32) {
        self.job_credit = (bytes, processes);
    }

    /// Makes the engine count in `counters` and report events to `observer`. To be called before
    /// all other methods except [`set_eager_credit`](Self::set_eager_credit).
    pub fn instrument(&mut self, counters: Arc<Counters>, observer: Arc<dyn Observer>) {
        counters.eager_credit.add(self.job_credit.0 as u64);
        self.counters = counters;
        self.observer = Some(observer);
    }

    /// Reports all messages to `observer` when they are matched, from now on.
    pub fn observe_matches(&mut self, observer: Rc<dyn MatchObserver>) {
        self.match_observers.push(observer);
        self.in_flows.values_mut().for_each(|flow| flow.lone_gate = OBSERVED);
    }

    /// Numbers the messages of each flow from `first` on instead of 0, in contexts opened later.
    /// All engines must use an equal number. Lets tests reach the wrap-around.
    pub fn count_messages_from(&mut self, first: u32) {
        self.first_sequence = first;
    }

    /// Connects a peer: sets the rails over which it is reached.
    pub fn connect(&mut self, gate: GateId, rails: &[RailId]) {
        let rails: Vec<_> = rails.iter().map(|&id| (id, &self.rails[usize::from(id.0)])).collect();
        let state = self.gates.make(gate);
        state.connect(&rails);
        let (credit, processes) = self.job_credit;
        if gate.0 < processes {
            state.raise_credit(credit);
        }
    }

    /// Enables fetching: the data that this connected peer announces is read from its memory from
    /// now on.
    pub fn fetch_from(&mut self, gate: GateId) {
        let rails = self.gates[gate].rails.iter();
        let segments = rails.map(|id| self.rails[usize::from(id.0)].fetch_segment_bytes_min);
        self.gates[gate].fetch_segment_bytes_min = segments.min();
    }

    /// Stops using a rail to `gate`: packets that may not have arrived are posted again on the
    /// other rails. Returns whether there are other rails; if not, the peer is lost.
    pub fn lose_rail(&mut self, gate: GateId, rail: RailId) -> bool {
        self.arrivals.lose(gate, rail);
        let state = &mut self.gates[gate];
        state.rails.retain(|&other| other != rail);
        if let Some(numbered) = &mut state.numbered {
            numbered.lose(rail);
            if numbered.has_again() {
                self.gates.list(gate);
            }
        }
        !self.gates[gate].rails.is_empty()
    }

    /// Uses a [lost](Self::lose_rail) rail to `gate` again. Returns false, without any effect, if
    /// the peer itself is lost.
    pub fn restore_rail(&mut self, gate: GateId, rail: RailId) -> bool {
        let state = &mut self.gates[gate];
        let is_lost = state.is_connected() && state.numbered.is_some();
        if is_lost && let Err(place) = state.rails.binary_search(&rail) {
            state.rails.insert(place, rail);
        }
        is_lost
    }

    /// Handles that a peer without rails has finished. Replies to its messages and credit reports
    /// have no use any more, and are dropped. Returns whether nothing else waits for the peer.
    pub fn let_go(&mut self, gate: GateId) -> bool {
        if self.requests.iter().any(|one| one.gate == gate && one.needs_peer()) {
            return false;
        }
        let state = &mut self.gates[gate];
        let is_control = |waiting: &WaitingChunk| matches!(waiting.chunk, Chunk::Control(_));
        if !state.outbox.iter().all(is_control) {
            return false;
        }
        state.outbox.clear();
        state.numbered = None;
        self.gates.unlist_if_idle(gate);
        true
    }

    /// Notes that a rail carried so many bytes in so many nanoseconds, during which it was never
    /// idle.
    pub fn note_carried(&mut self, rail: RailId, bytes: u64, nanoseconds: u64) {
        self.models[usize::from(rail.0)].note(bytes, nanoseconds);
    }

    /// Returns the profile that a rail's driver declares.
    pub fn profile(&self, rail: RailId) -> &RailProfile {
        &self.rails[usize::from(rail.0)]
    }

    /// Restarts the model of the rail with this name, if there is one, from these figures.
    pub fn believe(&mut self, rail: &str, figures: &RailFigures) {
        for (profile, model) in self.rails.iter().zip(&mut self.models) {
            if profile.name == rail {
                *model = RailModel::from_figures(figures.clone());
            }
        }
    }

    /// Returns the performance model of a rail.
    pub fn model(&self, rail: RailId) -> &RailModel {
        &self.models[usize::from(rail.0)]
    }

    /// Returns the profiles of all rails, by number.
    pub fn rails(&self) -> &[RailProfile] {
        &self.rails
    }

    /// Adds rails after those that there are. No peer is connected over them yet.
    pub fn add_rails(&mut self, rails: Vec<RailProfile>) {
        self.models.extend(rails.iter().map(RailModel::new));
        self.rails.extend(rails);
    }

    /// Replaces the strategy, from the next packet on.
    pub fn set_strategy(&mut self, strategy: Box<dyn Strategy>) {
        self.strategy = strategy;
    }

    /// Returns the id of an open message space.
    pub fn context_id(&self, slot: ContextSlot) -> ContextId {
        self.contexts[slot.0].matching.id
    }

    /// Whether [`connect`](Self::connect) was called for `gate`.
    #[inline]
    pub fn is_connected(&self, gate: GateId) -> bool {
        self.gates.get(gate).is_some_and(Gate::is_connected)
    }

    /// Opens a message space in which this process has the given rank. Messages that arrived for it
    /// earlier are delivered now.
    pub fn open_context(&mut self, id: ContextId, rank: u32) -> ContextSlot {
        let context = Context {
            matching: Matching::new(id, rank),
            out_flows: PeerTable::default(),
            peer_names: PeerNames::Ranks,
            in_flows: HashMap::new(),
            active: 0,
            closing: false,
            members: None,
            first_sequence: self.first_sequence,
            preferences: Preferences::default(),
            acknowledged: 0,
            watch: None,
        };
        let slot = ContextSlot(self.contexts.insert(context).index);
        self.counters.contexts.rise(1);
        self.contexts_by_id.insert(id, slot);
        self.adopt_orphans(id);
        slot
    }

    /// Lets this process name its peers in a message space by gate, also in [`Send::peer`]: the
    /// space is that of processes whose ranks are not unique, as they belong to several jobs. To be
    /// called before the space is used.
    pub fn name_peers_by_gate(&mut self, slot: ContextSlot) {
        self.contexts[slot.0].peer_names = PeerNames::Gates;
    }

    /// Closes a message space as soon as its last request is complete. Messages that arrived for it
    /// and were never received are dropped.
    pub fn close_context(&mut self, slot: ContextSlot) {
        self.contexts[slot.0].closing = true;
        self.close_if_idle(slot);
    }

    fn close_if_idle(&mut self, slot: ContextSlot) {
        let context = &self.contexts[slot.0];
        if !context.closing || context.active > 0 {
            return;
        }
        for index in context.matching.arrived(&self.unexpected) {
            let message = self.forget_unexpected(index);
            if let UnexpectedContent::Eager { data, .. } = message.content {
                self.take_eager(message.gate, data.len());
            }
        }
        self.set_preferences(slot, Preferences::default());
        self.forget_revoked(slot);
        let context = self.contexts.remove(slot.0);
        self.counters.contexts.fall(1);
        self.contexts_by_id.remove(&context.matching.id);
        for flow in context.in_flows.into_values() {
            let InFlow { gate, early, .. } = self.in_flows.remove(flow);
            for (_, bytes) in early {
                Records::new(&bytes)
                    .flatten()
                    .for_each(|record| self.drop_unreceived(gate, &record));
            }
        }
    }

    /// Submits a message. Its packets are planned later.
    pub fn send(&mut self, send: Send) -> RequestId {
        let Send { gate, peer, context: slot, tag, synchronous, buffer } = send;
        let length = buffer.len();
        let context = &mut self.contexts[slot.0];
        context.active += 1;
        let flow = context.out_flow(peer);
        let (sequence, is_known) = (flow.take_sequence(), flow.number != NONE);
        let envelope = (context.matching.rank, tag);
        if is_known && !synchronous && self.gates[gate].fund_push(length) {
            let (to, mode) = ((gate, peer, sequence), SendCompletion::Standard);
            let index = self.requests.send(slot, envelope, to, mode, buffer);
            self.counters.eager_queued.add(1);
            self.push_chunk(gate, Chunk::Push(index));
            return self.requests.id(index);
        }
        let funding = self.gates[gate].fund(length);
        let mode = match synchronous || funding == EagerFunding::Debt {
            true => SendCompletion::Synchronous,
            false => SendCompletion::Standard,
        };
        let index = self.requests.send(slot, envelope, (gate, peer, sequence), mode, buffer);
        let id = self.requests.id(index);
        let chunk = if funding == EagerFunding::Lacking {
            self.count_announced(gate, length);
            Chunk::Announce(id.0.index)
        } else {
            self.counters.eager_queued.add(1);
            Chunk::Eager(id.0.index)
        };
        self.push_chunk(gate, chunk);
        id
    }

    /// Returns the posting number of the receive that is posted next in a context.
    pub fn next_posting(&self, context: ContextSlot) -> u64 {
        self.contexts[context.0].matching.next_posting()
    }

    /// Posts a receive. An unexpected message that it matches is delivered immediately.
    #[inline(always)]
    pub fn receive(&mut self, receive: Receive) -> RequestId {
        let Receive { context: slot, source, tag, buffer } = receive;
        let selector =
            Selector { source: source.unwrap_or(ANY_SOURCE), tag: tag.unwrap_or(ANY_TAG) };
        let context = &mut self.contexts[slot.0];
        context.active += 1;
        let order = context.matching.next_order();
        let index = self.requests.receive(slot, (selector.source, selector.tag), buffer, order);
        let id = self.requests.id(index);
        match context.matching.find_arrived(&self.unexpected, selector) {
            None => context.matching.post(&mut self.requests, index),
            Some(message) => {
                context.matching.take_arrived(&mut self.unexpected, message);
                self.deliver_unexpected(message, index);
            }
        }
        id
    }

    /// Returns the first message that a receive with this selection would get. The message stays in
    /// the queue.
    pub fn probe(
        &self,
        context: ContextSlot,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Option<IncomingMessage> {
        self.find_incoming(context, source, tag).map(|index| self.incoming(index))
    }

    /// Takes the message that [`probe`](Self::probe) would return out of matching, for
    /// [`receive_message`](Self::receive_message).
    pub fn matched_probe(
        &mut self,
        context: ContextSlot,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Option<(MessageId, IncomingMessage)> {
        let index = self.find_incoming(context, source, tag)?;
        let state = &mut self.contexts[context.0];
        state.matching.take_arrived(&mut self.unexpected, index);
        // The context stays open until the message is received.
        state.active += 1;
        Some((MessageId(self.unexpected.key(index)), self.incoming(index)))
    }

    /// Receives a message that a matched probe took. Returns `None` if it was received before.
    pub fn receive_message(&mut self, message: MessageId, buffer: Buffer) -> Option<RequestId> {
        let found = self.unexpected.get(message.0)?;
        let (envelope, gate) = ((found.source, found.tag), found.gate);
        let order = self.contexts[found.context.0].matching.next_order();
        let index = self.requests.receive(found.context, envelope, buffer, order);
        let id = self.requests.id(index);
        self.deliver_unexpected(message.0.index, index);
        // The data of an announced message does not come any more.
        self.end_failed(gate);
        Some(id)
    }

    /// Receives a message that a matched probe took, if all of its data has arrived: without a
    /// request, and without a copy. Otherwise `None`, without effect.
    pub fn take_message(&mut self, message: MessageId) -> Option<HeldBytes> {
        let found = self.unexpected.get(message.0)?;
        let is_here = matches!(found.content, UnexpectedContent::Eager { .. });
        // Observers get the receive that has matched.
        if !is_here || !self.match_observers.is_empty() {
            return None;
        }
        let Unexpected { gate, context, content, .. } = self.forget_unexpected(message.0.index);
        let UnexpectedContent::Eager { data, synchronous } = content else { return None };
        self.take_eager(gate, data.len());
        if let Some(request) = synchronous {
            self.push_control(gate, wire::Record::Finished { request });
        }
        self.contexts[context.0].active -= 1;
        self.close_if_idle(context);
        Some(data)
    }

    /// Requests that a request end without a transfer. A posted receive ends at once. For a send
    /// whose message the receiver may not have matched yet, the receiver is asked; the send
    /// completes after its reply. All other requests complete as usual. [`Outcome::cancelled`] says
    /// whether the request was cancelled.
    pub fn cancel(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let (context, gate, receive) = (request.context, request.gate, request.as_matched());
        match request.cancel() {
            CancelOutcome::Done => {
                let index = id.0.index;
                let matching = &mut self.contexts[context.0].matching;
                matching.withdraw(&mut self.requests, index);
                for observer in &self.match_observers {
                    observer.receive_cancelled(matching.id, receive);
                }
                self.note_complete(index);
            }
            CancelOutcome::Released => self.note_complete(id.0.index),
            CancelOutcome::AskReceiver => {
                // An eager message that does not wait for its match completes soon anyway; the
                // reply then finds no request.
                self.push_control(gate, wire::Record::Cancel { request: id.0.to_u64() });
            }
            CancelOutcome::Nothing => {}
        }
    }

    /// Whether a request is complete. Also true for a request that no longer exists.
    #[inline]
    pub fn is_complete(&self, id: RequestId) -> bool {
        self.requests.is_complete(id)
    }

    /// Whether a request is a receive for which no message has come yet.
    pub fn is_posted(&self, id: RequestId) -> bool {
        self.requests.is_posted(id)
    }

    /// Returns the outcome of a complete request, and forgets the request. `None` while it is not
    /// complete.
    #[inline(always)]
    pub fn take(&mut self, id: RequestId) -> Option<Outcome> {
        self.requests.take(id)
    }

    /// Takes the outcome as [`take`](Self::take) does, but distinguishes a request that is underway
    /// from one that does not exist.
    #[inline]
    pub fn settle(&mut self, id: RequestId) -> Completion {
        self.requests.settle(id)
    }

    /// Forgets a request that is complete, was not cancelled, and has no problem. Returns whether
    /// it did.
    #[inline]
    pub fn forget_if_fine(&mut self, id: RequestId) -> bool {
        self.requests.forget_if_fine(id)
    }

    /// Whether the program may still query or complete a request.
    #[inline]
    pub fn is_known(&self, id: RequestId) -> bool {
        self.requests.is_known(id)
    }

    /// Returns the request in a place, if there is one.
    pub fn request_at(&self, place: u32) -> Option<RequestId> {
        self.requests.at(place)
    }

    /// Returns the outcome of a complete request, which is not forgotten. `None` while it is not
    /// complete.
    pub fn outcome(&self, id: RequestId) -> Option<Outcome> {
        self.requests.outcome(id)
    }

    /// Detaches a request from the program: it completes as usual, and is then forgotten.
    pub fn detach(&mut self, id: RequestId) {
        self.requests.detach(id);
        if self.requests.get(id).is_some_and(Request::is_interrupted) {
            self.cancel(id);
        }
    }

    /// Returns the data of a message just submitted, if it will be announced and its receiver may
    /// fetch it. The caller that declares the data as a region must then call
    /// [`expose`](Self::expose), before it polls any output.
    #[inline]
    pub fn wants_region(&self, send: RequestId) -> Option<&Buffer> {
        let index = send.0.index;
        let request = self.requests.get(send)?;
        let (gate, buffer) = (request.gate, &request.buffer);
        if gate == self.own {
            // A message to the own process is copied when it is matched.
            return None;
        }
        let gate = &self.gates[gate];
        let segment_min = gate.fetch_segment_bytes_min?;
        let announced = gate.outbox.back().map(|waiting| waiting.chunk);
        let wanted = matches!(announced, Some(Chunk::Announce(of)) if of == index)
            && buffer.len() / buffer.segment_count().max(1) >= segment_min.min(buffer.len());
        wanted.then_some(buffer)
    }

    /// Lets the receiver of a message just submitted fetch its data from `region`. The region must
    /// be revoked as soon as [`next_revocation`](Self::next_revocation) returns it.
    pub fn expose(&mut self, send: RequestId, region: RegionToken) {
        self.requests[send.0.index].expose(region);
    }

    /// Exposes a region whose data a rail takes immediately, without a request of the receiver.
    /// [`handle_sent`](Self::handle_sent) is called when the rail has taken it. `next_revocation`
    /// never returns such a region.
    pub fn expose_ahead(&mut self, send: RequestId, region: RegionToken) {
        self.requests[send.0.index].expose_ahead(region);
    }

    /// Returns a region, passed to [`expose`](Self::expose), that must be revoked now. To be polled
    /// after every input, before the program is notified of anything.
    #[inline]
    pub fn next_revocation(&mut self) -> Option<RegionToken> {
        self.revocations.pop()
    }

    /// Queues a region for revocation, if there is one: no process may read it any more.
    pub(crate) fn revoke(&mut self, region: Revoked) {
        self.revocations.extend(region);
    }

    /// Returns the next transfer that a rail must make by reading a peer's memory. Its token is the
    /// request to pass to [`handle_fetched`](Self::handle_fetched).
    #[inline]
    pub fn next_fetch(&mut self) -> Option<Fetch> {
        self.fetches.pop_front()
    }

    /// Returns the number of chunks and fetches made so far. A change shows that a call made some.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Whether packets or fetches wait for a rail.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.gates.with_work() > self.listed_idle || !self.fetches.is_empty()
    }

    /// Whether packets or fetches wait for a rail, or a gate has failed, or a context was revoked:
    /// then requests submitted to them must be ended.
    #[inline]
    pub fn has_work_or_failures(&self) -> bool {
        self.gates.with_work() > 0 || !self.fetches.is_empty()
    }

    /// Returns how often the state of a gate was read so far: the measure of work in tests.
    #[cfg(debug_assertions)]
    pub fn gate_accesses(&self) -> u64 {
        self.gates.accesses()
    }

    /// Returns the numbers of requests, unexpected messages and contexts: all zero when everything
    /// was released.
    pub fn holdings(&self) -> (usize, usize, usize) {
        (self.requests.len(), self.unexpected.len(), self.contexts.len())
    }

    /// Returns the bytes of eager data that may still be sent to a gate, and the bytes of its eager
    /// data that were consumed and not yet reported to it. When nothing is underway between two
    /// processes, the credit of one and the unreported bytes of the other add up to
    /// [`base::limits::EAGER_CREDIT_BYTES`], or to what was [set](Self::set_eager_credit).
    pub fn credit(&self, gate: GateId) -> (usize, usize) {
        let gate = &self.gates[gate];
        (gate.credit, gate.owed)
    }

    /// Returns how many receives wait for their message. Takes time in proportion to the number of
    /// contexts.
    pub fn posted_receives(&self) -> usize {
        self.contexts.iter().map(|(_, context)| context.matching.posted_count()).sum()
    }

    /// Returns the bytes of eager messages sent, and received or dropped, since the start. Computed
    /// from the credit, so that counting costs the messages nothing.
    pub fn eager_bytes(&self) -> (u64, u64) {
        let cost = |messages: u64| messages * limits::EAGER_MESSAGE_COST as u64;
        let taken: usize = self.gates.iter().map(Gate::unreported).sum();
        let owed: usize = self.gates.iter().map(|gate| gate.owed).sum();
        let sent = taken as u64 + self.counters.credit_returned.value();
        let received = owed as u64 + self.counters.credit_reported.value();
        (sent - cost(self.counters.eager_sent()), received - cost(self.counters.eager_received()))
    }

    #[cold]
    fn count_announced(&mut self, gate: GateId, length: usize) {
        self.counters.announced.add(1);
        self.counters.announced_bytes.add(length as u64);
        if length <= self.gates[gate].eager_bytes_max {
            self.counters.credit_stalls.add(1);
        }
    }

    fn find_incoming(
        &self,
        context: ContextSlot,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Option<u32> {
        let selector =
            Selector { source: source.unwrap_or(ANY_SOURCE), tag: tag.unwrap_or(ANY_TAG) };
        self.contexts[context.0].matching.find_arrived(&self.unexpected, selector)
    }

    pub(crate) fn incoming(&self, index: u32) -> IncomingMessage {
        let &Unexpected { gate, source, tag, length: bytes, .. } = &self.unexpected[index];
        IncomingMessage { gate, source, tag, bytes }
    }

    /// Applies the consequences of a request's state transition.
    #[inline]
    pub(crate) fn follow(&mut self, index: u32, step: Transition) {
        if step == Transition::Complete {
            self.note_complete(index);
        }
    }

    /// Applies the consequences of a request's completion.
    #[inline]
    pub(crate) fn note_complete(&mut self, index: u32) {
        let slot = self.requests[index].context;
        self.requests.discard_if_detached(index);
        let context = &mut self.contexts[slot.0];
        context.active -= 1;
        if context.closing {
            self.close_if_idle(slot);
        }
    }

    #[inline]
    pub(crate) fn push_chunk(&mut self, gate: GateId, chunk: Chunk) {
        self.submitted += 1;
        self.gates.push(gate, chunk);
        self.counters.outbox.rise(1);
    }

    pub(crate) fn push_control(&mut self, gate: GateId, record: wire::Record<'static>) {
        self.push_chunk(gate, Chunk::Control(record));
    }
}

impl Context {
    /// Returns the flow to the process with rank `peer`.
    #[inline]
    pub(crate) fn out_flow(&mut self, peer: u32) -> &mut OutFlow {
        let first_sequence = self.first_sequence;
        self.out_flows.entry(peer, || OutFlow::starting_at(first_sequence))
    }
}

impl OutFlow {
    #[inline]
    pub(crate) fn take_sequence(&mut self) -> u32 {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        sequence
    }
}
