//! The state of the library, in one place.

pub mod call_observer;
pub mod fortran_facts;
pub mod lending_table;
pub mod packed_message;
pub mod program_window;
pub mod standard_values;
pub mod user_operation;

use std::cell::{self, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use memory::Buffer;
use mpi::Process;
use mpi::attribute::Keyvals;
use mpi::communicator::Communicator;
use mpi::error_handler::{AddedErrors, ErrorHandler};
use mpi::group::Group;
use mpi::info::Info;
use mpi::session::Session;
use once_cell::sync::OnceCell;

use crate::c;
use crate::call_sites::CallSites;
use crate::codes::Messages;
use crate::generated::constants::MPI_ERR_LASTCODE;
use crate::handles::Table;
use crate::predefined::{FIRST_KEYVAL, PredefinedObjects};
use crate::requests::RequestTable;
use crate::streams::StreamTable;

use call_observer::CallObserver;
use fortran_facts::FortranFacts;
use lending_table::LendingTable;
use packed_message::PackedMessage;
use program_window::ProgramWindow;
use standard_values::StandardValues;
use user_operation::UserOperation;

/// A message that a matched probe received, and its communicator.
pub type KeptMessage = (mpi::MatchedMessage, c::Comm);

/// The state of the library in this process.
pub struct LibraryState {
    /// The state of MPI in this process.
    pub process: Process,
    /// The messages of the last calls that failed.
    pub messages: Messages,
    /// Error classes, codes and strings that the program added.
    pub added_errors: AddedErrors,
    /// Attribute keys that the program created.
    pub keyvals: Keyvals,
    /// The predefined objects.
    pub predefined: PredefinedObjects,
    pub communicators: LendingTable<c::Comm, Communicator>,
    pub datatypes: Table<c::Datatype, Arc<datatype::Datatype>>,
    /// Names and attributes that the program set on datatypes, including predefined ones.
    pub type_notes: RefCell<HashMap<c::Datatype, Rc<TypeRecord>>>,
    /// The handles of Fortran's parameterized datatypes, by kind, precision and range.
    pub fortran_types: RefCell<HashMap<FortranKind, c::Datatype>>,
    pub error_handlers: Table<c::Errhandler, CountedHandler>,
    /// The error handler of `MPI_FILE_NULL`.
    pub file_error_handler: RefCell<Rc<ErrorHandler>>,
    pub groups: Table<c::Group, Rc<Group>>,
    pub infos: Table<c::Info, Rc<Info>>,
    pub operations: Table<c::Op, UserOperation>,
    pub requests: RequestTable,
    pub windows: Table<c::Win, Rc<ProgramWindow>>,
    pub files: Table<c::File, Rc<files::File>>,
    /// The state that all files share.
    pub file_works: files::FileWorks,
    /// The ports that this process has open.
    pub ports: dynamic::Ports,
    /// The jobs that this process has spawned.
    pub child_jobs: dynamic::ChildJobs,
    /// Whether this process has begun to connect to the processes that have spawned the job.
    pub has_met_parent: cell::Cell<bool>,
    /// The intercommunicator with the processes that have spawned the job, if it was spawned.
    pub parent: cell::Cell<Option<c::Comm>>,
    /// The endpoints of the native interface.
    pub endpoints: Rc<endpoints::Endpoints>,
    /// The session that each open endpoint keeps open.
    pub endpoint_sessions: RefCell<HashMap<u32, Rc<Session>>>,
    /// Data representations that the program registered.
    pub representations: RefCell<Vec<Rc<dyn files::UserRepresentation>>>,
    /// Messages that matched probes received.
    pub messages_taken: Table<c::Message, KeptMessage>,
    /// Open packed messages of the native interface.
    pub packed_messages: Table<c::PackedMessage, PackedMessage>,
    pub sessions: Table<c::Session, Rc<Session>>,
    /// The values of the attributes that the standard defines.
    pub standard_values: StandardValues,
    /// Call sites in the program, for profiles.
    pub call_sites: CallSites,
    /// Facts that the Fortran bindings passed to the library.
    pub fortran: FortranFacts,
    /// The graphics processors whose memory the program may pass; none if it cannot have any.
    pub devices: cell::OnceCell<devices::Devices>,
    /// The program's streams of graphics processors.
    pub streams: StreamTable,
    /// The checks for mistakes of the program, if they are enabled.
    pub checks: cell::OnceCell<Rc<dyn CallObserver>>,
}

/// A parameterized datatype of Fortran: real, complex or integer; precision; range.
pub type FortranKind = (u8, Option<i32>, Option<i32>);

/// An error handler of the program, and how many handles of it the program holds.
#[derive(Debug)]
pub struct CountedHandler {
    pub handler: Rc<ErrorHandler>,
    pub handles: u32,
}

/// The name and the attributes of a datatype. They belong to the handle, not to the shared
/// datatype.
#[derive(Debug, Default)]
pub struct TypeRecord {
    /// The name that the program set.
    pub name: RefCell<Option<Box<[u8]>>>,
    /// The attributes that the program set.
    pub attributes: mpi::attribute::Attributes,
}

/// The library, in a form that all threads can reach.
struct SharedLibrary(LibraryState);

// SAFETY: `library` and `known_library` are the only ways to the state, and their callers guarantee
// that one thread at a time uses it. Objects that are not `Send` never leave the library.
unsafe impl Send for SharedLibrary {}
// SAFETY: one thread at a time uses the state, for the reason given for `Send`.
unsafe impl Sync for SharedLibrary {}

/// This is not the standard library's cell, whose synchronization thread checkers do not see.
static LIBRARY: OnceCell<SharedLibrary> = OnceCell::new();

/// Returns the state of the library, which the first call of any function creates.
///
/// # Safety
/// While the caller uses the result, no other thread uses the library:
/// - Below `MPI_THREAD_MULTIPLE` the program guarantees this for calls (MPI 5.0, section 11.6).
/// - At `MPI_THREAD_MULTIPLE`, before `MPI_Init` and after `MPI_Finalize` the caller holds the lock
///   of the process. The lock is released only inside waiting, where nothing is borrowed.
///
/// Without this guarantee the caller uses only what any thread may use at any time: the lock, the
/// entry lock, the doorbell, the clock, the configuration and the instruments of the process.
#[inline]
pub unsafe fn library() -> &'static LibraryState {
    &LIBRARY.get_or_init(|| SharedLibrary(LibraryState::new())).0
}

/// Returns the state of the library, which must exist.
///
/// # Safety
/// As for [`library`], which was called before.
#[inline(always)]
pub unsafe fn known_library() -> &'static LibraryState {
    // SAFETY: the caller guarantees that `library` was called, which creates the library.
    &unsafe { LIBRARY.get_unchecked() }.0
}

impl LibraryState {
    /// Lets spawned jobs with which this process is no longer connected live on independently, as
    /// the communicator with the handle `freed` was freed.
    pub fn note_freed(&self, freed: c::Comm) {
        self.streams.detach(freed);
        if self.parent.get() == Some(freed) {
            self.parent.set(None);
        }
        self.child_jobs.release(|processes| {
            let mut is_connected = false;
            self.communicators.each(|_, communicator| {
                let remote = communicator.remote().map(|remote| &remote.group);
                let groups = [Some(communicator.group()), remote];
                let mut gates = groups.into_iter().flatten().flat_map(|group| group.gates());
                is_connected |= gates.any(|gate| processes.contains(&gate));
            });
            is_connected
        });
    }

    /// Closes the connections with processes of other jobs that nothing needs any more.
    pub fn close_unused_gates(&self) {
        if !self.process.runtime().has_met_other_jobs() {
            return;
        }
        let mut groups = Vec::new();
        self.groups.each(|_, group| groups.push(Rc::clone(group)));
        self.process.close_unused_gates(Some(&groups));
    }

    /// Lets buffers lie in memory of graphics processors, if the program can have any.
    pub fn expect_devices(&self) {
        if self.devices.get().is_some() {
            return;
        }
        let devices = devices::Devices::default();
        let wanted = self.process.configuration().devices();
        if wanted.unwrap_or_else(|| devices.are_possible()) {
            let _ = self.devices.set(devices);
            self.predefined.stop_plain_buffers();
            memory::expect_distant();
        }
    }

    /// Returns a buffer in the memory that its address belongs to: that of a graphics processor, or
    /// the processor's.
    pub fn located(&self, buffer: Buffer, address: usize) -> Buffer {
        match self.devices.get().and_then(|devices| devices.owner(address)) {
            Some(distant) => buffer.in_distant(distant),
            None => buffer,
        }
    }

    /// Returns the error handler with this handle, if there is one.
    pub fn error_handler(&self, handle: c::Errhandler) -> Option<Rc<ErrorHandler>> {
        if let Some(handler) = self.predefined.error_handler(handle) {
            return Some(Rc::clone(handler));
        }
        self.error_handlers.with(handle, |counted| Rc::clone(&counted.handler))
    }

    fn new() -> Self {
        Self {
            process: Process::default(),
            messages: Messages::default(),
            added_errors: AddedErrors::after(MPI_ERR_LASTCODE),
            keyvals: Keyvals::starting_at(FIRST_KEYVAL),
            predefined: PredefinedObjects::new(),
            communicators: LendingTable::default(),
            datatypes: Table::default(),
            type_notes: RefCell::default(),
            fortran_types: RefCell::default(),
            error_handlers: Table::default(),
            file_error_handler: RefCell::new(Rc::new(ErrorHandler::Return)),
            groups: Table::default(),
            infos: Table::default(),
            operations: Table::default(),
            requests: RequestTable::default(),
            windows: Table::default(),
            files: Table::default(),
            file_works: files::FileWorks::default(),
            ports: dynamic::Ports::default(),
            child_jobs: dynamic::ChildJobs::default(),
            has_met_parent: cell::Cell::default(),
            parent: cell::Cell::default(),
            endpoints: Rc::default(),
            endpoint_sessions: RefCell::default(),
            representations: RefCell::default(),
            messages_taken: Table::default(),
            packed_messages: Table::default(),
            sessions: Table::default(),
            standard_values: StandardValues::default(),
            call_sites: CallSites::default(),
            fortran: FortranFacts::default(),
            streams: StreamTable::default(),
            devices: cell::OnceCell::new(),
            checks: cell::OnceCell::new(),
        }
    }
}
