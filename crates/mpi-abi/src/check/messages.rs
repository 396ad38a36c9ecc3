//! Messages and receives, which must fit together.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use checks::{
    AwaitedAct, CallSite, MessageOrder, Mistake, MistakeKind, SentMessage, TypeSignature,
};
use mpi::{MessageSource, MessageStatus, Process, SendMode};

use super::announced_message::AnnouncedMessage;
use super::objects::left_there;
use super::requests::{UnderwayTransfer, begin_transfer};
use super::transfers::{self, RECEIVE, SeenTransfer, TransferSide};
use super::{CheckNote, Checks, SeenCall};
use crate::c::Message;
use crate::entry;

/// The messages of all communicators, by their numbers, and the receives.
#[derive(Debug, Default)]
pub struct MessageChecks {
    orders: RefCell<HashMap<u64, MessageOrder>>,
    receives: RefCell<HashMap<u64, SeenReceive>>,
    next: Cell<u64>,
    /// The messages that were found and are not received yet: the numbers of what has found them,
    /// by handle, and what the senders told of them.
    found: RefCell<HashMap<usize, u64>>,
    matched: RefCell<HashMap<u64, SentMessage>>,
    /// How many notes were told to each process of the job, and were told here.
    told: RefCell<HashMap<u32, u64>>,
    heard: RefCell<HashMap<u32, u64>>,
    /// The program posts no more receives.
    is_closed: Cell<bool>,
}

/// A receive that has not found its message.
#[derive(Debug)]
struct SeenReceive {
    communicator: u64,
    exact: Option<(u32, i32)>,
    /// The rank in the job of the one process from which it is.
    peer: Option<u32>,
    is_known: bool,
    /// It has only found a message, which is received later.
    finds: bool,
    bytes: u64,
    signature: Option<TypeSignature>,
    site: Rc<CallSite>,
}

/// How a receive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveEnd {
    /// It has got a message.
    WithMessage,
    /// The program has asked to cancel it: it has perhaps got none.
    Cancelled,
}

/// How many rounds of progress are made at most for what was told of a message that has come.
const ROUNDS_MAX: u32 = 200;

impl MessageChecks {
    /// The program sends; the process at the other end hears of it before the message comes.
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
            awaits_receive: checks.standstill.note_send(
                &seen.library.process,
                to,
                number,
                side.mode,
            ),
            rank: checks.rank,
            site: site.clone(),
        };
        self.tell(seen, to, &CheckNote::Message(side.number, message));
        Some(AnnouncedMessage { to, communicator: side.number, source, tag, number })
    }

    /// A message that the other end has heard of is not sent.
    pub fn take_back(&self, seen: &SeenCall, message: AnnouncedMessage) {
        seen.checks.standstill.note_expected(message.number);
        self.tell(seen, message.to, &CheckNote::Unsent(message));
    }

    /// Another process hears of something that it must know before it ends.
    pub fn tell(&self, seen: &SeenCall, to: u32, note: &CheckNote) {
        *self.told.borrow_mut().entry(to).or_default() += 1;
        seen.checks.send(&seen.library.process, to, note);
    }

    /// A note has come that the sender has counted.
    pub fn count(&self, from: u32) {
        *self.heard.borrow_mut().entry(from).or_default() += 1;
    }

    /// Another process has not sent what it told of.
    pub fn forget(&self, message: AnnouncedMessage) {
        let AnnouncedMessage { communicator, source, tag, number, .. } = message;
        let mut orders = self.orders.borrow_mut();
        orders.entry(communicator).or_default().forget(source, tag, number);
    }

    /// A matched probe has taken a message out of matching.
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

    /// What a matched probe has found is received.
    pub fn receive_matched(&self, seen: &SeenCall) {
        let handle = seen.word("message").and_then(|place| left_there::<Message>(seen, place));
        let number = handle.and_then(|handle| self.found.borrow_mut().remove(&handle));
        let Some((number, data)) = number.zip(transfers::data_of(seen, &RECEIVE)) else { return };
        let message = self.matched.borrow_mut().remove(&number);
        let mut receives = self.receives.borrow_mut();
        // Else what the sender told of it comes later.
        let late = receives.get_mut(&number).map(|receive| {
            receive.finds = false;
            (receive.bytes, receive.signature) = (data.bytes, data.signature.clone());
            receive.site = seen.site();
        });
        drop(receives);
        if let Some(message) = message.filter(|_| late.is_none()) {
            let (bytes, signature, site) = (data.bytes, data.signature, seen.site());
            let mistake = contradiction(seen.checks.rank, message, bytes, signature, &site);
            mistake.iter().for_each(|mistake| seen.checks.tell(mistake));
        }
    }

    /// Forgets communicators that are gone, if there are many.
    pub fn purge(&self, is_alive: &dyn Fn(u64) -> bool) {
        self.orders.borrow_mut().retain(|number, one| is_alive(*number) || !one.is_empty());
    }

    /// Another process sends to this one.
    pub fn hear(
        &self,
        checks: &Checks,
        process: &Process,
        communicator: u64,
        message: SentMessage,
    ) {
        let sent = message.is_ready.then(|| message.clone());
        let is_expected = self.orders.borrow_mut().entry(communicator).or_default().hear(message);
        if let Some(sent) = sent.filter(|_| !is_expected) {
            let what = format!(
                "rank {} calls {} with tag {} to rank {}, where no receive is posted for it",
                sent.rank, sent.site.function, sent.tag, checks.rank
            );
            let sites = vec![(sent.rank, sent.site)];
            checks.tell(&Mistake { kind: MistakeKind::Ready, what, sites });
        }
        if self.is_closed.get() {
            self.orders.borrow_mut().entry(communicator).or_default().close();
        }
        self.tell_expected(checks, process, communicator);
        self.settle(checks, communicator);
    }

    /// The program posts a receive; its number.
    pub fn post(&self, seen: &SeenCall, side: &TransferSide, site: &Rc<CallSite>) -> u64 {
        // What was sent before is known before.
        seen.checks.take_all(&seen.library.process);
        let number = self.next.replace(self.next.get() + 1);
        let selection = side.selection();
        self.orders.borrow_mut().entry(side.number).or_default().post(number, selection);
        self.tell_expected(&seen.checks, &seen.library.process, side.number);
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

    /// A receive got its message, or was cancelled, as this status says.
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

    /// What the sender said of the message comes at about the same time.
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

    /// Tells senders that receives are posted for their messages.
    fn tell_expected(&self, checks: &Checks, process: &Process, communicator: u64) {
        let order = |orders: &mut HashMap<u64, MessageOrder>| {
            orders.get_mut(&communicator).map(MessageOrder::take_expected)
        };
        let expected = order(&mut self.orders.borrow_mut());
        for (rank, number) in expected.into_iter().flatten() {
            checks.send(process, rank, &CheckNote::ReceivePosted(number));
        }
    }

    /// The program posts no more receives: nobody shall wait for that.
    pub fn close(&self, seen: &SeenCall) {
        self.is_closed.set(true);
        let mut communicators = Vec::new();
        for (communicator, order) in self.orders.borrow_mut().iter_mut() {
            order.close();
            communicators.push(*communicator);
        }
        for communicator in communicators {
            self.tell_expected(&seen.checks, &seen.library.process, communicator);
        }
    }

    /// Whether a call waits in vain for what this process has not done: to post a receive for a
    /// message, or to tell the process with this rank of more than so many notes.
    pub fn is_owed(&self, to: u32, act: &AwaitedAct) -> bool {
        match *act {
            AwaitedAct::Receive { communicator, source, tag, number } => {
                let orders = self.orders.borrow();
                orders.get(&communicator).is_some_and(|one| one.is_unexpected(source, tag, number))
            }
            AwaitedAct::Send { heard } => {
                self.told.borrow().get(&to).copied().unwrap_or(0) == heard
            }
            AwaitedAct::Enter { .. } => false,
        }
    }

    /// The rank in the job of the process, if it is one, whose message a receive waits for, and how
    /// many notes of that process have come.
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

    /// A receive is over.
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

    /// A receive may get any message from now on, or none: nothing is known there any more.
    pub fn lose(&self, seen: &SeenCall, number: u64) {
        let lost = self.receives.borrow_mut().remove(&number);
        if let Some(SeenReceive { communicator, .. }) = lost {
            self.orders.borrow_mut().entry(communicator).or_default().lose();
            self.tell_expected(&seen.checks, &seen.library.process, communicator);
        }
    }

    /// A receive gets nothing.
    pub fn withdraw(&self, number: u64) {
        if let Some(receive) = self.receives.borrow_mut().remove(&number) {
            self.orders.borrow_mut().entry(receive.communicator).or_default().withdraw(number);
        }
    }

    /// Compares the messages and receives that have found each other.
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
            mistake.iter().for_each(|mistake| checks.tell(mistake));
        }
    }

    /// A call that returns when its message is there: what that message is, as it is known before
    /// it fails, or ends the program.
    pub fn look_ahead(&self, seen: &SeenCall, side: &TransferSide, number: u64) {
        // Another thread may take the message that is found.
        if entry::is_locked() {
            return;
        }
        let process = &seen.library.process;
        if let Ok(status) = side.communicator.probe(process, side.source(), side.tag) {
            self.resolve(seen, number, &status);
        }
    }

    /// How many notes were told to each of `size` processes.
    pub fn told(&self, size: u32) -> Vec<u64> {
        let told = self.told.borrow();
        (0..size).map(|rank| told.get(&rank).copied().unwrap_or(0)).collect()
    }

    /// How many were told here.
    pub fn heard(&self) -> u64 {
        self.heard.borrow().values().sum()
    }

    /// Tells of the messages that nobody has received.
    pub fn tell_left(&self, checks: &Checks) {
        for order in self.orders.borrow().values() {
            for message in order.left() {
                let what = format!(
                    "rank {} calls MPI_Finalize, but has never received a message of {} bytes with \
                     tag {} from rank {}",
                    checks.rank, message.bytes, message.tag, message.rank
                );
                let sites = vec![(message.rank, message.site.clone())];
                checks.tell(&Mistake { kind: MistakeKind::Message, what, sites });
            }
        }
    }
}

/// What is wrong if a receive of so many bytes, of such elements, gets this message.
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
/// A call that is over when it returns sends, and receives.
pub fn begin(seen: &SeenCall, transfer: &SeenTransfer) -> Rc<UnderwayTransfer> {
    let underway = begin_transfer(seen, transfer);
    seen.checks.standstill.await_transfer(seen, &underway);
    if transfer.send.is_none()
        && let (Some(receive), Some(number)) = (&transfer.receive, underway.receive())
    {
        seen.checks.messages.look_ahead(seen, receive, number);
    }
    underway
}

/// Waits until all that other processes told this one has come, unless they have stopped to agree.
pub fn await_all(checks: &Checks, process: &Process) -> bool {
    let world = process.world();
    let size = world.size();
    checks.send(process, 0, &CheckNote::Counts(checks.messages.told(size)));
    let is_there =
        || checks.expected.get().is_some_and(|expected| expected <= checks.messages.heard());
    process.wait_until(&mut |process| {
        is_there() || checks.is_apart.get() || process.has_lost_processes()
    });
    is_there()
}
