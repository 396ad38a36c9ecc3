//! Standard sends, which wait here until their receives are posted: a program that relies on
//! buffering comes to a standstill then, which is found by asking from process to process.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use checks::{AwaitedAct, CallSite, ChainedCall, WaitChain};
use mpi::{Process, SendMode};

use super::announced_message::AnnouncedMessage;
use super::requests::UnderwayTransfer;
use super::{CheckNote, Checks, SeenCall};
use crate::entry;

/// What the calls of this process wait for.
#[derive(Debug, Default)]
pub struct StandstillChecks {
    /// The messages, by number, for which no receive is posted as far as is known.
    unexpected: RefCell<HashMap<u64, SendMode>>,
    /// The calls that the program is in; more than one, where one calls back.
    calls: RefCell<Vec<CallWaits>>,
    next: Cell<u64>,
    /// The last question of each process that was passed on: its call, and its round.
    asked: RefCell<HashMap<u32, (u64, u64)>>,
    /// The places whose sends wait no more.
    excused: RefCell<HashSet<Rc<CallSite>>>,
}

/// What a call waits for.
#[derive(Debug)]
struct CallWaits {
    number: u64,
    site: Rc<CallSite>,
    sends: Vec<AnnouncedMessage>,
    receives: Vec<u64>,
    operation: Option<((u64, u64), Vec<u32>)>,
    since: Instant,
    round: u64,
    next_round: Duration,
}

/// An act of another process for which a call waits.
struct Need {
    rank: u32,
    waiting: ChainedCall,
    act: AwaitedAct,
}

/// After so long a call that waits asks the first time; each time it waits twice as long, up to...
const FIRST_ROUND: Duration = Duration::from_millis(1);
/// ... this time.
const ROUND_MAX: Duration = Duration::from_millis(400);

/// A receiver that computes, or waits for something else than a call, is waited for so long. After
/// that the message is buffered, as are all from that place.
const RECEIVER_TIME_MAX: Duration = Duration::from_secs(10);

/// The program is in a call as long as this lives.
pub struct WaitsInCall {
    checks: Rc<Checks>,
    number: u64,
}

impl WaitsInCall {
    /// It makes one now.
    pub fn begin(checks: &Rc<Checks>) -> Self {
        Self { checks: Rc::clone(checks), number: checks.standstill.begin() }
    }
}

impl Drop for WaitsInCall {
    fn drop(&mut self) {
        self.checks.standstill.end(self.number);
    }
}

impl StandstillChecks {
    fn begin(&self) -> u64 {
        let number = self.next.replace(self.next.get() + 1);
        self.calls.borrow_mut().push(CallWaits::new(number));
        number
    }

    fn end(&self, number: u64) {
        self.calls.borrow_mut().retain(|call| call.number != number);
    }

    /// A message is told of; whether its receiver is to say when a receive is posted for it.
    pub fn note_send(&self, process: &Process, to: u32, number: u64, mode: SendMode) -> bool {
        let waits = matches!(mode, SendMode::Standard | SendMode::Synchronous);
        // Another thread may go on while one waits.
        let is_awaited = waits && !entry::is_locked() && to < process.world().size();
        if is_awaited {
            self.unexpected.borrow_mut().insert(number, mode);
        }
        is_awaited
    }

    /// A receive is posted for a message, or it is not sent.
    pub fn note_expected(&self, number: u64) {
        self.unexpected.borrow_mut().remove(&number);
    }

    /// The call waits until this transfer is over.
    pub fn await_transfer(&self, seen: &SeenCall, underway: &UnderwayTransfer) {
        let is_open = |message: &AnnouncedMessage| {
            self.unexpected.borrow().contains_key(&message.number)
                && !self.excused.borrow().contains(&seen.site())
        };
        let send = underway.announced().filter(is_open);
        if send.is_none() && underway.receive().is_none() {
            return;
        }
        self.note(seen, |call| {
            call.sends.extend(send);
            call.receives.extend(underway.receive());
        });
    }

    /// The call waits until all others (ranks in the job) have called the operation with a number
    /// on a communicator.
    pub fn await_operation(&self, seen: &SeenCall, operation: (u64, u64), others: Vec<u32>) {
        self.note(seen, |call| call.operation = Some((operation, others)));
    }

    fn note(&self, seen: &SeenCall, change: impl FnOnce(&mut CallWaits)) {
        let site = seen.site();
        if let Some(call) = self.calls.borrow_mut().last_mut().filter(|_| !entry::is_locked()) {
            call.site = site;
            change(call);
        }
    }

    /// Whether the call in which the program is waits until a standard send has its receive.
    fn awaits_receive(&self) -> bool {
        let (calls, unexpected) = (self.calls.borrow(), self.unexpected.borrow());
        let is_standard = |message: &AnnouncedMessage| {
            unexpected.get(&message.number) == Some(&SendMode::Standard)
        };
        calls.last().is_some_and(|call| call.sends.iter().any(is_standard))
    }

    /// The call waits for sends no more, nor do later ones from the same place.
    fn excuse(&self) {
        if let Some(call) = self.calls.borrow_mut().last_mut() {
            call.sends.clear();
            self.excused.borrow_mut().insert(Rc::clone(&call.site));
        }
    }

    /// The next round of questions, if it is time for that.
    fn next_round(&self) -> Option<u64> {
        if !self.awaits_receive() {
            return None;
        }
        let mut calls = self.calls.borrow_mut();
        let call = calls.last_mut()?;
        let waited = call.since.elapsed();
        if waited < call.next_round {
            return None;
        }
        call.next_round = waited + waited.clamp(FIRST_ROUND, ROUND_MAX);
        call.round += 1;
        Some(call.round)
    }
}

impl CallWaits {
    fn new(number: u64) -> Self {
        Self {
            number,
            site: Rc::default(),
            sends: Vec::new(),
            receives: Vec::new(),
            operation: None,
            since: Instant::now(),
            round: 0,
            next_round: FIRST_ROUND,
        }
    }

    /// That it waits for an act of the process with this rank.
    fn need(&self, checks: &Checks, rank: u32, (what, act): (String, AwaitedAct)) -> Need {
        let waiting = ChainedCall {
            rank: checks.rank,
            number: self.number,
            is_standard_send: false,
            what,
            site: (*self.site).clone(),
        };
        Need { rank, waiting, act }
    }

    /// What it waits for, of each process.
    fn needs(&self, checks: &Checks) -> Vec<Need> {
        let mut needs = Vec::new();
        for message in &self.sends {
            let mode = checks.standstill.unexpected.borrow().get(&message.number).copied();
            let Some(mode) = mode else { continue };
            let AnnouncedMessage { to, communicator, source, tag, number } = *message;
            let what = format!("until rank {to} receives its message with tag {tag}");
            let act = AwaitedAct::Receive { communicator, source, tag, number };
            let mut need = self.need(checks, to, (what, act));
            need.waiting.is_standard_send = mode == SendMode::Standard;
            needs.push(need);
        }
        for receive in &self.receives {
            if let Some((peer, heard)) = checks.messages.lacks(*receive) {
                let what = format!("for a message of rank {peer}");
                needs.push(self.need(checks, peer, (what, AwaitedAct::Send { heard })));
            }
        }
        if let Some(((communicator, number), others)) = &self.operation {
            let (communicator, number) = (*communicator, *number);
            for rank in others {
                let what = format!("for rank {rank}");
                let act = AwaitedAct::Enter { communicator, number };
                needs.push(self.need(checks, *rank, (what, act)));
            }
        }
        needs
    }
}

/// What the call in which the program is waits for, if no thread can do anything else meanwhile.
fn needs(checks: &Checks) -> Vec<Need> {
    let calls = checks.standstill.calls.borrow();
    calls.last().filter(|_| !entry::is_locked()).map_or(Vec::new(), |call| call.needs(checks))
}

/// In each round of progress: a call that waits for the receive of a standard send asks whether
/// all that this depends on wait, too.
pub fn look(checks: &Checks, process: &Process) {
    let Some(round) = checks.standstill.next_round() else { return };
    for Need { rank, waiting, act } in needs(checks) {
        if waiting.is_standard_send {
            let chain = WaitChain { round, calls: vec![waiting], act };
            checks.send(process, rank, &CheckNote::Waits(chain));
        }
    }
}

/// Calls of others wait for this process, as the last one says.
pub fn hear(checks: &Checks, process: &Process, chain: WaitChain) {
    let (Some(first), Some(last)) = (chain.calls.first(), chain.calls.last()) else { return };
    let is_owed = match chain.act {
        AwaitedAct::Enter { communicator, number } => {
            !checks.collectives.has_entered(communicator, number)
        }
        _ => checks.messages.is_owed(last.rank, &chain.act),
    };
    if !is_owed {
        return;
    }
    let standstill = &checks.standstill;
    if first.rank == checks.rank {
        let current = standstill.calls.borrow().last().map(|call| call.number);
        let mistake = chain.mistake().filter(|_| current == Some(first.number));
        if let Some(mistake) = mistake.filter(|_| standstill.awaits_receive()) {
            checks.tell(&mistake);
            standstill.excuse();
        }
        return;
    }
    let question = (first.number, chain.round);
    let needs = needs(checks);
    if needs.is_empty() || standstill.asked.borrow().get(&first.rank) == Some(&question) {
        return;
    }
    standstill.asked.borrow_mut().insert(first.rank, question);
    for Need { rank, waiting, act } in needs {
        let mut calls = chain.calls.clone();
        calls.push(waiting);
        checks.send(process, rank, &CheckNote::Waits(WaitChain { round: chain.round, calls, act }));
    }
}

/// A call that sends is over when each receive is posted, unless that is in vain.
pub fn await_receives(seen: &SeenCall) {
    let (checks, standstill) = (&seen.checks, &seen.checks.standstill);
    if !standstill.awaits_receive() {
        return;
    }
    let begun = Instant::now();
    seen.library.process.wait_until(&mut |process| {
        !standstill.awaits_receive()
            || begun.elapsed() > RECEIVER_TIME_MAX
            || checks.is_apart.get()
            || checks.is_revoked.get()
            || process.has_lost_processes()
    });
    if standstill.awaits_receive() {
        standstill.excuse();
    }
}
