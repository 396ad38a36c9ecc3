//! Where calls are looked at for mistakes of the program, if that is wanted (`COMBRAY_CHECK`).
//!
//! Every call comes by here then, with its arguments as words, before anything else is done with
//! them and again when it is over ([`SeenCall`]). What is wrong is decided in the crate `checks`,
//! out of what the calls of this process tell and what other processes send ([`Note`]) through a
//! channel beside the messages of the program.

mod collectives;
mod sites;

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;

use checks::{CallSite, CollectiveEntry, Mistake, MistakesTold};
use mpi::{Process, RequestService, SideChannel};
use serde::{Deserialize, Serialize};

use crate::arguments::KnownCommunicator;
use crate::c::{Comm, Datatype, Handle};
use crate::calls::environment::say;
use crate::entry::{Call, EntryPoint};
use crate::library::LibraryState;

use collectives::CollectiveChecks;
use sites::CallSites;

/// What is known for mistake mistakes.
#[derive(Debug)]
pub struct Checks {
    channel: SideChannel,
    rank: u32,
    sites: RefCell<CallSites>,
    told: RefCell<MistakesTold>,
    collectives: CollectiveChecks,
}

/// What processes tell each other.
#[derive(Debug, Serialize, Deserialize)]
enum Note {
    /// The first process of the communicator with this number has called a collective operation.
    Collective(u64, CollectiveEntry),
}

/// From now on calls are looked at, if the person wants it.
pub fn start(library: &LibraryState) {
    let process = &library.process;
    if !process.configuration().checks() {
        return;
    }
    let checks = Rc::new(Checks {
        channel: SideChannel::open(process),
        rank: process.rank(),
        sites: RefCell::default(),
        told: RefCell::default(),
        collectives: CollectiveChecks::default(),
    });
    if library.checks.set(Rc::clone(&checks)).is_ok() {
        process.serve_in_progress(checks);
    }
}

/// Whether calls are looked at.
pub fn is_wanted(library: &LibraryState) -> bool {
    library.checks.get().is_some()
}

impl Checks {
    fn tell(&self, mistake: &Mistake) {
        if self.told.borrow_mut().is_new(mistake) {
            say(&format!("check: {}", mistake.text()));
        }
    }

    fn send(&self, process: &Process, to: u32, note: &Note) {
        if let Ok(bytes) = serde_json::to_vec(note) {
            self.channel.send(process, to, &bytes);
        }
    }

    fn take(&self, from: u32, note: Note) {
        match note {
            Note::Collective(communicator, entry) => {
                self.collectives.hear(self, communicator, from, entry);
            }
        }
    }
}

impl RequestService for Checks {
    fn serve(&self, process: &Process) -> bool {
        let mut active = false;
        while let Some((from, bytes)) = self.channel.next(process) {
            active = true;
            if let Ok(note) = serde_json::from_slice(&bytes) {
                self.take(from, note);
            }
        }
        active
    }
}

/// A call that is looked at, while it is made.
pub struct SeenCall {
    entry: &'static EntryPoint,
    library: &'static LibraryState,
    checks: Rc<Checks>,
    words: Vec<usize>,
    /// The communicator of the collective operation that it is, while it runs.
    collective: Option<u64>,
}

impl SeenCall {
    /// The program has made a call.
    #[cold]
    pub fn begin(
        entry: &'static EntryPoint,
        library: &'static LibraryState,
        words: &[usize],
    ) -> Option<Box<Self>> {
        let checks = Rc::clone(library.checks.get()?);
        let words = words.to_vec();
        let mut seen = Self { entry, library, checks, words, collective: None };
        seen.collective = collectives::begin(&seen);
        Some(Box::new(seen))
    }

    /// It is over.
    #[cold]
    pub fn end(self, _code: c_int) {
        if let Some(communicator) = self.collective {
            self.checks.collectives.end(communicator);
        }
    }

    /// Where the program makes it.
    fn site(&self) -> Rc<CallSite> {
        self.checks.sites.borrow_mut().current(self.entry.name)
    }

    /// The argument with a name, if the function has it.
    fn word(&self, name: &str) -> Option<usize> {
        let place = self.entry.parameters.iter().position(|parameter| *parameter == name)?;
        self.words.get(place).copied()
    }

    fn integer(&self, name: &str) -> Option<i64> {
        self.word(name).map(|word| word as i64)
    }

    fn call(&self) -> Call {
        Call::new(self.entry, self.library)
    }

    /// The communicator that the argument with a name is, if it can be used.
    fn communicator(&self, name: &str) -> Option<KnownCommunicator> {
        let handle = Comm::from_raw(self.word(name)?);
        let found = self.call().any_communicator(1, handle).ok()?;
        found.is_ready().then_some(found)
    }

    /// The datatype that the argument with a name is.
    fn datatype(&self, name: &str) -> Option<crate::arguments::KnownDatatype> {
        self.call().datatype(1, Datatype::from_raw(self.word(name)?)).ok()
    }
}
