//! Detects programs that rely on the buffering of standard sends. When calls are checked, standard
//! sends wait until their receives are posted, so that such a program comes to a deadlock.
//! Processes detect this by questions that they forward to each other.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use checks::{AwaitedAct, CallSite, ChainedCall, WaitChain};
use mpi::{Process, SendMode};

use super::announced_message::AnnouncedMessage;
use super::requests::UnderwayTransfer;
use super::{CheckMessage, Checks, SeenCall};
use crate::phase;

/// What the calls of this process wait for.
#[derive(Debug, Default)]
pub struct DeadlockChecks {
    /// The messages, by number, for which no receive is known to be posted.
    unexpected: RefCell<HashMap<u64, SendMode>>,
    /// The calls that the program is in. There are several if a call runs a function of the program
    /// that makes another call.
    calls: RefCell<Vec<CallWaits>>,
    next: Cell<u64>,
    /// The last question of each process that was forwarded: the number of its call, and its round.
    asked: RefCell<HashMap<u32, (u64, u64)>>,
    /// The call sites whose sends no longer wait.
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

/// The time after which a waiting call asks for the first time. Each further interval is twice as
/// long, up to [`ROUND_MAX`].
const FIRST_ROUND: Duration = Duration::from_millis(1);
/// The longest interval between questions.
const ROUND_MAX: Duration = Duration::from_millis(400);

/// How long a call waits for a receiver that computes, or that waits for something else than a
/// call. Afterwards the message is buffered, and so are all later ones from that call site.
const RECEIVER_TIME_MAX: Duration = Duration::from_secs(10);

/// Marks that the program is in a call, until it is dropped.
pub struct WaitsInCall {
    checks: Rc<Checks>,
    number: u64,
}

impl WaitsInCall {
    /// Marks the beginning of a call.
    pub fn begin(checks: &Rc<Checks>) -> Self {
        Self { checks: Rc::clone(checks), number: checks.deadlock.begin() }
    }
}

impl Drop for WaitsInCall {
    fn drop(&mut self) {
        self.checks.deadlock.end(self.number);
    }
}

impl DeadlockChecks {
    fn begin(&self) -> u64 {
        let number = self.next.replace(self.next.get() + 1);
        self.calls.borrow_mut().push(CallWaits::new(number));
        number
    }

    fn end(&self, number: u64) {
        self.calls.borrow_mut().retain(|call| call.number != number);
    }

    /// Records a message that is announced. Returns whether the receiver must report when a receive
    /// is posted for it.
    pub fn note_send(&self, process: &Process, to: u32, number: u64, mode: SendMode) -> bool {
        let waits = matches!(mode, SendMode::Standard | SendMode::Synchronous);
        // With several threads, another thread may continue while one waits.
        let is_awaited = waits && !phase::is_locked() && to < process.world().size();
        if is_awaited {
            self.unexpected.borrow_mut().insert(number, mode);
        }
        is_awaited
    }

    /// Records that a receive is posted for a message, or that the message is not sent.
    pub fn note_expected(&self, number: u64) {
        self.unexpected.borrow_mut().remove(&number);
    }

    /// Records that the call waits until this transfer is complete.
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

    /// Records that the call waits until all others (ranks in the job) have called the operation
    /// with a number on a communicator.
    pub fn await_operation(&self, seen: &SeenCall, operation: (u64, u64), others: Vec<u32>) {
        self.note(seen, |call| call.operation = Some((operation, others)));
    }

    fn note(&self, seen: &SeenCall, change: impl FnOnce(&mut CallWaits)) {
        let site = seen.site();
        if let Some(call) = self.calls.borrow_mut().last_mut().filter(|_| !phase::is_locked()) {
            call.site = site;
            change(call);
        }
    }

    /// Whether the current call waits for the receive of a standard send.
    fn awaits_receive(&self) -> bool {
        let (calls, unexpected) = (self.calls.borrow(), self.unexpected.borrow());
        let is_standard = |message: &AnnouncedMessage| {
            unexpected.get(&message.number) == Some(&SendMode::Standard)
        };
        calls.last().is_some_and(|call| call.sends.iter().any(is_standard))
    }

    /// Ends the waiting of the current call for sends, and of later calls from its call site.
    fn excuse(&self) {
        if let Some(call) = self.calls.borrow_mut().last_mut() {
            call.sends.clear();
            self.excused.borrow_mut().insert(Rc::clone(&call.site));
        }
    }

    /// Returns the number of the next round of questions, if it is due.
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

    /// Returns the need of this call for an act of the process with this rank.
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

    /// Returns the acts of other processes that the call waits for.
    fn needs(&self, checks: &Checks) -> Vec<Need> {
        let mut needs = Vec::new();
        for message in &self.sends {
            let mode = checks.deadlock.unexpected.borrow().get(&message.number).copied();
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

/// Returns what the current call waits for; nothing if another thread may continue meanwhile.
fn needs(checks: &Checks) -> Vec<Need> {
    let calls = checks.deadlock.calls.borrow();
    calls.last().filter(|_| !phase::is_locked()).map_or(Vec::new(), |call| call.needs(checks))
}

/// Runs in each round of progress. If the current call waits for the receive of a standard send, it
/// asks the receiver whether all processes that the receive depends on wait, too.
pub fn check(checks: &Checks, process: &Process) {
    let Some(round) = checks.deadlock.next_round() else { return };
    for Need { rank, waiting, act } in needs(checks) {
        if waiting.is_standard_send {
            let chain = WaitChain { round, calls: vec![waiting], act };
            checks.send(process, rank, &CheckMessage::Waits(chain));
        }
    }
}

/// Handles a question: calls of other processes wait for this process, as the last call describes.
pub fn add_received(checks: &Checks, process: &Process, chain: WaitChain) {
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
    let deadlock = &checks.deadlock;
    if first.rank == checks.rank {
        let current = deadlock.calls.borrow().last().map(|call| call.number);
        let mistake = chain.mistake().filter(|_| current == Some(first.number));
        if let Some(mistake) = mistake.filter(|_| deadlock.awaits_receive()) {
            checks.report_mistake(&mistake);
            deadlock.excuse();
        }
        return;
    }
    let question = (first.number, chain.round);
    let needs = needs(checks);
    if needs.is_empty() || deadlock.asked.borrow().get(&first.rank) == Some(&question) {
        return;
    }
    deadlock.asked.borrow_mut().insert(first.rank, question);
    for Need { rank, waiting, act } in needs {
        let mut calls = chain.calls.clone();
        calls.push(waiting);
        checks.send(
            process,
            rank,
            &CheckMessage::Waits(WaitChain { round: chain.round, calls, act }),
        );
    }
}

/// Waits, at the end of a call that sends, until the receives of all its standard sends are posted.
/// Stops waiting if that cannot be expected any more.
pub fn await_receives(seen: &SeenCall) {
    let (checks, deadlock) = (&seen.checks, &seen.checks.deadlock);
    if !deadlock.awaits_receive() {
        return;
    }
    let begun = Instant::now();
    seen.library.process.wait_until(&mut |process| {
        !deadlock.awaits_receive()
            || begun.elapsed() > RECEIVER_TIME_MAX
            || checks.is_apart.get()
            || checks.is_revoked.get()
            || process.has_lost_processes()
    });
    if deadlock.awaits_receive() {
        deadlock.excuse();
    }
}
