//! Checks that messages match their receives.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use checks::{
    AwaitedAct, CallSite, MessageOrder, Mistake, MistakeKind, SentMessage, TypeSignature,
};
use mpi::{MessageSource, MessageStatus, Process, SendMode};

use super::announced_message::AnnouncedMessage;
use super::objects::left_there;
use super::transfers::{self, RECEIVE, TransferSide};
use super::uses::ReceiveEnd;
use super::{CheckMessage, Checks, SeenCall};
use crate::c::Message;
use crate::phase;

/// The messages of all communicators, by their numbers, and the receives.
#[derive(Debug, Default)]
pub struct MessageChecks {
    orders: RefCell<HashMap<u64, MessageOrder>>,
    receives: RefCell<HashMap<u64, SeenReceive>>,
    next: Cell<u64>,
    /// The messages that matched probes have found and that are not received yet: the number of the
    /// probe by message handle, and what the sender has reported, by the number of the probe.
    found: RefCell<HashMap<usize, u64>>,
    matched: RefCell<HashMap<u64, SentMessage>>,
    /// The numbers of notes sent to each process of the job; `heard` has those received from each.
    sent_counts: RefCell<HashMap<u32, u64>>,
    heard: RefCell<HashMap<u32, u64>>,
    /// Whether the program posts no more receives.
    is_closed: Cell<bool>,
}

/// A receive whose message is not known yet.
#[derive(Debug)]
struct SeenReceive {
    communicator: u64,
    exact: Option<(u32, i32)>,
    /// The rank in the job of its source, if the receive names one.
    peer: Option<u32>,
    is_known: bool,
    /// Whether it is a matched probe, whose message is received later.
    finds: bool,
    bytes: u64,
    signature: Option<TypeSignature>,
    site: Rc<CallSite>,
}

/// The largest number of rounds of progress that wait for the note about a message that has
/// arrived.
const ROUNDS_MAX: u32 = 200;

impl MessageChecks {
    /// Announces a message to its receiver before the message is sent.
    pub fn send(
        &self,
        seen: &SeenCall,
        side: &TransferSide,
        site: &CallSite,
    ) -> Option<AnnouncedMessage> {
        let checks = &seen.checks;
        let (peer, tag) = (side.peer?, side.tag?);
        let to = side.communicator.gate(peer)?.0;
        let source = side.communicator.rank();
        let number = self.next.replace(self.next.get() + 1);
        let message = SentMessage {
            source,
            tag,
            number,
            bytes: side.bytes,
            signature: side.signature.clone(),
            is_ready: side.mode == SendMode::Ready,
            awaits_receive: checks.deadlock.note_send(&seen.library.process, to, number, side.mode),
            rank: checks.rank,
            site: site.clone(),
        };
        self.send_to(seen, to, &CheckMessage::Message(side.number, message));
        Some(AnnouncedMessage { to, communicator: side.number, source, tag, number })
    }

    /// Withdraws the announcement of a message that is not sent.
    pub fn take_back(&self, seen: &SeenCall, message: AnnouncedMessage) {
        seen.checks.deadlock.note_expected(message.number);
        self.send_to(seen, message.to, &CheckMessage::Unsent(message));
    }

    /// Sends a note that the receiver must have received before it ends, and counts it.
    pub fn send_to(&self, seen: &SeenCall, to: u32, note: &CheckMessage) {
        *self.sent_counts.borrow_mut().entry(to).or_default() += 1;
        seen.checks.send(&seen.library.process, to, note);
    }

    /// Counts a note that the sender has counted.
    pub fn count(&self, from: u32) {
        *self.heard.borrow_mut().entry(from).or_default() += 1;
    }

    /// Removes a message that another process has announced but not sent.
    pub fn forget(&self, message: AnnouncedMessage) {
        let AnnouncedMessage { communicator, source, tag, number, .. } = message;
        let mut orders = self.orders.borrow_mut();
        orders.entry(communicator).or_default().forget(source, tag, number);
    }

    /// Records that a matched probe has removed a message from matching.
    pub fn take_matched(&self, seen: &SeenCall) {
        let Some(side) = transfers::probe_of(seen) else { return };
        let number = self.post(seen, &side, &seen.site());
        if let Some(receive) = self.receives.borrow_mut().get_mut(&number) {
            receive.finds = true;
        }
        let handle = seen.word("message").and_then(|place| left_there::<Message>(seen, place));
        handle.map(|handle| self.found.borrow_mut().insert(handle, number));
        match seen.status().or(side.selection().exact()) {
            Some((source, tag)) => {
                self.found(number, source, tag);
                self.await_note(seen, number);
            }
            None => self.lose(seen, number),
        }
    }

    /// Records that a message that a matched probe has found is received.
    pub fn receive_matched(&self, seen: &SeenCall) {
        let handle = seen.word("message").and_then(|place| left_there::<Message>(seen, place));
        let number = handle.and_then(|handle| self.found.borrow_mut().remove(&handle));
        let Some((number, data)) = number.zip(transfers::data_of(seen, &RECEIVE)) else { return };
        let message = self.matched.borrow_mut().remove(&number);
        let mut receives = self.receives.borrow_mut();
        // If the receive is still recorded, the sender's note about the message arrives later.
        let late = receives.get_mut(&number).map(|receive| {
            receive.finds = false;
            (receive.bytes, receive.signature) = (data.bytes, data.signature.clone());
            receive.site = seen.site();
        });
        drop(receives);
        if let Some(message) = message.filter(|_| late.is_none()) {
            let (bytes, signature, site) = (data.bytes, data.signature, seen.site());
            let mistake = contradiction(seen.checks.rank, message, bytes, signature, &site);
            mistake.iter().for_each(|mistake| seen.checks.report_mistake(mistake));
        }
    }

    /// Removes the records of communicators that are gone.
    pub fn purge(&self, is_alive: &dyn Fn(u64) -> bool) {
        self.orders.borrow_mut().retain(|number, one| is_alive(*number) || !one.is_empty());
    }

    /// Records the announcement of a message from another process.
    pub fn add_received(
        &self,
        checks: &Checks,
        process: &Process,
        communicator: u64,
        message: SentMessage,
    ) {
        let sent = message.is_ready.then(|| message.clone());
        let is_expected =
            self.orders.borrow_mut().entry(communicator).or_default().add_received(message);
        if let Some(sent) = sent.filter(|_| !is_expected) {
            let what = format!(
                "rank {} calls {} with tag {} to rank {}, which has posted no receive for it",
                sent.rank, sent.site.function, sent.tag, checks.rank
            );
            let sites = vec![(sent.rank, sent.site)];
            checks.report_mistake(&Mistake { kind: MistakeKind::Ready, what, sites });
        }
        if self.is_closed.get() {
            self.orders.borrow_mut().entry(communicator).or_default().close();
        }
        self.report_expected(checks, process, communicator);
        self.settle(checks, communicator);
    }

    /// Records that the program posts a receive, and returns its number.
    pub fn post(&self, seen: &SeenCall, side: &TransferSide, site: &Rc<CallSite>) -> u64 {
        // Announcements of messages that were sent before must be recorded before the receive.
        seen.checks.take_all(&seen.library.process);
        let number = self.next.replace(self.next.get() + 1);
        let selection = side.selection();
        self.orders.borrow_mut().entry(side.number).or_default().post(number, selection);
        self.report_expected(&seen.checks, &seen.library.process, side.number);
        let receive = SeenReceive {
            communicator: side.number,
            exact: selection.exact(),
            peer: side.peer.and_then(|peer| side.communicator.gate(peer)).map(|gate| gate.0),
            is_known: false,
            finds: false,
            bytes: side.bytes,
            signature: side.signature.clone(),
            site: Rc::clone(site),
        };
        self.receives.borrow_mut().insert(number, receive);
        number
    }

    /// Records, from a status, which message a receive got, or that it was cancelled.
    pub fn resolve(&self, seen: &SeenCall, number: u64, status: &MessageStatus) {
        let (MessageSource::Rank(source), Some(tag), false) =
            (status.source, status.tag, status.cancelled)
        else {
            return self.withdraw(number);
        };
        self.found(number, source, tag);
        self.await_note(seen, number);
    }

    fn found(&self, number: u64, source: u32, tag: i32) {
        if let Some(receive) = self.receives.borrow_mut().get_mut(&number) {
            receive.is_known = true;
            let mut orders = self.orders.borrow_mut();
            orders.entry(receive.communicator).or_default().resolve(number, source, tag);
        }
    }

    /// Makes progress until the sender's note about a message has arrived, which comes at about the
    /// time of the message.
    fn await_note(&self, seen: &SeenCall, number: u64) {
        let process = &seen.library.process;
        let Some(communicator) = self.communicator_of(number) else { return };
        for _ in 0..ROUNDS_MAX {
            self.settle(&seen.checks, communicator);
            if self.communicator_of(number).is_none() {
                return;
            }
            process.progress();
            seen.checks.take_all(process);
        }
    }

    /// Informs senders that receives are posted for their messages.
    fn report_expected(&self, checks: &Checks, process: &Process, communicator: u64) {
        let order = |orders: &mut HashMap<u64, MessageOrder>| {
            orders.get_mut(&communicator).map(MessageOrder::take_expected)
        };
        let expected = order(&mut self.orders.borrow_mut());
        for (rank, number) in expected.into_iter().flatten() {
            checks.send(process, rank, &CheckMessage::ReceivePosted(number));
        }
    }

    /// Records that the program posts no more receives, so that no sender waits for one.
    pub fn close(&self, seen: &SeenCall) {
        self.is_closed.set(true);
        let mut communicators = Vec::new();
        for (communicator, order) in self.orders.borrow_mut().iter_mut() {
            order.close();
            communicators.push(*communicator);
        }
        for communicator in communicators {
            self.report_expected(&seen.checks, &seen.library.process, communicator);
        }
    }

    /// Whether a call of another process still waits for this process: for a receive for a message,
    /// or, in the process with this rank, for more notes than have been sent to it.
    pub fn is_owed(&self, to: u32, act: &AwaitedAct) -> bool {
        match *act {
            AwaitedAct::Receive { communicator, source, tag, number } => {
                let orders = self.orders.borrow();
                orders.get(&communicator).is_some_and(|one| one.is_unexpected(source, tag, number))
            }
            AwaitedAct::Send { heard } => {
                self.sent_counts.borrow().get(&to).copied().unwrap_or(0) == heard
            }
            AwaitedAct::Enter { .. } => false,
        }
    }

    /// Returns the rank in the job of the only process whose message a receive waits for, and how
    /// many notes of that process have arrived.
    pub fn lacks(&self, number: u64) -> Option<(u32, u64)> {
        let receives = self.receives.borrow();
        let receive = receives.get(&number).filter(|receive| !receive.is_known)?;
        self.orders.borrow().get(&receive.communicator)?.lacks(number)?;
        let peer = receive.peer?;
        Some((peer, self.heard.borrow().get(&peer).copied().unwrap_or(0)))
    }

    fn communicator_of(&self, number: u64) -> Option<u64> {
        self.receives.borrow().get(&number).map(|receive| receive.communicator)
    }

    /// Handles the end of a receive.
    pub fn end(&self, seen: &SeenCall, number: u64, end: ReceiveEnd) {
        let exact = {
            let receives = self.receives.borrow();
            let Some(receive) = receives.get(&number).filter(|one| !one.is_known) else { return };
            receive.exact.filter(|_| end == ReceiveEnd::WithMessage)
        };
        match exact {
            Some((source, tag)) => {
                self.found(number, source, tag);
                self.await_note(seen, number);
            }
            None => self.lose(seen, number),
        }
    }

    /// Records that a receive may get any message or none, so that the order of its communicator is
    /// no longer known.
    pub fn lose(&self, seen: &SeenCall, number: u64) {
        let lost = self.receives.borrow_mut().remove(&number);
        if let Some(SeenReceive { communicator, .. }) = lost {
            self.orders.borrow_mut().entry(communicator).or_default().lose();
            self.report_expected(&seen.checks, &seen.library.process, communicator);
        }
    }

    /// Records that a receive ended without a message.
    pub fn withdraw(&self, number: u64) {
        if let Some(receive) = self.receives.borrow_mut().remove(&number) {
            self.orders.borrow_mut().entry(receive.communicator).or_default().withdraw(number);
        }
    }

    /// Compares the messages and receives that have been matched.
    fn settle(&self, checks: &Checks, communicator: u64) {
        let pairs = match self.orders.borrow_mut().get_mut(&communicator) {
            Some(order) => order.pairs(),
            None => return,
        };
        for (number, message) in pairs {
            let Some(receive) = self.receives.borrow_mut().remove(&number) else { continue };
            if receive.finds {
                self.matched.borrow_mut().insert(number, message);
                continue;
            }
            let SeenReceive { bytes, signature, site, .. } = receive;
            let mistake = contradiction(checks.rank, message, bytes, signature, &site);
            mistake.iter().for_each(|mistake| checks.report_mistake(mistake));
        }
    }

    /// Finds out, by a probe, which message a blocking receive will get, before the call fails or
    /// ends the program.
    pub fn look_ahead(&self, seen: &SeenCall, side: &TransferSide, number: u64) {
        // With several threads, another thread may take the message that the probe finds.
        if phase::is_locked() {
            return;
        }
        let process = &seen.library.process;
        if let Ok(status) = side.communicator.probe(process, side.source(), side.tag) {
            self.resolve(seen, number, &status);
        }
    }

    /// Returns the numbers of notes that were sent to each of `size` processes.
    pub fn sent_counts(&self, size: u32) -> Vec<u64> {
        let sent_counts = self.sent_counts.borrow();
        (0..size).map(|rank| sent_counts.get(&rank).copied().unwrap_or(0)).collect()
    }

    /// Returns the number of notes that were received.
    pub fn heard(&self) -> u64 {
        self.heard.borrow().values().sum()
    }

    /// Reports the messages that were never received.
    pub fn report_left(&self, checks: &Checks) {
        for order in self.orders.borrow().values() {
            for message in order.left() {
                let what = format!(
                    "rank {} calls MPI_Finalize, but has never received a message of {} bytes with \
                     tag {} from rank {}",
                    checks.rank, message.bytes, message.tag, message.rank
                );
                let sites = vec![(message.rank, message.site.clone())];
                checks.report_mistake(&Mistake { kind: MistakeKind::Message, what, sites });
            }
        }
    }
}

/// Returns the mistake if a receive of this number of bytes with this type signature gets a message
/// that does not fit it.
fn contradiction(
    rank: u32,
    message: SentMessage,
    bytes: u64,
    signature: Option<TypeSignature>,
    site: &CallSite,
) -> Option<Mistake> {
    let sender = message.rank;
    let (kind, what) = if message.bytes > bytes {
        let what = format!(
            "rank {rank} receives {} bytes with tag {} from rank {sender} into a buffer of {}",
            message.bytes, message.tag, bytes
        );
        (MistakeKind::Truncation, what)
    } else {
        let (sent, received) = (message.signature?, signature?);
        let (sent, received) = sent.contradiction(&received)?;
        let what = format!(
            "rank {rank} receives {received} with tag {} from rank {sender}, which sends {sent}",
            message.tag
        );
        (MistakeKind::Types, what)
    };
    let sites = vec![(rank, site.clone()), (sender, message.site)];
    Some(Mistake { kind, what, sites })
}

/// Waits until all notes that other processes sent to this one have arrived. Stops waiting if the
/// processes are in different operations.
pub fn await_all(checks: &Checks, process: &Process) -> bool {
    let world = process.world();
    let size = world.size();
    checks.send(process, 0, &CheckMessage::Counts(checks.messages.sent_counts(size)));
    let is_there =
        || checks.expected.get().is_some_and(|expected| expected <= checks.messages.heard());
    process.wait_until(&mut |process| {
        is_there() || checks.is_apart.get() || process.has_lost_processes()
    });
    is_there()
}
