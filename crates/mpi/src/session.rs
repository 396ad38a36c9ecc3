//! Sessions: the use of MPI without the world (section 11.3 of the MPI standard).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};

use crate::buffer_place::BufferPlace;
use crate::communicator::Communicator;
use crate::error_handler::{ErrorHandler, InstalledHandler};
use crate::thread_level::ThreadLevel;

/// A session, from `MPI_Session_init` to `MPI_Session_finalize`. Groups and communicators created
/// from it refer to it only for its buffer.
pub struct Session {
    level: ThreadLevel,
    error_handler: InstalledHandler,
    buffer: Rc<BufferPlace>,
    open: Cell<bool>,
}

/// A set of processes that sessions see (section 11.3.2).
#[derive(Clone, Debug)]
pub enum ProcessSet {
    /// All processes of the job.
    World,
    /// This process.
    Myself,
    /// The processes of a communicator that the program has published.
    Published(Rc<Communicator>),
    /// No process: the program has withdrawn the set.
    Withdrawn,
}

/// The sets that every job has, by their names in the standard.
const STANDARD_SETS: [(&str, ProcessSet); 2] =
    [("mpi://WORLD", ProcessSet::World), ("mpi://SELF", ProcessSet::Myself)];

/// The beginning of the names that the standard reserves.
const RESERVED: &str = "mpi://";

/// The process sets that sessions see. A set keeps its number and its name for ever.
#[derive(Debug, Default)]
pub struct ProcessSets {
    published: RefCell<Vec<(String, ProcessSet)>>,
}

impl ProcessSets {
    /// Returns the names of all sets, by number.
    pub fn names(&self) -> Vec<String> {
        let standard = STANDARD_SETS.iter().map(|(name, _)| (*name).to_owned());
        standard.chain(self.published.borrow().iter().map(|(name, _)| name.clone())).collect()
    }

    /// Returns the set with a name. The case of letters is ignored, as in a URI.
    ///
    /// # Errors
    /// `Arg` if there is no such set.
    pub fn named(&self, name: &[u8]) -> Result<ProcessSet> {
        let has_name = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        if let Some((_, set)) = STANDARD_SETS.iter().find(|(known, _)| has_name(known)) {
            return Ok(set.clone());
        }
        let published = self.published.borrow();
        let found = published.iter().find(|(known, _)| has_name(known));
        found.map(|(_, set)| set.clone()).ok_or_else(|| {
            let sentence = format!(
                "is \"{}\", but the sets are {}",
                String::from_utf8_lossy(name),
                self.names().join(", ")
            );
            Error::new(ErrorClass::Arg, sentence)
        })
    }

    /// Checks whether the program may publish a set of this name.
    ///
    /// # Errors
    /// `Arg` if it is empty, or one of the names that the standard reserves.
    pub fn check_name(name: &str) -> Result<()> {
        let begins = name.as_bytes().get(..RESERVED.len());
        let is_reserved =
            begins.is_some_and(|begin| begin.eq_ignore_ascii_case(RESERVED.as_bytes()));
        if is_reserved || name.is_empty() {
            let sentence = format!(
                "is \"{name}\", but the name of a process set must not be empty, and names that \
                 begin with mpi:// belong to the MPI standard: choose one such as app://team"
            );
            return Err(Error::new(ErrorClass::Arg, sentence));
        }
        Ok(())
    }

    /// Publishes a set, in place of an earlier one with this name.
    pub(crate) fn publish(&self, name: &str, communicator: Rc<Communicator>) {
        self.put(name, ProcessSet::Published(communicator));
    }

    /// Withdraws a set. Its name and its number stay.
    ///
    /// # Errors
    /// `Arg` if the program has published no set with this name.
    pub fn withdraw(&self, name: &str) -> Result<()> {
        match self.named(name.as_bytes())? {
            ProcessSet::World | ProcessSet::Myself => {
                let sentence = format!("is \"{name}\", a set that every session has");
                Err(Error::new(ErrorClass::Arg, sentence))
            }
            ProcessSet::Published(_) | ProcessSet::Withdrawn => {
                self.put(name, ProcessSet::Withdrawn);
                Ok(())
            }
        }
    }

    /// Withdraws all sets that the program has published.
    pub(crate) fn withdraw_all(&self) {
        self.published.borrow_mut().iter_mut().for_each(|(_, set)| *set = ProcessSet::Withdrawn);
    }

    fn put(&self, name: &str, set: ProcessSet) {
        let mut published = self.published.borrow_mut();
        match published.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = set,
            None => published.push((name.to_owned(), set)),
        }
    }
}

impl Session {
    pub(crate) fn new(level: ThreadLevel, error_handler: Rc<ErrorHandler>) -> Self {
        Self {
            level,
            error_handler: InstalledHandler::new(error_handler),
            buffer: Rc::default(),
            open: Cell::new(true),
        }
    }

    /// Closes the session. Returns whether it was open.
    pub(crate) fn end(&self) -> bool {
        self.open.replace(false)
    }

    /// The thread level of the session.
    pub fn thread_level(&self) -> ThreadLevel {
        self.level
    }

    /// The error handler for operations on the session.
    pub fn error_handler(&self) -> Rc<ErrorHandler> {
        self.error_handler.get()
    }

    /// Sets the error handler for operations on the session.
    pub fn set_error_handler(&self, handler: Rc<ErrorHandler>) {
        self.error_handler.set(handler);
    }

    /// The place where the program attaches the session's own buffer for buffered sends.
    pub fn buffer(&self) -> &Rc<BufferPlace> {
        &self.buffer
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", if self.open.get() { "open" } else { "closed" })
    }
}
