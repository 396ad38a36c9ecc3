//! Checks calls for mistakes of the program, if the user has enabled it (`COMBRAY_CHECK`).
//!
//! When checks are enabled, every call passes its arguments here as words, before they are used,
//! and reports its end ([`SeenCall`]). The crate `checks` decides what is wrong. Its input is the
//! calls of this process, and the notes of other processes ([`CheckMessage`]), which arrive through
//! a channel that is separate from the messages of the program.

mod accesses;
mod announced_message;
mod blocks;
mod collectives;
mod deadlock;
mod memory;
mod messages;
mod objects;
mod operations;
mod phases;
mod program;
mod requests;
mod sites;
mod threads;
mod transfers;
mod uses;
mod watched;

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;
use std::ffi::c_int;
use std::rc::Rc;

use checks::{
    CallSite, CollectiveEntry, Mistake, ReportedMistakes, SeenAccess, SentMessage, WaitChain,
};
use mpi::{ActiveOperation, Process, SideChannel, Step};
use serde::{Deserialize, Serialize};

use crate::arguments::{KnownCommunicator, KnownDatatype};
use crate::c::{Comm, Datatype, Handle, Status};
use crate::call::Call;
use crate::entry_point::EntryPoint;
use crate::generated::constants::{MPI_STATUS_IGNORE, MPI_SUCCESS};
use crate::library::LibraryState;
use crate::library::call_observer::{CallObserver, CallTurns, ObservedCall};
use crate::output::print_message;

use accesses::{AccessChecks, AccessTime};
use announced_message::AnnouncedMessage;
use blocks::{BlockChecks, BlockName, KnownBlock};
use collectives::CollectiveChecks;
use deadlock::{DeadlockChecks, WaitsInCall};
use messages::MessageChecks;
use objects::MadeObjects;
use phases::Phases;
use program::InCall;
use requests::{SeenRequests, TrackedRequests, UnderwayTransfer};
use sites::NamedCallSites;
use threads::Turn;
use uses::ReceiveEnd;

/// The state of the checks for mistakes.
#[derive(Debug)]
pub struct Checks {
    channel: SideChannel,
    rank: u32,
    sites: RefCell<NamedCallSites>,
    reported: RefCell<ReportedMistakes>,
    collectives: CollectiveChecks,
    blocks: BlockChecks,
    requests: TrackedRequests,
    messages: MessageChecks,
    accesses: AccessChecks,
    phases: Phases,
    objects: MadeObjects,
    deadlock: DeadlockChecks,
    /// Whether processes of the world are in different operations, so that waiting for others is
    /// pointless.
    is_apart: Cell<bool>,
    /// Whether a communicator was revoked, so that messages need not be received.
    is_revoked: Cell<bool>,
    /// At this number of communicators or objects, the records of those that are gone are removed.
    purge_at: Cell<usize>,
    /// At the end: the numbers of notes that each process has sent to each other one. The first
    /// process adds them up.
    counts: RefCell<Vec<Vec<u64>>>,
    /// The total number of notes that were sent to this process, once it is known.
    expected: Cell<Option<u64>>,
}

/// The notes that processes send to each other.
#[derive(Debug, Serialize, Deserialize)]
enum CheckMessage {
    /// The first process of the communicator with this number has called a collective operation.
    Collective(u64, CollectiveEntry),
    /// A message goes to the receiver of this note, in the communicator with this number.
    Message(u64, SentMessage),
    /// One-sided accesses to memory of the receiver of this note, in the window with this number
    /// and name.
    Accesses(u64, String, AccessTime, Vec<SeenAccess>),
    /// The sender will make no more accesses to the window with this number.
    Left(u64),
    /// The data that the sender contributes for the receiver of this note in a collective
    /// operation.
    Block(BlockName, KnownBlock),
    /// A message that the sender has announced is not sent.
    Unsent(AnnouncedMessage),
    /// A receive is posted for the message with this number, which the receiver of this note has
    /// announced.
    ReceivePosted(u64),
    /// The calls of this chain wait for the receiver of this note.
    Waits(WaitChain),
    /// How many notes the sender has sent to each process, at its end.
    Counts(Vec<u64>),
    /// How many notes all processes have sent to the receiver of this note.
    Expected(u64),
    /// The processes of the world are in different operations.
    Apart,
}

/// Starts the checks, if the user has enabled them.
pub fn start(library: &LibraryState) {
    let process = &library.process;
    if !process.configuration().checks() {
        return;
    }
    let checks = Rc::new(Checks {
        channel: SideChannel::of_checks(process),
        rank: process.rank(),
        sites: RefCell::default(),
        reported: RefCell::default(),
        collectives: CollectiveChecks::default(),
        blocks: BlockChecks::default(),
        requests: TrackedRequests::default(),
        messages: MessageChecks::default(),
        accesses: AccessChecks::default(),
        phases: Phases::default(),
        objects: MadeObjects::default(),
        deadlock: DeadlockChecks::default(),
        is_apart: Cell::new(false),
        is_revoked: Cell::new(false),
        purge_at: Cell::new(PURGE_MIN),
        counts: RefCell::default(),
        expected: Cell::new(None),
    });
    if library.checks.set(Rc::clone(&checks) as Rc<dyn CallObserver>).is_ok() {
        process.advance_in_progress(checks);
    }
}

/// With fewer communicators or objects, no records are removed.
const PURGE_MIN: usize = 64;

/// Returns the checks, if they are enabled.
fn checks_of(library: &LibraryState) -> Option<&Checks> {
    let observer: &dyn Any = &**library.checks.get()?;
    observer.downcast_ref()
}

/// Reports, at the end of the program, the requests, objects and messages that it has left. Called
/// when the attributes are deleted.
pub fn finish(library: &LibraryState) {
    let Some(checks) = checks_of(library) else { return };
    checks.requests.report_left(checks);
    checks.objects.report_left(checks, library);
    if messages::await_all(checks, &library.process) && !checks.is_revoked.get() {
        checks.messages.report_left(checks);
    }
}

impl Checks {
    fn report_mistake(&self, mistake: &Mistake) {
        if self.reported.borrow_mut().is_new(mistake) {
            print_message(&format!("check: {}", mistake.text()));
        }
    }

    fn send(&self, process: &Process, to: u32, note: &CheckMessage) {
        if let Ok(bytes) = serde_json::to_vec(note) {
            self.channel.send(process, to, &bytes);
        }
    }

    fn take(&self, process: &Process, from: u32, note: CheckMessage) {
        match note {
            CheckMessage::Collective(communicator, entry) => {
                self.collectives.add_received(self, process, communicator, from, entry);
            }
            CheckMessage::Message(communicator, message) => {
                self.messages.count(from);
                self.messages.add_received(self, process, communicator, message);
            }
            CheckMessage::Accesses(window, name, time, accesses) => {
                self.messages.count(from);
                self.accesses.add_received(self, window, &name, time, accesses);
            }
            CheckMessage::Left(window) => self.accesses.receive_left(window, from),
            CheckMessage::Block(name, block) => {
                self.messages.count(from);
                self.blocks.add_received(self, name, block);
            }
            CheckMessage::Unsent(message) => {
                self.messages.count(from);
                self.messages.forget(message);
            }
            CheckMessage::ReceivePosted(number) => self.deadlock.note_expected(number),
            CheckMessage::Waits(chain) => deadlock::add_received(self, process, chain),
            CheckMessage::Counts(counts) => self.take_counts(process, counts),
            CheckMessage::Expected(count) => self.expected.set(Some(count)),
            CheckMessage::Apart => self.is_apart.set(true),
        }
    }

    /// Collects, in the first process, the numbers of notes that each process has sent. When all
    /// have arrived, it sends each process the number of notes that it must expect.
    fn take_counts(&self, process: &Process, counts: Vec<u64>) {
        let size = counts.len();
        self.counts.borrow_mut().push(counts);
        if self.counts.borrow().len() < size {
            return;
        }
        let all = self.counts.take();
        for to in 0..size {
            let sum = all.iter().filter_map(|counts| counts.get(to)).sum();
            self.send(process, to as u32, &CheckMessage::Expected(sum));
        }
    }

    /// Records that processes of the world are in different operations, and informs all others, so
    /// that no process waits for others at the end.
    fn part(&self, process: &Process) {
        self.is_apart.set(true);
        for rank in (0..process.world().size()).filter(|rank| *rank != self.rank) {
            self.send(process, rank, &CheckMessage::Apart);
        }
    }

    /// Removes the records of objects that are gone, if there are many.
    fn purge(&self, library: &LibraryState) {
        if self.collectives.len().max(self.objects.len()) < self.purge_at.get() {
            return;
        }
        let process = &library.process;
        let mut alive = HashSet::new();
        let lasting = [process.world_if_any(), process.alone_if_any()];
        alive.extend(lasting.into_iter().flatten().filter_map(|one| one.number()));
        library.communicators.each(|_, one| alive.extend(one.number()));
        self.collectives.purge(&|number| alive.contains(&number));
        self.blocks.purge(&|number| alive.contains(&number));
        self.messages.purge(&|number| alive.contains(&number));
        self.objects.purge(library);
        let left = self.collectives.len().max(self.objects.len());
        self.purge_at.set(PURGE_MIN.max(2 * left));
    }

    /// Processes all notes that have arrived from other processes. Returns whether there were any.
    fn take_all(&self, process: &Process) -> bool {
        let mut active = false;
        while let Some((from, bytes)) = self.channel.next(process) {
            active = true;
            if let Ok(note) = serde_json::from_slice(&bytes) {
                self.take(process, from, note);
            }
        }
        active
    }
}

impl ActiveOperation for Checks {
    fn noun(&self) -> &'static str {
        "the checks for mistakes"
    }

    fn advance(&self, process: &Process) -> Step {
        let active = self.take_all(process);
        deadlock::check(self, process);
        if active { Step::Active } else { Step::Idle }
    }
}

/// A call that is being checked.
pub struct SeenCall {
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    checks: Rc<Checks>,
    words: Vec<usize>,
    site: OnceCell<Rc<CallSite>>,
    /// The communicator of the collective operation that the call is, and the operation's number
    /// there, while it runs.
    collective: Option<(u64, u64)>,
    /// What the call sends and receives, if that is complete when the call returns.
    transfer: Option<Rc<UnderwayTransfer>>,
    requests: SeenRequests,
    /// Whether all processes take part in the call.
    ends_phase: bool,
    _waits: WaitsInCall,
    /// Held until the call ends, if only one thread at a time may be in a call.
    _turn: Option<Turn>,
    _in_call: InCall,
}

impl CallObserver for Checks {
    #[cold]
    fn begin(
        self: Rc<Self>,
        entry: &'static EntryPoint,
        library: &'static LibraryState,
        words: &[usize],
        turns: CallTurns,
    ) -> Box<dyn ObservedCall> {
        let turn = (turns == CallTurns::OneByOne).then(|| Turn::take(entry, library));
        let waits = WaitsInCall::begin(&self);
        let words = words.to_vec();
        let mut seen = SeenCall {
            entry,
            library,
            checks: self,
            words,
            site: OnceCell::new(),
            collective: None,
            transfer: None,
            requests: SeenRequests::default(),
            ends_phase: false,
            _waits: waits,
            _turn: turn,
            _in_call: InCall::begin(),
        };
        if seen.function() == "MPI_Finalize" {
            seen.checks.messages.close(&seen);
        }
        seen.ends_phase = phases::begin(&seen);
        seen.collective = collectives::begin(&seen);
        let transfer = transfers::transfer_of(&seen);
        if seen.word("request").is_none()
            && let Some(transfer) = &transfer
        {
            seen.transfer = Some(requests::begin_blocking(&seen, transfer));
        }
        accesses::begin(&seen);
        if matches!(seen.function(), "MPI_Mrecv" | "MPI_Imrecv") {
            seen.checks.messages.receive_matched(&seen);
        }
        seen.requests = requests::begin(&seen, transfer);
        if seen.word("win").is_some() {
            seen.transfer = seen.transfer.or_else(|| seen.requests.begun());
        }
        Box::new(seen)
    }
}

impl ObservedCall for SeenCall {
    #[cold]
    fn end(mut self: Box<Self>, code: c_int) {
        if code == MPI_SUCCESS {
            deadlock::await_receives(&self);
        }
        let is_local = phases::is_local(&self);
        if let Some(operation) = self.collective {
            self.checks.collectives.end(operation);
        }
        if let Some(transfer) = &self.transfer {
            match transfer.receive() {
                // A receive that fails because the message was too long has a message, too.
                Some(receive) => self.checks.messages.end(&self, receive, ReceiveEnd::WithMessage),
                None if code != MPI_SUCCESS => transfer.fail(&self),
                None => {}
            }
        }
        let requests = std::mem::take(&mut self.requests);
        requests::end(&self, requests, code);
        if code == MPI_SUCCESS {
            objects::end(&self);
            accesses::end(&self);
            match self.function() {
                "MPI_Mprobe" | "MPI_Improbe" => self.checks.messages.take_matched(&self),
                "MPI_Comm_free" | "MPI_Comm_disconnect" => self.checks.purge(self.library),
                "MPIX_Comm_revoke" => self.checks.is_revoked.set(true),
                _ => {}
            }
        }
        phases::end(&self, is_local);
    }
}

impl SeenCall {
    /// Returns the name of the function, without the suffix of the form with large counts.
    fn function(&self) -> &'static str {
        self.entry.name.strip_suffix("_c").unwrap_or(self.entry.name)
    }

    /// Returns the call site in the program.
    fn site(&self) -> Rc<CallSite> {
        let current = || self.checks.sites.borrow_mut().current(self.entry.name);
        Rc::clone(self.site.get_or_init(current))
    }

    /// Returns the argument with a name, if the function has one.
    fn word(&self, name: &str) -> Option<usize> {
        let place = self.entry.parameters.iter().position(|parameter| *parameter == name)?;
        self.words.get(place).copied()
    }

    fn integer(&self, name: &str) -> Option<i64> {
        self.word(name).map(|word| word as i64)
    }

    /// Returns source and tag from the status that the call has stored, unless the program ignores
    /// it.
    fn status(&self) -> Option<(u32, i32)> {
        let place = self.word("status")?;
        let place = std::ptr::with_exposed_provenance_mut::<Status>(place);
        if place.addr() == MPI_STATUS_IGNORE {
            return None;
        }
        // SAFETY: the call has succeeded, and has stored a status there.
        let status = unsafe { *place };
        Some((u32::try_from(status.source).ok()?, status.tag))
    }

    fn call(&self) -> Call {
        Call::new(self.entry, self.library)
    }

    /// Returns the communicator that the argument with a name refers to, if it is usable.
    fn communicator(&self, name: &str) -> Option<KnownCommunicator<'static>> {
        let handle = Comm::from_raw(self.word(name)?);
        let found = self.call().counted_communicator(1, handle).ok()?;
        if found.is_revoked() {
            self.checks.is_revoked.set(true);
        }
        found.is_ready().then_some(found)
    }

    /// Returns the datatype that the argument with a name refers to.
    fn datatype(&self, name: &str) -> Option<KnownDatatype> {
        self.call().datatype(1, Datatype::from_raw(self.word(name)?)).ok()
    }
}
